"""`minispec lab`: a student's copy is made, and never overwritten."""

import importlib.util
import json

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
def copy_folder(tmp_path):
    """Where the copy is made."""
    return tmp_path / "mine"


@pytest.fixture
def copy(copy_folder, course, command):
    """Copies into a folder; returns what was printed."""
    return lambda *options: command("lab --no-open", copy_folder, *options)[0]


def test_a_copy_has_the_notebooks_without_outputs_or_solutions(copy, copy_folder):
    """Nobody reads an answer before the question; solutions come when asked for, also to an older copy."""
    assert "2 copied" in copy()
    assert {path.name for path in copy_folder.iterdir()} == {"01_one.ipynb", "02_two.ipynb"}
    (cell,) = json.loads((copy_folder / "01_one.ipynb").read_text())["cells"]
    assert cell["source"] == ["1 + 2"] and cell["outputs"] == [] and cell["execution_count"] is None
    assert "1 copied, 2 there already" in copy("--with-solutions")
    assert (copy_folder / "solutions/01_solutions.ipynb").is_file()


def test_what_the_student_changed_is_kept(copy, course, copy_folder):
    """Neither a second run nor a newer version of the course overwrites a student's work."""
    copy()
    (copy_folder / "01_one.ipynb").write_text(notebook("my answer"))
    before = (copy_folder / "01_one.ipynb").read_text()
    (course / "01_one.ipynb").write_text(notebook("newer"))
    for _ in range(2):
        assert "kept yours: 01_one.ipynb" in copy()
        assert (copy_folder / "01_one.ipynb").read_text() == before


def test_what_cannot_be_copied_is_one_line(refused, course, copy_folder, monkeypatch, tmp_path):
    """A file in the way; without JupyterLab what to install; from a wheel there is nothing to copy."""
    copy_folder.write_text("a file")
    assert "cannot copy notebooks to" in refused("lab --no-open", copy_folder)
    copy_folder.unlink()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "pip install -e '.[notebooks]'" in refused("lab", copy_folder)
    monkeypatch.setattr(module, "NOTEBOOKS", tmp_path / "nowhere")
    assert "source" in refused("lab --no-open", copy_folder)
    assert not copy_folder.exists()
