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
from matplotlib.transforms import Affine2D, Bbox

from minispec.show.plots.style import TEXT

SLACK = 1.0  # pixels that boxes may share, or reach over the edge


@dataclass(frozen=True)
class DrawnText:
    """One line of text as it was drawn."""

    text: str
    points: float  #: its size
    box: Bbox  #: what its ink covers, in pixels from the lower left corner


Lines = Sequence[DrawnText]


class _Listener(RendererAgg):
    """Notes each line of text, and leaves the slow work undone: nobody looks at its page."""

    def __init__(self, figure: Figure) -> None:
        super().__init__(*FigureCanvasAgg(figure).get_width_height(), figure.dpi)
        self.lines: list[DrawnText] = []

    def draw_text(  # type: ignore[override]
        self,
        gc: Any,
        x: float,
        y: float,
        s: str,
        prop: Any,
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

    def draw_path(self, *what: Any) -> None:
        pass


def drawn_texts(figure: Figure | Lines) -> Lines:
    """Returns every line of text that a figure shows, in the order of drawing; lines as they are.

    A figure is drawn twice, since the first drawing settles where things go.
    """
    if not isinstance(figure, Figure):
        return figure
    listener = _Listener(figure)
    figure.draw_without_rendering()
    figure.draw(listener)
    return listener.lines


def overlapping_texts(figure: Figure | Lines) -> list[tuple[str, str]]:
    """Returns the pairs of lines whose ink boxes lie over each other."""
    pairs = []
    for a, b in combinations(drawn_texts(figure), 2):
        shared = Bbox.intersection(a.box, b.box)
        if shared and min(shared.width, shared.height) > SLACK:
            pairs.append((a.text, b.text))
    return pairs


def small_texts(figure: Figure | Lines, points: float = TEXT) -> list[str]:
    """Returns the lines that are set smaller than so many points."""
    return [line.text for line in drawn_texts(figure) if line.points < points - 1e-6]


def cut_texts(figure: Figure, lines: Lines | None = None) -> list[str]:
    """Returns the lines that reach over the edge of the figure; `lines` are its `drawn_texts`, if known."""
    page = figure.bbox.padded(SLACK)
    return [line.text for line in drawn_texts(lines or figure) if page.count_contains(line.box.corners()) < 4]
