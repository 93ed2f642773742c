"""`minispec doctor`: what is there, what is missing, what to do; it fails only if the demo cannot work."""

import json
import os
import shutil
from importlib import metadata
from pathlib import Path

import pytest
import torch
from pairs import build_pair, call

from minispec.cli import doctor
from minispec.native import library


@pytest.fixture(autouse=True)
def quick(minispec_home, monkeypatch):
    """An empty cache folder, and a compiler that is not asked to compile."""
    monkeypatch.setattr(doctor, "fault_of", lambda path: "")


def findings_of(capsys, status=0):
    """Runs the command; returns its findings by name."""
    code, out, err = call(capsys, "doctor", "--json")
    assert code == status, err
    document = json.loads(out)
    assert document["passed"] == (status == 0)
    return {one["name"]: one for one in document["findings"]}


def test_it_says_what_is_there(capsys):
    """Versions, cores, threads, torch, compiler, GPU, pairs, disk, signs, JupyterLab."""
    found = findings_of(capsys)
    assert found["torch"]["value"] == metadata.version("torch")
    assert str(os.cpu_count()) in found["processor"]["value"]
    assert str(torch.get_num_threads()) in found["threads"]["value"]
    wanted = {"python", "minispec", "C++ compiler", "GPU", "cache folder", "free disk", "characters"}
    assert wanted | {"pair stories", "terminal", "JupyterLab"} <= found.keys()
    assert "complete" in found["pair stories"]["value"] and found["pair stories"]["state"] == "fine"
    assert found["pair quick"]["state"] == "missing" and "minispec train" in found["pair quick"]["advice"]
    for one in found.values():
        assert one["state"] == "fine" or one["advice"], one


def test_people_get_lines(capsys):
    """A line each, what to do below it, and a last line that says whether the demo can work."""
    status, out, _ = call(capsys, "doctor")
    assert status == 0 and "✓ torch" in out and out.rstrip().endswith("all that `make demo` needs is there")


def test_a_broken_pair_of_ones_own_is_listed_and_is_no_failure(capsys, minispec_home):
    """The demo does without it; the advice names the folder and the command."""
    build_pair(minispec_home / "quick")
    assert "complete" in findings_of(capsys)["pair quick"]["value"]
    (minispec_home / "quick" / "target" / "model.safetensors").write_bytes(b"short")
    (minispec_home / "half").mkdir()
    found = findings_of(capsys)
    assert found["pair quick"]["state"] == found["pair half"]["state"] == "broken"
    assert str(minispec_home / "quick") in found["pair quick"]["advice"]


def test_what_a_crash_has_left_is_listed(capsys, minispec_home):
    """Half-written folders take room, and nobody else would find them."""
    (minispec_home / ".quick-abc123").mkdir()
    assert ".quick-abc123" in findings_of(capsys)["cache folder"]["advice"]


def test_without_the_shipped_pair_it_fails(capsys, monkeypatch, tmp_path):
    """The demo needs it."""
    monkeypatch.setattr(doctor, "SHIPPED", tmp_path)
    found = findings_of(capsys, status=1)
    assert found["pair stories"]["state"] == "broken" and "get the project" in found["pair stories"]["advice"]
    status, out, _ = call(capsys, "doctor")
    assert status == 1 and "broken, and needed: pair stories" in out


def test_a_missing_package_fails_and_says_how_to_install_it(capsys, monkeypatch):
    """What minispec needs to run is read from its own record."""
    monkeypatch.setattr(doctor, "requirements", lambda: ["torch", "no-such-package"])
    found = findings_of(capsys, status=1)
    assert found["no-such-package"]["state"] == "broken"
    assert "pip install no-such-package" in found["no-such-package"]["advice"]


def test_requirements_are_the_packages_own():
    """Without extras, and with the versions cut off."""
    assert {"torch", "numpy", "matplotlib", "typer"} <= set(doctor.requirements())
    assert not {"pytest", "ruff", "jupyterlab"} & set(doctor.requirements())


def test_a_full_disk_and_no_folder_to_write_to(capsys, monkeypatch, tmp_path):
    """A full disk fails; so does a cache folder that is a file."""
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: usage._replace(free=1000))
    assert findings_of(capsys, status=1)["free disk"]["state"] == "broken"
    monkeypatch.undo()
    monkeypatch.setattr(doctor, "fault_of", lambda path: "")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MINISPEC_HOME", str(tmp_path / "file"))
    assert "MINISPEC_HOME" in findings_of(capsys, status=1)["cache folder"]["advice"]


def test_a_compiler_that_fails_is_told_from_none(monkeypatch, tmp_path):
    """Both say where to get one, and neither stops the demo."""
    monkeypatch.setenv("CXX", "")
    monkeypatch.setattr(doctor, "fault_of", lambda path: "it fails (no header)")
    monkeypatch.setattr(doctor.shutil, "which", lambda name: "/bin/g++" if name == "g++" else None)
    (one,) = doctor.compiler()
    assert one.state == "broken" and "/bin/g++: it fails" in one.value and not one.needed
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    monkeypatch.setattr(library, "find_spec", lambda name: None)
    (one,) = doctor.compiler()
    assert one.state == "missing" and "only the native backend needs it" in one.advice and not one.needed
    monkeypatch.setattr(library, "find_spec", lambda name: name == "ziglang" or None)
    (one,) = doctor.compiler()
    assert one.state == "fine" and "ziglang" in one.value


@pytest.mark.skipif(os.name != "posix", reason="scripts stand in for compilers")
def test_a_compiler_that_does_not_run_is_found_out(monkeypatch, tmp_path):
    """One that complains, one that does nothing, and one that is not there; a real one passes."""
    monkeypatch.undo()
    bad = tmp_path / "bad"
    bad.write_text("#!/bin/sh\necho no licence >&2; exit 1\n")
    bad.chmod(0o755)
    assert doctor.fault_of(str(bad)) == "it fails (no licence)"
    bad.write_text("#!/bin/sh\n")
    assert "it makes nothing" in doctor.fault_of(str(bad))
    assert "does not run" in doctor.fault_of(str(tmp_path / "nowhere"))
    if shutil.which("g++"):
        assert doctor.fault_of(shutil.which("g++")) == ""


def test_it_says_whether_the_native_library_is_built(monkeypatch, tmp_path):
    """A machine that has it needs no compiler."""
    (one,) = doctor.native()
    assert one.state == "missing" and "--backend native" in one.advice
    monkeypatch.setattr(doctor, "find_library", lambda *_: tmp_path)
    (one,) = doctor.native()
    assert one.state == "fine" and "no compiler" in one.value


def test_a_terminal_without_signs(monkeypatch, capsys):
    """An old encoding, and a narrow window, are told with what to do."""
    monkeypatch.setenv("COLUMNS", "40")

    class Old:
        encoding = "ascii"

    monkeypatch.setattr(doctor.sys, "stdout", Old())
    found = {one.name: one for one in doctor.terminal()}
    monkeypatch.undo()
    assert "PYTHONUTF8" in found["characters"].advice and "40 columns" in found["terminal"].value
    assert found["terminal"].state == "missing"


def test_no_jupyterlab(monkeypatch):
    """It is missing, not broken, and the line says what to install."""

    def none(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(doctor.metadata, "version", none)
    (one,) = doctor.jupyter()
    assert one.state == "missing" and "minispec[notebooks]" in one.advice
    assert Path(doctor.__file__).exists()


@pytest.mark.parametrize(
    ("system", "advice"),
    [("Darwin", "xcode-select"), ("Windows", "g++ or clang++"), ("Linux", "apt install")],
)
def test_where_a_compiler_comes_from_on_each_system(system, advice, monkeypatch, tmp_path):
    """Without one the advice is the system's own, and always names a package that needs no administrator."""
    monkeypatch.setattr(doctor.platform, "system", lambda: system)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(library, "find_spec", lambda name: None)
    (one,) = doctor.compiler()
    assert one.state == "missing" and advice in one.advice and "pip install ziglang" in one.advice
