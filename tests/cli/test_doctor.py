"""`minispec doctor`: what is there, what is missing, what to do; it fails only if the demo cannot work."""

import json
import os
from importlib import metadata

import pytest
import torch
from pairs import build_pair, call

from minispec.cli import doctor
from minispec.native import library


@pytest.fixture(autouse=True)
def home(minispec_home):
    """An empty cache folder."""


def findings_of(capsys, status=0):
    """Runs the command; returns its findings by name."""
    code, out, err = call(capsys, "doctor", "--json")
    assert code == status, err
    document = json.loads(out)
    assert document["passed"] == (status == 0)
    return {one["name"]: one for one in document["findings"]}


def test_it_says_what_is_there(capsys):
    """Versions, cores, threads, torch, compiler, GPU, pairs, cache, JupyterLab."""
    found = findings_of(capsys)
    assert found["torch"]["value"] == metadata.version("torch")
    assert str(os.cpu_count()) in found["processor"]["value"]
    assert str(torch.get_num_threads()) in found["threads"]["value"]
    wanted = {"python", "minispec", "C++ compiler", "GPU", "cache folder"}
    assert wanted | {"pair stories", "jupyterlab"} <= found.keys()
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
    for name in ("native", "runs"):  # libraries, and trainings to go on with: no pairs
        (minispec_home / name).mkdir(exist_ok=True)
    found = findings_of(capsys)
    assert found["pair quick"]["state"] == found["pair half"]["state"] == "broken"
    assert not {"pair native", "pair runs"} & found.keys()
    assert str(minispec_home / "quick") in found["pair quick"]["advice"]


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
    assert {"torch", "numpy", "tokenizers", "typer"} <= set(doctor.requirements())
    assert not {"pytest", "ruff", "jupyterlab", "matplotlib"} & set(doctor.requirements())


def test_no_folder_to_write_to(capsys, monkeypatch, tmp_path):
    """A cache folder that is a file fails."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MINISPEC_HOME", str(tmp_path / "file"))
    assert "MINISPEC_HOME" in findings_of(capsys, status=1)["cache folder"]["advice"]


def test_a_compiler_is_found_or_missing(monkeypatch):
    """Without one it is said where to get one, and the demo works."""
    monkeypatch.setenv("CXX", "")
    monkeypatch.setattr("shutil.which", lambda name: "/bin/g++" if name == "g++" else None)
    (one,) = doctor.compiler()
    assert (one.state, one.value) == ("fine", "/bin/g++")
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr(library, "find_spec", lambda name: None)
    (one,) = doctor.compiler()
    assert one.state == "missing" and "only the native backend needs it" in one.advice and not one.needed
    monkeypatch.setattr(library, "find_spec", lambda name: name == "ziglang" or None)
    (one,) = doctor.compiler()
    assert one.state == "fine" and "ziglang" in one.value


def test_it_says_whether_the_native_library_is_built(monkeypatch, tmp_path):
    """A machine that has it needs no compiler."""
    (one,) = doctor.native()
    assert one.state == "missing" and "--backend native" in one.advice
    monkeypatch.setattr(doctor, "find_library", lambda *_: tmp_path)
    (one,) = doctor.native()
    assert one.state == "fine" and "no compiler" in one.value


def test_no_jupyterlab_and_no_matplotlib(monkeypatch):
    """They are missing, not broken, and the lines tell what to install."""

    def none(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(doctor.metadata, "version", none)
    *others, lab, figures = doctor.versions()
    for fact, extra in ((lab, "notebooks"), (figures, "figures")):
        assert fact.state == "missing" and f"pip install -e '.[{extra}]'" in fact.advice and not fact.needed
    assert any(other.state == "broken" for other in others)


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
