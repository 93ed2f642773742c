"""The picture that every figure comes as, and how large things are on it."""

import base64
import html
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from matplotlib.figure import Figure

TEXT = 18  # points: half the size is still readable, and nothing on a figure is smaller


def sheet(width: float = 10, height: float = 5) -> Figure:
    """Returns an empty figure, in inches; pages show it at about half of this size."""
    return Figure(figsize=(width, height), layout="constrained")


@dataclass(frozen=True)
class Picture:
    """A figure, and everything that goes with it for those who do not see it.

    Notebooks and pages show it as HTML: an image with its alternative text, and a caption. Where there is no
    HTML, the text twin says the same in characters.
    """

    name: str  #: a short name for files, such as `verification`
    figure: Figure  #: what is drawn
    alt: str  #: what a screen reader says instead: what is shown, and what it comes to
    caption: str  #: one sentence that a reader can repeat, with a computed number in it
    twin: str  #: the same content as lines of plain text
    title: str = ""  #: its message, over the figure and at the beginning of alt and twin

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

    def _repr_mimebundle_(self, **options: Any) -> Mapping[str, Any]:
        return {"text/html": self.html(), "text/plain": self.twin}


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Returns a table in characters: columns two blanks apart; a short row ends early.

    A row of one cell is a heading, for which no column makes room.
    """
    columns = zip_longest(*(row for row in rows if len(row) > 1), fillvalue="")
    wide = [max(map(len, column)) for column in columns]
    return "\n".join(
        "  ".join(f"{cell:<{space}}" for cell, space in zip(row, wide, strict=False)).rstrip() for row in rows
    )
