"""`minispec lab`: a student's copy is made, and never overwritten."""

import importlib.util
import json
import subprocess
import sys

import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output, writes

from minispec.cli import lab as module


def notebook(source):
    """Returns a notebook of one cell that has run."""
    output = new_output("stream", name="stdout", text="3")
    return writes(new_notebook(cells=[new_code_cell(source, execution_count=1, outputs=[output])]))


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
def mine(tmp_path):
    """Where the copy is made."""
    return tmp_path / "mine"


@pytest.fixture
def copy(mine, course, command):
    """Copies into a folder; returns what was printed."""
    return lambda *options: command("lab --no-open", mine, *options)[0]


def test_a_copy_has_the_notebooks_without_outputs_or_solutions(copy, mine):
    """Nobody reads an answer before the question; solutions come when asked for, also to an older copy."""
    assert "2 copied" in copy()
    assert {path.name for path in mine.iterdir()} == {"01_one.ipynb", "02_two.ipynb"}
    (cell,) = json.loads((mine / "01_one.ipynb").read_text())["cells"]
    assert cell["source"] == ["1 + 2"] and cell["outputs"] == [] and cell["execution_count"] is None
    assert "1 copied, 2 there already" in copy("--with-solutions")
    assert (mine / "solutions/01_solutions.ipynb").is_file()


def test_what_the_student_changed_is_kept(copy, course, mine):
    """Neither a second run nor a newer version of the course overwrites a student's work."""
    copy()
    (mine / "01_one.ipynb").write_text(notebook("my answer"))
    before = (mine / "01_one.ipynb").read_text()
    (course / "01_one.ipynb").write_text(notebook("newer"))
    for _ in range(2):
        assert "kept yours: 01_one.ipynb" in copy()
        assert (mine / "01_one.ipynb").read_text() == before


def test_a_notebook_that_was_deleted_comes_back(copy, mine):
    """So a student starts one afresh."""
    copy()
    (mine / "02_two.ipynb").unlink()
    assert "1 copied, 1 there already" in copy()
    assert "2 there already" in copy()


def test_what_cannot_be_copied_is_one_line(refused, course, mine, monkeypatch, tmp_path):
    """A file in the way; without JupyterLab what to install; from a wheel there is nothing to copy."""
    mine.write_text("a file")
    assert "cannot copy notebooks to" in refused("lab --no-open", mine)
    mine.unlink()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "pip install -e '.[notebooks]'" in refused("lab", mine)
    monkeypatch.setattr(module, "NOTEBOOKS", tmp_path / "nowhere")
    assert "source" in refused("lab --no-open", mine)
    assert not mine.exists()


def test_jupyterlab_is_opened_in_the_copy(course, mine, command, monkeypatch):
    """It starts in the student's folder, at the first notebook, and its status is ours."""
    calls = []
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(subprocess, "call", lambda line, cwd: calls.append((line, cwd)) or 3)
    command("lab", mine, status=3)
    assert calls == [([sys.executable, "-m", "jupyterlab", "01_one.ipynb"], mine)]


def test_the_projects_own_notebooks_are_found():
    """In a checkout the folder is where the command looks, and its notebooks have a number each."""
    found = module.find_notebooks(with_solutions=True)
    assert all(name.removeprefix("solutions/")[:2].isdigit() for name in found)
