"""Writes docs/claims.md: `python notebooks/claims_table.py`. The rows are in `claims_rows.py`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from claims_rows import CASES, TABLES, Row
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


def cells_of(row: Row) -> list[tuple[Path, str, str]]:
    """Returns where a row is shown: the text, the section, and the cell's source."""
    return [
        (text, section, source)
        for text in texts()
        if not is_solution(text)
        for section, of_cell, source in read(text)
        if row.tag in of_cell or any(f'"{key}"' in source for key in row.questions)
    ]


@lru_cache
def read(text: Path) -> list[tuple[str, list[str], str]]:
    """Returns a notebook's code cells: section, tags, source."""
    section, found = "", []
    for cell in read_text(text).cells:
        if cell.cell_type == "markdown":
            headings = re.findall(r"^##? (.+)$", cell.source, flags=re.MULTILINE)
            section = headings[-1] if headings else section
        else:
            found.append((section, tags(cell), cell.source))
    return found


def asserts(source: str) -> bool:
    """Returns whether a cell asserts something."""
    return re.search(r"^ *assert |assert_close", source, flags=re.MULTILINE) is not None


def table() -> str:
    """Returns the whole page."""
    return HEAD + "".join(part(title, rows) for title, rows in TABLES.items())


def part(title: str, rows: Sequence[Row]) -> str:
    """Returns the table of one kind of rows."""
    lines = [
        f"\n## {title}\n",
        "| tag | what is so | shown in | asked in | test |",
        "|---|---|---|---|---|",
    ]
    return "\n".join([*lines, *(line(row) for row in rows)]) + "\n"


def line(row: Row) -> str:
    """Returns a row as a line of Markdown."""
    places: dict[str, str] = {}
    for text, section, _ in cells_of(row):
        name = f"{int(text.name[:2])}: {re.sub(r'^[0-9]+[.] ', '', section)}"
        places[name] = f"[{name}](../notebooks/{notebook_of(text).name})"
    shown = "; ".join(places.values())
    missing = f"not yet: {row.not_yet}" if row.not_yet else ""
    asked = ", ".join(f"`{key}`" for key in row.questions)
    bugs = ", ".join(dict.fromkeys(f"`{case.mutant}`" for case in CASES if case.tag == row.tag))
    if not bugs:
        bugs = "asserted" if any(asserts(source) for _, _, source in cells_of(row)) else "shown"
    cells = [
        f"`{row.tag}`",
        row.words,
        "; ".join(filter(None, (shown, missing))) or "not yet",
        asked,
        bugs,
    ]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    TABLE.write_text(table(), encoding="utf-8", newline="\n")
