"""The committed notebooks: all have run, are in step with their texts, and have the shape that readers need.

That their cells still run is seen by `test_cells.py`.
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


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text.stem)
def test_a_notebook_has_run_and_is_in_step_with_its_text(text):
    """Its cells ran in order, without error or warning; nothing is stored of one run or one machine."""
    notebook = read_notebook(notebook_of(text))
    assert outcome_faults(notebook) == []
    assert sync_faults(notebook, read_text(text)) == []
    assert metadata_faults(notebook) == []


@pytest.mark.parametrize(
    "text", [text for text in TEXTS if not is_solution(text)], ids=lambda text: text.stem
)
def test_a_notebook_is_cut_into_small_pieces(text):
    """It opens with what is to come, ends with a recap; pieces are short, and one is to play with."""
    assert shape_faults(read_notebook(notebook_of(text))) == []
    assert try_faults(read_text(text)) == []


def test_every_notebook_has_a_text():
    """None was made by hand, and none is left over."""
    paths = FOLDER.rglob("[0-9][0-9]_*.ipynb")
    notebooks = {path for path in paths if ".ipynb_checkpoints" not in path.parts}
    assert {notebook_of(text) for text in TEXTS} == notebooks != set()
