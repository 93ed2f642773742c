"""A picture: a figure, and everything that goes with it for those who do not see it.

Notebooks and pages show a picture as HTML: an image with its alternative text, and a caption of one sentence.
Where there is no HTML, the text twin says the same in characters.
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure


@dataclass(frozen=True)
class Picture:
    """A figure with its words.

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
