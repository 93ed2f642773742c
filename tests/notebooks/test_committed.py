"""The committed notebooks: all have run, are in step with their texts, and have the shape that readers need.

That their cells still run is seen by pytest itself, through nbval.
"""

import pytest
from notebook_rules import (
    FOLDER,
    is_solution,
    metadata_faults,
    notebook_of,
    outcome_faults,
    read_notebook,
    read_text,
    shape_faults,
    sync_faults,
    texts,
    try_faults,
)

TEXTS = texts()
MAIN = [text for text in TEXTS if not is_solution(text)]
named = pytest.mark.parametrize("text", TEXTS, ids=[text.stem for text in TEXTS])


@named
def test_every_text_has_run_without_fault(text):
    """Each text has its notebook, whose cells ran in order, without error, warning or machine path."""
    assert outcome_faults(read_notebook(notebook_of(text))) == []


@named
def test_a_notebook_and_its_text_say_the_same(text):
    """Nobody has edited one and forgotten the other."""
    assert sync_faults(read_notebook(notebook_of(text)), read_text(text)) == []


@named
def test_nothing_is_stored_that_changes_from_run_to_run(text):
    """Metadata and cell ids are the same on every machine."""
    assert metadata_faults(read_notebook(notebook_of(text))) == []


@pytest.mark.parametrize("text", MAIN, ids=lambda text: text.stem)
def test_a_notebook_has_one_cell_to_play_with(text):
    """Where a reader changes a value and runs the cell again."""
    assert try_faults(read_text(text)) == []


@pytest.mark.parametrize("text", MAIN, ids=lambda text: text.stem)
def test_a_notebook_is_cut_into_small_pieces(text):
    """It opens with what is to come, ends with a recap; cells, and prose between outputs, are short."""
    assert shape_faults(read_notebook(notebook_of(text))) == []


def test_every_notebook_has_a_text():
    """None was made by hand, and none is left over."""
    assert TEXTS
    assert {notebook_of(text) for text in TEXTS} == {*FOLDER.rglob("[0-9][0-9]_*.ipynb")} - checkpoints()


def checkpoints():
    return {path for path in FOLDER.rglob("*.ipynb") if ".ipynb_checkpoints" in path.parts}
