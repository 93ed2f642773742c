"""Is a figure readable? Finds texts that lie over each other, are too small, or leave the page.

A renderer notes every line of text that it is asked to draw, so that only what is really drawn counts:
labels of ticks outside the axes do not.
"""

from typing import NamedTuple

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.transforms import Affine2D, Bbox

from minispec.show.plots.style import TEXT

SLACK = 1.0  # pixels that boxes may share, or reach over the edge


class DrawnText(NamedTuple):
    """One line of text as it was drawn."""

    text: str
    points: float  #: its size
    box: np.ndarray  #: what its ink covers: left, bottom, right, top, in pixels from the lower left corner


class Listener(RendererAgg):
    """Notes each line of text, and leaves the slow work undone: nobody looks at its page."""

    def __init__(self, figure):
        super().__init__(*FigureCanvasAgg(figure).get_width_height(), figure.dpi)
        self.lines = []

    def draw_text(self, gc, x, y, s, prop, angle, ismath=False, mtext=None):
        if s.strip():
            wide, high, descent = self.get_text_width_height_descent(s, prop, ismath)
            turn = Affine2D().rotate_deg(angle).translate(x, self.height - y)  # y counts from the top
            corners = turn.transform(Bbox.from_extents(0, -descent, wide, high - descent).corners())
            box = np.concatenate([corners.min(axis=0), corners.max(axis=0)])
            self.lines.append(DrawnText(s, prop.get_size_in_points(), box))

    def draw_path(self, *what):
        pass


def drawn_texts(figure):
    """Returns every line of text that a figure shows, in the order of drawing.

    A figure with a layout engine is drawn twice, since the first drawing settles where things go.
    """
    listener = Listener(figure)
    if figure.get_layout_engine() is not None:
        figure.draw_without_rendering()
    figure.draw(listener)
    return listener.lines


def unreadable(figure, points=TEXT):
    """Returns what cannot be read: texts over each other, in pairs; smaller than so many points; cut off."""
    lines = drawn_texts(figure)
    texts = [line.text for line in lines]
    boxes = np.array([line.box for line in lines]).reshape(-1, 4)
    corner = np.maximum(boxes[:, None, :2], boxes[None, :, :2])  # the lower left one of what two boxes share
    shared = np.minimum(boxes[:, None, 2:], boxes[None, :, 2:]) - corner
    over = np.triu(shared.min(axis=-1) > SLACK, 1)
    page = figure.bbox.extents
    out = np.maximum(page[:2] - boxes[:, :2], boxes[:, 2:] - page[2:]).max(axis=-1) > SLACK
    found = {
        "over each other": [(texts[i], texts[j]) for i, j in zip(*over.nonzero(), strict=True)],
        "small": [line.text for line in lines if line.points < points - 1e-6],
        "cut off": [text for text, gone in zip(texts, out, strict=True) if gone],
    }
    return {fault: lines for fault, lines in found.items() if lines}
