"""Where the notebooks show what they claim: tables for the book, from `claims.toml`."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import nbformat
from claims_rows import CASES, NOT_YET, QUESTIONS, TABLES

FOLDER = Path(__file__).resolve().parent


def cells_of(tag: str) -> list[tuple[Path, str, str]]:
    """Returns the cells that show or ask for a sentence: notebook, section, source."""
    return [
        (path, section, source)
        for path in sorted(FOLDER.glob("[0-9]*.ipynb"))
        for section, of_cell, source in read(path)
        if tag in of_cell or any(f'"{key}"' in source for key in QUESTIONS.get(tag, ()))
    ]


@cache
def read(path: Path) -> list[tuple[str, list[str], str]]:
    """Returns a notebook's code cells: section, tags, source."""
    section = ""
    code_cells = []
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "markdown":
            headings = re.findall(r"^##? (.+)$", cell.source, flags=re.MULTILINE)
            section = headings[-1] if headings else section
        else:
            code_cells.append((section, cell.metadata.get("tags", []), cell.source))
    return code_cells


def claim_rows(title: str) -> list[list[str]]:
    """Returns a line for each sentence of one of the `TABLES`, heads first."""
    heads = ["tag", "what is so", "shown in", "asked in", "test"]
    return [heads, *(line(tag, words) for tag, words in TABLES[title].items())]


def line(tag: str, words: str) -> list[str]:
    """Returns the cells of a sentence's line."""
    cells = cells_of(tag)
    shown = {}
    for path, section, _ in cells:
        name = f"{int(path.name[:2])}: {re.sub(r'^[0-9]+[.] ', '', section)}"
        shown[name] = f"[{name}](../notebooks/{path.name})"
    if tag in NOT_YET:
        shown["not yet"] = f"not yet: {NOT_YET[tag]}"
    questions = ", ".join(f"`{key}`" for key in QUESTIONS.get(tag, ()))
    bugs = ", ".join(dict.fromkeys(f"`{case.mutant}`" for case in CASES if case.tag == tag))
    asserts = any(re.search(r"(?m)^ *assert |assert_close", source) for _, _, source in cells)
    return [
        f"`{tag}`",
        words,
        "; ".join(shown.values()),
        questions,
        bugs or ("asserted" if asserts else "shown"),
    ]
