"""Writes docs/claims.md: `python notebooks/claims_table.py`. The rows are in `claims.toml`."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from claims_rows import CASES, NOT_YET, QUESTIONS, TABLES
from notebook_rules import FOLDER, is_solution, notebook_of, read_text, tags, texts

TABLE = FOLDER.parent / "docs" / "claims.md"
HEAD = """\
# What is claimed, and where it is shown

Written by `notebooks/claims_table.py` from the tags of the notebooks' cells: do not edit it.

*Shown in* names the notebook and the section. A cell with this tag stands there. *Asked in* names
the prediction that brings it up. *Test* names bugs: planted in the package, they make a cell with
this tag fail (`tests/notebooks/test_claims.py`). Where none is named, a cell asserts what is so, or
just shows it. All cells run in `make test`.
"""


def cells_of(tag: str) -> list[tuple[Path, str, str]]:
    """Returns the cells that show or ask for a sentence: the text, the section, and the source."""
    return [
        (text, section, source)
        for text in texts()
        if not is_solution(text)
        for section, of_cell, source in read(text)
        if tag in of_cell or any(f'"{key}"' in source for key in QUESTIONS.get(tag, ()))
    ]


@lru_cache
def read(text: Path) -> list[tuple[str, list[str], str]]:
    """Returns a notebook's code cells: section, tags, source."""
    section = ""
    found = []
    for cell in read_text(text).cells:
        if cell.cell_type == "markdown":
            headings = re.findall(r"^##? (.+)$", cell.source, flags=re.MULTILINE)
            section = headings[-1] if headings else section
        else:
            found.append((section, tags(cell), cell.source))
    return found


def table() -> str:
    """Returns the whole page."""
    page = HEAD
    for title, sentences in TABLES.items():
        page += f"\n## {title}\n\n| tag | what is so | shown in | asked in | test |\n"
        page += "|---|---|---|---|---|\n"
        page += "".join(line(tag, words) for tag, words in sentences.items())
    return page


def line(tag: str, words: str) -> str:
    """Returns a sentence as a line of the table."""
    cells = cells_of(tag)
    shown = {}
    for text, section, _ in cells:
        name = f"{int(text.name[:2])}: {re.sub(r'^[0-9]+[.] ', '', section)}"
        shown[name] = f"[{name}](../notebooks/{notebook_of(text).name})"
    if tag in NOT_YET:
        shown["not yet"] = f"not yet: {NOT_YET[tag]}"
    asked = ", ".join(f"`{key}`" for key in QUESTIONS.get(tag, ()))
    bugs = ", ".join(dict.fromkeys(f"`{case.mutant}`" for case in CASES if case.tag == tag))
    asserts = any(re.search(r"(?m)^ *assert |assert_close", source) for _, _, source in cells)
    test = bugs or ("asserted" if asserts else "shown")
    return f"| `{tag}` | {words} | {'; '.join(shown.values())} | {asked} | {test} |\n"


if __name__ == "__main__":
    TABLE.write_text(table(), encoding="utf-8", newline="\n")
