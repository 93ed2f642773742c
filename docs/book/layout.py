"""Is a figure readable? Finds texts that lie over each other, are too small, or leave the page.

A renderer notes every line of text that it is asked to draw, so that only what is really drawn counts:
labels of ticks outside the axes do not. `drawn_texts` draws once; its result may be handed to all the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.transforms import Affine2D, Bbox

from minispec.show.plots.style import TEXT

SLACK = 1.0  # pixels that boxes may share, or reach over the edge


@dataclass(frozen=True)
class DrawnText:
    """One line of text as it was drawn.

    Attributes:
        text: the line.
        points: its size.
        box: what its ink covers, in pixels from the lower left corner.
    """

    text: str
    points: float
    box: Bbox


Lines = Sequence[DrawnText]


class _Listener(RendererAgg):
    """Notes each line of text, and leaves the slow work undone: nobody looks at its page."""

    def __init__(self, width: float, height: float, dpi: float) -> None:
        super().__init__(width, height, dpi)
        self.lines: list[DrawnText] = []

    def draw_text(
        self,
        gc: Any,
        x: float,
        y: float,
        s: str,
        prop: FontProperties,
        angle: float,
        ismath: Any = False,
        mtext: Any = None,
    ) -> None:
        if s.strip():
            wide, high, descent = self.get_text_width_height_descent(s, prop, ismath)
            turn = Affine2D().rotate_deg(angle).translate(x, self.height - y)  # y counts from the top
            corners = turn.transform(Bbox.from_extents(0, -descent, wide, high - descent).corners())
            box = Bbox([corners.min(axis=0), corners.max(axis=0)])
            self.lines.append(DrawnText(s, prop.get_size_in_points(), box))

    def draw_path(self, gc: Any, path: Any, transform: Any, rgbFace: Any = None) -> None:
        pass


def drawn_texts(figure: Figure) -> list[DrawnText]:
    """Returns every line of text that a figure shows, in the order of drawing.

    Args:
        figure: any; it is drawn twice, since the first drawing settles where things go.
    """
    canvas = FigureCanvasAgg(figure)
    figure.draw_without_rendering()
    listener = _Listener(*canvas.get_width_height(), figure.dpi)
    figure.draw(listener)
    return listener.lines


def overlapping_texts(figure: Figure | Lines) -> list[tuple[str, str]]:
    """Returns the pairs of lines whose ink boxes lie over each other."""
    return [(a.text, b.text) for a, b in combinations(_lines(figure), 2) if _overlap(a.box, b.box)]


def small_texts(figure: Figure | Lines, points: float = TEXT) -> list[str]:
    """Returns the lines that are set smaller than so many points."""
    return [line.text for line in _lines(figure) if line.points < points - 1e-6]


def cut_texts(figure: Figure, lines: Lines | None = None) -> list[str]:
    """Returns the lines that reach over the edge of the figure; `lines` are its `drawn_texts`, if known."""
    page = figure.bbox.padded(SLACK)
    return [
        line.text
        for line in (lines if lines is not None else drawn_texts(figure))
        if line.box.x0 < page.x0 or line.box.y0 < page.y0 or line.box.x1 > page.x1 or line.box.y1 > page.y1
    ]


def _lines(figure: Figure | Lines) -> Lines:
    return drawn_texts(figure) if isinstance(figure, Figure) else figure


def _overlap(a: Bbox, b: Bbox) -> bool:
    wide = min(a.x1, b.x1) - max(a.x0, b.x0)
    high = min(a.y1, b.y1) - max(a.y0, b.y0)
    return bool(wide > SLACK and high > SLACK)
