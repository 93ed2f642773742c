"""The rules for notebooks find planted faults, the builder refuses them, and nbval finds what fails."""

import subprocess
import sys
from copy import deepcopy

import nbformat
import pytest
from build_notebooks import build, prepared
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from notebook_rules import (
    FOLDER,
    MOST_CODE_CELLS,
    MOST_WORDS,
    TRY_TITLE,
    cell_ids,
    metadata_faults,
    notebook_of,
    outcome_faults,
    plain_metadata,
    read_notebook,
    shape_faults,
    sync_faults,
    try_faults,
)

OPENING = "# 2. Add numbers\n\n**You'll do** a\n\n**You'll learn** b\n\n**You'll need** c\n\n**Time** 1 min"
TEXT = f"""\
# %% [markdown]
{"".join(f"# {line}".rstrip() + chr(10) for line in OPENING.splitlines())}
# %% tags=["claim-A1"]
1 + 2

# %% [markdown]
# ## Recap
# Three.
"""


def stream(name, text):
    return new_output("stream", name=name, text=text)


def cell(source="1 + 2", count=1, outputs=None, tags=("claim-A1",)):
    outputs = [stream("stdout", "3\n")] if outputs is None else outputs
    return new_code_cell(source, execution_count=count, outputs=outputs, metadata={"tags": list(tags)})


def notebook(*middle, first=OPENING, last="## Recap\nThree."):
    """Returns a notebook without fault around some cells, by default one that adds."""
    cells = deepcopy([new_markdown_cell(first), *(middle or [cell()]), new_markdown_cell(last)])
    for code_cell, name in zip(cells, cell_ids("02", len(cells)), strict=True):
        code_cell.id = name
        if not code_cell.metadata.get("tags"):
            code_cell.metadata = nbformat.from_dict({})
    return new_notebook(cells=cells, metadata=nbformat.from_dict(plain_metadata()))


def words(count):
    return new_markdown_cell("word " * count)


def most_cells():
    """Returns as many code cells as a notebook may have."""
    return [cell(f"x = {n}", n + 1) for n in range(MOST_CODE_CELLS)]


def with_(node, **metadata):
    """Returns a notebook whose first code cell has more metadata."""
    node.cells[1].metadata |= metadata
    return node


def test_a_good_notebook_has_no_fault():
    """What the rules ask for can be had; the limits themselves are allowed."""
    folded = with_(notebook(cell("assert 1\nassert 2", tags=["hide-input"])), jupyter={"source_hidden": True})
    for node in (
        notebook(),
        notebook(*most_cells()),
        notebook(words(MOST_WORDS), cell()),
        notebook(cell("\n\n".join(["x = 1"] * 12))),
        notebook(cell("\n".join(["x = 1"] * 30), tags=["exercise"])),
        notebook(cell("x = 3\nassert x == 3")),
        notebook(cell("x = 3\nassert x == 3\nx")),
        notebook(cell(outputs=[new_output("display_data", {"image/png": "/tmp/", "text/html": DATA})])),
        folded,
    ):
        assert outcome_faults(node) + shape_faults(node) + metadata_faults(node) == []


DATA = '<img src="data:image/png;base64,/tmp/abc/root/=="></br>'


@pytest.mark.parametrize(
    ("rule", "node"),
    [
        (outcome_faults, notebook(cell(count=None))),
        (outcome_faults, notebook(cell(), cell(count=3))),
        (outcome_faults, notebook(cell(outputs=[new_output("error", ename="ValueError", evalue="no")]))),
        (outcome_faults, notebook(cell(outputs=[stream("stderr", "a warning")]))),
        (outcome_faults, notebook(cell(outputs=[stream("stdout", "see C:\\Users\\ada")]))),
        (outcome_faults, notebook(cell("open('/workspace/x')"))),
        (outcome_faults, notebook(words(1), cell(), last="## Recap\nin /tmp/x")),
        (outcome_faults, notebook(cell(outputs=[stream("stdout", "<A object at 0x7f12ab34cd>")]))),
        (shape_faults, notebook(first="# Add numbers\n" + OPENING.split("\n", 1)[1])),
        (shape_faults, notebook(first=OPENING.replace("need", "want"))),
        (shape_faults, notebook(last="The end.")),
        (shape_faults, notebook(*most_cells(), cell(count=MOST_CODE_CELLS + 1))),
        (shape_faults, notebook(cell("\n".join(["x = 1"] * 13)))),
        (shape_faults, notebook(cell("x = '" + "a" * 100 + "'"))),
        (shape_faults, notebook(cell(tags=["Claim A1"]))),
        (shape_faults, notebook(cell("assert 1 + 2 == 3\nx = 1"))),
        (shape_faults, notebook(cell("x = 3\nassert x == 3\nassert x > 2"))),
        (shape_faults, notebook(cell("assert 1 + 2 == 3\n1 + 2\n1 + 3"))),
        (shape_faults, notebook(cell("1 + 2", tags=["hide-input"]))),
        (shape_faults, notebook(cell("from minispec.classroom.parts import limited"))),
        (shape_faults, notebook(cell("\n".join(["x = 1"] * 17), tags=["written"]))),
        (metadata_faults, notebook(cell("assert 1 + 2 == 3", tags=["hide-input"]))),
        (shape_faults, notebook(words(MOST_WORDS // 2), cell(outputs=[]), words(MOST_WORDS), cell(count=2))),
        (metadata_faults, with_(notebook(), scrolled=True)),
    ],
)
def test_a_planted_fault_is_found(rule, node):
    """Each fault that the rules speak of is found by its rule."""
    assert rule(node) != []


def test_a_notebook_has_one_cell_to_play_with():
    """One, with its title before it, and without a check."""
    title = new_markdown_cell(TRY_TITLE)
    play, another, checked = (cell(f"k = 4{more}", tags=["try-it"]) for more in ("", "0", "\nassert k == 4"))
    assert try_faults(notebook(title, play)) == []
    for wrong in ((cell(),), (play,), (title, cell(), play), (title, play, another), (title, checked)):
        assert try_faults(notebook(*wrong)) != []
    # It is no cell that a reader has to go through.
    assert shape_faults(notebook(*most_cells(), title, play)) == []


def test_versions_and_other_ids_are_faults():
    """What differs between machines and runs is found."""
    version = notebook()
    version.metadata["language_info"] = {"name": "python", "version": "3.11.2"}
    assert metadata_faults(version) != []
    other = notebook()
    other.cells[1].id = "a3f00b12"
    assert metadata_faults(other) != []


@pytest.fixture
def text(tmp_path):
    """A text without fault in a folder of its own."""
    path = tmp_path / "text" / "02_add_numbers.py"
    path.parent.mkdir()
    path.write_text(TEXT)
    return path


def test_a_text_and_its_notebook_are_compared(text):
    """A changed source, tag or kind of cell, or another number of cells, is found."""
    good = prepared(text)
    assert sync_faults(good, prepared(text)) == []
    for old, new in (
        ("1 + 2", "1 + 3"),
        ("claim-A1", "claim-A2"),
        ("Three.", "Four."),
        ("# ## Recap\n# Three.\n", "# ## Recap\n\n# %%\n3\n"),
        ("# %% [markdown]\n# ## Recap", "# %%\n## Recap"),
    ):
        assert old in TEXT
        text.write_text(TEXT.replace(old, new))
        assert sync_faults(good, prepared(text)) != []


def test_the_builder_writes_the_same_notebook_twice(text):
    """From the same text comes the same file, run and without fault."""
    assert build(text, 60) == 0
    first = notebook_of(text).read_bytes()
    node = read_notebook(notebook_of(text))
    assert node.cells[1].outputs[0].data["text/plain"] == "3"
    assert outcome_faults(node) + metadata_faults(node) == []
    assert build(text, 60) == 0
    assert notebook_of(text).read_bytes() == first


def test_the_builder_refuses_faults(text, capsys):
    """A notebook with faults is not written: what was there before stays, and each fault is said."""
    sources = ("1 / 0", "import warnings\n\nwarnings.warn('old')", "'/home/ada'")
    text.write_text(TEXT.replace("1 + 2", "\n\n# %%\n".join(sources)))
    notebook_of(text).write_text("before")
    assert build(text, 60) >= 3
    printed = capsys.readouterr().out
    assert all(words in printed for words in ("ZeroDivisionError", "standard error", "path of a machine"))
    assert notebook_of(text).read_text() == "before"


def test_the_builder_refuses_what_takes_too_long(text, capsys):
    """A notebook that runs longer than it may is not written."""
    assert build(text, 0.1) == 1
    assert "more than 0.1" in capsys.readouterr().out
    assert not notebook_of(text).exists()


def test_nbval_finds_an_error_and_a_changed_output(tmp_path):
    """Of four cells nbval, set up as in this project, fails the two with planted faults."""
    checked = ("nbval-check-output",)
    node = notebook(
        cell(tags=()),
        cell("print(1 + 2)", 2, tags=checked),
        cell("print(1 + 3)", 3, tags=checked),  # the output says 3
        cell("assert 1 + 2 == 4", 4, outputs=[]),
    )
    path = tmp_path / "02_faults.ipynb"
    nbformat.write(node, path)
    command = [sys.executable, "-m", "pytest", "-q", "-c", "pyproject.toml", str(path)]
    done = subprocess.run(command, cwd=FOLDER.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout
    assert "2 failed, 2 passed" in done.stdout
