"""`minispec doctor`: what is there, what is missing, what to do; it fails only if the demo cannot work."""

import os
from importlib import metadata

import pytest
import torch
from pairs import build_pair

from minispec.cli import doctor

pytestmark = pytest.mark.usefixtures("minispec_home")


@pytest.fixture
def findings(document):
    """Runs the command; returns its findings by name."""

    def run(status=0):
        facts, _ = document("doctor", status=status)
        assert facts["passed"] == (status == 0)
        return {finding["name"]: finding for finding in facts["findings"]}

    return run


def test_it_says_what_is_there(findings, command):
    """Versions, cores, threads, torch, compiler, GPU, pairs, cache, JupyterLab; people get lines."""
    facts = findings()
    assert facts["torch"]["value"] == metadata.version("torch")
    assert str(os.cpu_count()) in facts["processor"]["value"]
    assert str(torch.get_num_threads()) in facts["threads"]["value"]
    assert {"python", "minispec", "C++ compiler", "GPU", "cache folder", "jupyterlab"} <= facts.keys()
    assert "complete" in facts["pair stories"]["value"] and facts["pair stories"]["state"] == "fine"
    assert facts["pair quick"]["state"] == "missing" and "minispec train" in facts["pair quick"]["advice"]
    for finding in facts.values():
        assert finding["state"] == "fine" or finding["advice"], finding
    out, _ = command("doctor")
    assert "✓ torch" in out and out.rstrip().endswith("all that `make demo` needs is there")


def test_a_broken_pair_of_ones_own_is_listed_and_is_no_failure(findings, minispec_home):
    """The demo does without it; the advice names the folder and the command."""
    build_pair(minispec_home / "quick")
    assert "complete" in findings()["pair quick"]["value"]
    (minispec_home / "quick" / "target" / "model.safetensors").write_bytes(b"short")
    (minispec_home / "half").mkdir()
    for name in ("native", "runs"):  # libraries, and trainings to go on with: no pairs
        (minispec_home / name).mkdir(exist_ok=True)
    facts = findings()
    assert facts["pair quick"]["state"] == facts["pair half"]["state"] == "broken"
    assert not {"pair native", "pair runs"} & facts.keys()
    assert str(minispec_home / "quick") in facts["pair quick"]["advice"]


def test_without_the_shipped_pair_it_fails(findings, command, monkeypatch, tmp_path):
    """The demo needs it."""
    monkeypatch.setattr(doctor, "SHIPPED", tmp_path)
    facts = findings(status=1)["pair stories"]
    assert facts["state"] == "broken" and "get the project" in facts["advice"]
    assert "broken, and needed: pair stories" in command("doctor", status=1)[0]


def test_packages_that_are_missing(findings, monkeypatch):
    """What minispec needs to run is broken without; what an extra brings is missing; all can be installed."""
    real = metadata.version
    names = ("tokenizers", "jupyterlab", "matplotlib")

    def version(name):
        if name in names:
            raise metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(doctor.metadata, "version", version)
    tokenizers, lab, figures = (findings(status=1)[name] for name in names)
    assert tokenizers["state"] == "broken" and "pip install tokenizers" in tokenizers["advice"]
    for fact, extra in ((lab, "notebooks"), (figures, "figures")):
        assert fact["state"] == "missing" and f"pip install -e '.[{extra}]'" in fact["advice"]
    assert not {"pytest", "ruff", "jupyterlab", "matplotlib"} & set(doctor.requirements())


def test_no_folder_to_write_to(findings, monkeypatch, tmp_path):
    """A cache folder that is a file fails."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MINISPEC_HOME", str(tmp_path / "file"))
    assert "MINISPEC_HOME" in findings(status=1)["cache folder"]["advice"]
