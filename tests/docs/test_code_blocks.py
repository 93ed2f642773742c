"""What pages tell a reader to type works: every code block is run, or says why not.

The marks are explained in `code_blocks.py`. `pytest -rs` lists what was left out; the test of marks prints it
too.
"""

import os
from pathlib import Path

import pytest
import torch
from code_blocks import Session, blocks_of, difference, faults_of

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("docs/howto/*.md"),
        *ROOT.glob("docs/teaching/*.md"),
    ]
)
WITH_BLOCKS = [page for page in PAGES if blocks_of(page)]


def name_of(page):
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=name_of)
def test_every_block_is_run_or_says_why_not(page):
    """No block is passed over in silence; what is not run is listed."""
    blocks = blocks_of(page)
    assert faults_of(blocks, ROOT) == []
    for block in blocks:
        if block.mark in ("not run", "run by", "needs"):
            print(f"{block.place}: {block.mark}: {block.reason}")


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=name_of)
def test_the_blocks_run(page, tmp_path, minispec_home, monkeypatch):
    """From top to bottom in an empty folder; outputs that a page shows are the ones that came."""
    (tmp_path / "page").mkdir()
    monkeypatch.chdir(tmp_path / "page")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path / "matplotlib"))
    session = Session(tmp_path / "page")
    threads = torch.get_num_threads()
    printed = None
    try:
        for block in blocks_of(page):
            if block.mark == "output":
                wrong = difference(block.text, printed) if printed is not None else None
                assert wrong is None, f"{block.place} says, and it did not come:\n{wrong}\nIt was:\n{printed}"
            else:
                printed = session.run(block)
    finally:
        torch.set_num_threads(threads)
    assert os.getcwd() == str(tmp_path / "page")


def test_how_to_pages_are_run_for_the_most_part():
    """Every how-to page has a block that is really run."""
    pages = [page for page in ROOT.glob("docs/howto/*.md") if page.name != "index.md"]
    assert len(pages) >= 6
    for page in pages:
        assert any(block.mark in ("", "needs") for block in blocks_of(page)), page.name


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("```python\npass\n```\n", None),
        ("<!-- not run: no reason at all -->\n```\nx\n```\n", None),
        ("````{note}\n```yaml\nx: 1\n```\n````\n", "page.md:2"),
        ("```{figure} x.png\nWhat it shows.\n```\n", None),
        ("```text\nx\n```\n", "needs a mark"),
        ("<!-- not run -->\n```bash\nx\n```\n", "no reason"),
        ("<!-- never run: because -->\n```bash\nx\n```\n", "unknown mark"),
        ("<!-- run by: tests/test_nothing.py -->\n```bash\nx\n```\n", "there is no"),
        ("<!-- output -->\n```text\nx\n```\n", "output of nothing"),
    ],
)
def test_a_planted_fault_is_found(text, fault, tmp_path):
    """Blocks without a word on why they are not run, and marks that say nothing."""
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    faults = faults_of(blocks_of(page), ROOT)
    assert len(faults) == (fault is not None) and all(fault in found for found in faults)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("```python\nassert False\n```\n", AssertionError),
        ("```bash\nminispec generate\n```\n", AssertionError),
        ("```bash\nfalse | true\n```\n", AssertionError),
        ("```python\nx = 1\n```\n\n```python\nassert x == 1\n```\n", None),
        (
            "<!-- file: one.py -->\n```python\nprint(1)\n```\n"
            "```bash\npython one.py > out && grep 1 out\n```\n",
            None,
        ),
    ],
)
def test_a_block_that_fails_is_found(text, error, tmp_path, monkeypatch):
    """Python that raises, a command with a status that is not 0, also inside a pipe."""
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    session = Session(tmp_path)
    if error is None:
        for block in blocks_of(page):
            session.run(block)
    else:
        with pytest.raises(error):
            for block in blocks_of(page):
                session.run(block)


@pytest.mark.parametrize(
    ("said", "same"),
    [
        ("a\nb\nc\n", True),
        ("a\n…\nc\n", True),
        ("…\nb\n…\n", True),
        ("a\nb\n", False),
        ("b\nc\n", False),
        ("…\nx\n…\n", False),
    ],
)
def test_an_output_is_compared(said, same):
    """Line by line; only a line of … may stand for others."""
    assert (difference(said, "a  \nb\nc\n") is None) is same
