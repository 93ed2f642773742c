"""The look of all figures: colours with a glyph each, sizes, and the picture that every figure comes as.

Okabe and Ito's colours, which people with colour-blindness can tell apart. A state is never told by colour
alone: each has a glyph, and where areas are filled, a hatch.
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

TEXT = 18  # points: half the size is still readable
SMALL = 18  # nothing on a figure is smaller


@dataclass(frozen=True)
class State:
    """How one state of a token, a cache slot or a model is drawn, everywhere.

    Attributes:
        colour: of its area or its line.
        glyph: the sign that says the same without colour.
        ink: the colour of text on that area.
        hatch: the pattern of its area, or an empty string.
        marker: of its points in line charts.
        word: what it is called.
    """

    colour: str
    glyph: str
    ink: str = "black"
    hatch: str = ""
    marker: str = "o"
    word: str = ""


STATES = {
    "prompt": State("#DDDDDD", "·", marker="o", word="prompt"),
    "committed": State("#F0E442", "=", marker="s", word="committed"),
    "pending": State("#FFFFFF", "→", marker="D", word="pending"),
    "drafted": State("#56B4E9", "?", hatch="\\\\", marker="v", word="drafted"),
    "draft": State("#009E73", "✓", marker="^", word="drafted and accepted"),
    "rejected": State("#F4C7A5", "–", hatch="xx", marker="x", word="rolled back"),
    "untested": State("#B3B3B3", "○", marker="1", word="not tested"),
    "correction": State("#D55E00", "✗", marker="X", word="the target's correction"),
    "bonus": State("#0072B2", "★", ink="white", marker="*", word="the target's bonus"),
}
# p is always the target's distribution and q the draft's, in every chart that shows both.
TARGET = State("#0072B2", "p", ink="white", marker="o", word="target, p")
DRAFTER = State("#E69F00", "q", hatch="//", marker="s", word="draft, q")
GUESS = State("#CC79A7", "◆", marker="D", word="your guess")


def sheet(width: float = 10, height: float = 5) -> Figure:
    """Returns an empty figure, in inches; pages show it at about half of this size."""
    return Figure(figsize=(width, height), layout="constrained")


@dataclass(frozen=True)
class Picture:
    """A figure, and everything that goes with it for those who do not see it.

    Notebooks and pages show it as HTML: an image with its alternative text, and a caption. Where there is no
    HTML, the text twin says the same in characters.

    Attributes:
        name: a short name for files, such as `verification`.
        figure: what is drawn.
        alt: what a screen reader says instead: what is shown, and what it comes to.
        caption: one sentence that a reader can repeat, with a computed number in it.
        twin: the same content as lines of plain text.
    """

    name: str
    figure: Figure
    alt: str
    caption: str
    twin: str

    def png(self, dpi: int = 100) -> bytes:
        """Returns the image, the same bytes for the same figure."""
        # A layout engine would move things a little at every drawing: it may settle them once.
        self.figure.draw_without_rendering()
        self.figure.set_layout_engine("none")
        file = io.BytesIO()
        self.figure.savefig(file, format="png", dpi=dpi, metadata={"Software": None})
        return file.getvalue()

    def html(self) -> str:
        """Returns the figure as HTML that needs no other file."""
        data = base64.b64encode(self.png()).decode("ascii")
        return (
            '<figure style="margin:0.5em 0">'
            f'<img style="max-width:100%;width:{self.figure.get_figwidth() * 64:.0f}px" '
            f'alt="{html.escape(self.alt, quote=True)}" src="data:image/png;base64,{data}">'
            f'<figcaption style="max-width:44em">{html.escape(self.caption)}</figcaption></figure>'
        )

    def _repr_mimebundle_(
        self, include: Sequence[str] | None = None, exclude: Sequence[str] | None = None
    ) -> Mapping[str, Any]:
        return {"text/html": self.html(), "text/plain": self.twin}


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Returns a table in characters: rows of as many cells each, columns two blanks apart."""
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(f"{cell:<{space}}" for cell, space in zip(row, wide, strict=True)).rstrip() for row in rows
    )


def sentence(text: str) -> str:
    """Returns a text with a capital letter at its beginning and a full stop at its end."""
    return f"{text[0].upper()}{text[1:]}."
