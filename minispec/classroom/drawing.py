"""Drawings made of cells: token strips, cache rulers, masks, little tables.

A drawing is an HTML table with inline styles, so that it stays readable where scripts and style sheets are
stripped, and a text twin. Every coloured cell carries a glyph: colour never speaks alone.
"""

from __future__ import annotations

import html
from dataclasses import dataclass

from minispec.show.plots.style import DRAFTER, STATES, TARGET, State

# Beside the states of tokens and cache slots: the two laws, and what only drawings of exercises need.
LOOKS = {
    **STATES,
    "p": TARGET,
    "q": DRAFTER,
    "computed": State("#56B4E9", "●", word="goes through the model"),
    "kept": State("#DDDDDD", "=", word="is in the cache"),
    "key": State("#56B4E9", "k", word="keys"),
    "value": State("#F0E442", "v", word="values"),
    "new": State("#0072B2", "+", ink="white", word="new"),
    "best": State("#0072B2", "▲", ink="white", word="the best"),
    "seen": State("#56B4E9", "●", word="may look"),
    "hidden": State("#FFFFFF", "–", word="may not look"),
    "plain": State("#FFFFFF", "", word=""),
}


@dataclass(frozen=True)
class Cell:
    """One cell.

    Attributes:
        text: what stands in it.
        look: its colour and glyph, a key of `LOOKS`.
    """

    text: str
    look: str = "plain"

    def plain(self) -> str:
        """Returns the text with its glyph."""
        return f"{LOOKS[self.look].glyph} {self.text}".strip()


@dataclass(frozen=True)
class Line:
    """One row of cells, with a label before them."""

    label: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Drawing:
    """Rows of cells under each other.

    Attributes:
        lines: the rows.
        note: one sentence below.
    """

    lines: tuple[Line, ...]
    note: str = ""

    def text(self) -> str:
        """Returns the drawing in characters, its columns aligned."""
        rows = [[line.label, *(cell.plain() for cell in line.cells)] for line in self.lines]
        columns = max((len(row) for row in rows), default=0)
        filled = [row + [""] * (columns - len(row)) for row in rows]
        widths = [max(len(row[i]) for row in filled) for i in range(columns)]
        lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in filled]
        return "\n".join([*lines, self.note] if self.note else lines)

    def html(self) -> str:
        """Returns the drawing as a table that needs no style sheet."""
        rows = "".join(
            f"<tr>{html_label(line.label)}" + "".join(html_cell(cell) for cell in line.cells) + "</tr>"
            for line in self.lines
        )
        note = f'<div style="margin:0.4em 0 0">{html.escape(self.note)}</div>' if self.note else ""
        return f'<table style="{TABLE}">{rows}</table>{note}'


def html_label(text: str) -> str:
    """Returns the head of a row; a plain cell where it says nothing, for an empty head would be announced."""
    if not text:
        return f'<td style="{LABEL}"></td>'
    return f'<th scope="row" style="{LABEL}">{html.escape(text)}</th>'


TABLE = "border-collapse:collapse;margin:0.4em 0;background:transparent"
LABEL = "text-align:right;padding:0.15em 0.6em;font-weight:normal;color:#1a1a1a;background:#ffffff"


def html_cell(cell: Cell) -> str:
    """Returns one cell of the table."""
    look = LOOKS[cell.look]
    border = "border:1px solid #767676;" if cell.look != "plain" else ""
    style = f"{border}text-align:center;padding:0.15em 0.5em;background:{look.colour};color:{look.ink}"
    return f'<td style="{style}">{html.escape(cell.plain())}</td>'


def line(label: str, *cells: str | tuple[str, str]) -> Line:
    """Returns a row; a cell is a text, or a pair (text, look)."""
    return Line(label, tuple(Cell(c) if isinstance(c, str) else Cell(*c) for c in cells))
