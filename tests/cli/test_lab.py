"""`minispec lab`: a student's copy is made, and never overwritten."""

import importlib.util
import json
import subprocess
import sys

import pytest
from pairs import call

from minispec.cli import lab as module


def notebook(source, output="3"):
    """Returns a notebook of one cell that has run."""
    code = {
        "cell_type": "code",
        "source": source,
        "metadata": {},
        "id": "01-00",
        "execution_count": 1,
        "outputs": [{"output_type": "stream", "name": "stdout", "text": output}],
    }
    return json.dumps({"cells": [code], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A folder of two notebooks and one of solutions, which `minispec lab` takes for the project's."""
    folder = tmp_path / "notebooks"
    (folder / "solutions").mkdir(parents=True)
    (folder / "01_one.ipynb").write_text(notebook("1 + 2"))
    (folder / "02_two.ipynb").write_text(notebook("2 + 2"))
    (folder / "solutions" / "01_solutions.ipynb").write_text(notebook("3"))
    (folder / "README.md").write_text("not a notebook")
    monkeypatch.setattr(module, "NOTEBOOKS", folder)
    return folder


@pytest.fixture
def copy(tmp_path, course, capsys):
    """Copies into a folder; returns what was said."""

    def run(*arguments, status=0):
        code, out, err = call(capsys, "lab", tmp_path / "mine", "--no-open", *arguments)
        assert code == status, err
        return out + err

    return run


def files(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*.ipynb")}


def test_a_copy_has_the_notebooks_without_outputs_or_solutions(copy, tmp_path):
    """Nobody reads an answer before the question."""
    assert "2 copied" in copy()
    assert files(tmp_path / "mine") == {"01_one.ipynb", "02_two.ipynb"}
    (cell,) = json.loads((tmp_path / "mine" / "01_one.ipynb").read_text())["cells"]
    assert cell["source"] == "1 + 2" and cell["outputs"] == [] and cell["execution_count"] is None
    assert {path.name for path in (tmp_path / "mine").iterdir()} == {"01_one.ipynb", "02_two.ipynb"}


def test_solutions_come_when_asked_for(copy, tmp_path):
    """`--with-solutions` adds them, also to a copy that is there already."""
    copy()
    assert "1 copied, 2 there already" in copy("--with-solutions")
    assert "solutions/01_solutions.ipynb" in files(tmp_path / "mine")


def test_what_the_student_changed_is_kept(copy, course, tmp_path):
    """Neither a second run nor a newer version of the course overwrites a student's work."""
    copy()
    mine = tmp_path / "mine" / "01_one.ipynb"
    mine.write_text(notebook("my answer"))
    (course / "01_one.ipynb").write_text(notebook("newer"))
    for _ in range(2):
        assert "kept yours: 01_one.ipynb" in copy()
        assert mine.read_text() == notebook("my answer")


def test_a_notebook_that_was_deleted_comes_back(copy, tmp_path):
    """So a student starts one afresh."""
    copy()
    (tmp_path / "mine" / "02_two.ipynb").unlink()
    assert "1 copied, 1 there already" in copy()
    assert "2 there already" in copy()


def test_a_file_in_the_way_is_one_line(copy, tmp_path):
    """A folder that cannot be made is a clear complaint."""
    (tmp_path / "mine").write_text("a file")
    said = copy(status=2)
    assert said.startswith("minispec: cannot copy notebooks to") and said.count("\n") == 1


def test_an_installation_without_notebooks_says_so(copy, monkeypatch, tmp_path):
    """From a wheel there is nothing to copy, and the line says where they are."""
    monkeypatch.setattr(module, "NOTEBOOKS", tmp_path / "nowhere")
    assert "source" in copy(status=2)
    assert not (tmp_path / "mine").exists()


def test_without_jupyterlab_one_line_says_what_to_install(course, tmp_path, capsys, monkeypatch):
    """Nothing is copied when what was asked for cannot be done."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    status, _, err = call(capsys, "lab", tmp_path / "mine")
    assert status == 2 and "pip install -e '.[notebooks]'" in err and err.count("\n") == 1
    assert not (tmp_path / "mine").exists()


def test_jupyterlab_is_opened_in_the_copy(course, tmp_path, capsys, monkeypatch):
    """It starts in the student's folder, at the first notebook, and its status is ours."""
    calls = []
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(subprocess, "call", lambda command, cwd: calls.append((command, cwd)) or 3)
    status, _, _ = call(capsys, "lab", tmp_path / "mine")
    assert status == 3
    assert calls == [([sys.executable, "-m", "jupyterlab", "01_one.ipynb"], tmp_path / "mine")]


def test_the_projects_own_notebooks_are_found():
    """In a checkout the folder is where the command looks, and its notebooks have a number each."""
    found = module.find_notebooks(with_solutions=True)
    assert all(name.removeprefix("solutions/")[:2].isdigit() for name in found)
