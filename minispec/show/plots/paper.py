"""What pictures are drawn on: a page of columns, on light or dark paper, and the files that it becomes."""

import base64
import html
import io
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image

from minispec.show.signs import STATES, State

TEXT = 20  # points, on tiles; pages show a picture at about half of its size
SMALL = 18
WIDE, HIGH = 1.2, 0.62  # inches, of a column and of a tile
LABELS = 3.5  # inches to the left of the first column
# Texts as paths look the same without the font; a fixed salt gives the same bytes again.
STYLE: dict[Any, Any] = {"hatch.linewidth": 0.6, "svg.fonttype": "path", "svg.hashsalt": "minispec"}


@dataclass(frozen=True)
class Theme:
    """The colours of all that is on no tile."""

    paper: str
    ink: str
    quiet: str  #: of what matters less


LIGHT = Theme("#FFFFFF", "#000000", "#595959")
DARK = Theme("#131416", "#F2F2F2", "#B8B8B8")


@dataclass(frozen=True)
class Drawing:
    """A figure with its alternative text; a notebook shows both."""

    figure: Figure
    alt: str  #: what a screen reader says instead

    def svg(self) -> bytes:
        """Returns an SVG, the same bytes for the same figure."""
        file = io.BytesIO()
        with matplotlib.rc_context(STYLE):
            self.figure.savefig(file, format="svg", metadata={"Date": None, "Description": self.alt})
        return file.getvalue()

    def png(self, dpi: int = 100) -> bytes:
        """Returns a PNG of few colours, which makes it small."""
        large = io.BytesIO()
        with matplotlib.rc_context(STYLE):
            self.figure.savefig(large, format="png", dpi=dpi)
        small = io.BytesIO()
        Image.open(large).convert("RGB").quantize(64).save(small, format="png", optimize=True)
        return small.getvalue()

    def _repr_html_(self) -> str:
        data = base64.b64encode(self.png()).decode("ascii")
        return (
            f'<img alt="{html.escape(self.alt)}" style="max-width:100%" src="data:image/png;base64,{data}">'
        )


class Paper:
    """A page of columns; y is in inches from its lower edge, and columns are counted from 0."""

    def __init__(self, columns: int, high: float, title: str, theme: Theme) -> None:
        """Makes a page with a title and nothing else."""
        self.theme = theme
        wide = LABELS + columns * WIDE + 0.25
        self.figure = Figure(figsize=(wide, high), facecolor=theme.paper)
        self.axes = self.figure.add_axes((0.0, 0.0, 1.0, 1.0), xlim=(0, wide), ylim=(0, high))
        self.axes.set_axis_off()
        self.write(0.2, high - 0.42, title, TEXT + 3, weight="bold", ha="left")

    def centre(self, column: float) -> float:
        """Returns the middle of a column, in inches."""
        return LABELS + (column + 0.5) * WIDE

    def write(self, x: float, y: float, text: str, size: int = TEXT, **style: Any) -> None:
        """Writes a text around a point, which is in inches."""
        style = {"color": self.theme.ink, "ha": "center", "va": "center"} | style
        self.axes.text(x, y, text, fontsize=size, family="DejaVu Sans", parse_math=False, **style)

    def label(self, y: float, name: str, words: str) -> None:
        """Names a row, and says in a few words what happens there."""
        self.write(0.2, y + 0.17, name, weight="bold", ha="left")
        self.write(0.2, y - 0.17 if name else y, words, SMALL, color=self.theme.quiet, ha="left")

    def tile(self, column: float, y: float, look: State, text: str = "", **style: Any) -> None:
        """Draws a tile around a point of a column, in a look's colour and hatch, and a text on it."""
        x = self.centre(column)
        style = {"facecolor": look.colour, "hatch": look.hatch, "edgecolor": "black"} | style
        self.axes.add_patch(Rectangle((x - WIDE / 2 + 0.05, y - HIGH / 2), WIDE - 0.1, HIGH, **style))
        spot = {"facecolor": look.colour, "edgecolor": "none", "pad": 1.5} if look.hatch else None
        self.write(x, y, text, color=look.ink, bbox=spot)

    def token(self, column: float, y: float, state: str, word: str) -> None:
        """Draws a token in a state: the sign directly before the word, on the state's colour.

        What is rejected is struck out, and what is pending underlined with dashes.
        """
        self.tile(column, y, STATES[state], f"{STATES[state].glyph}{word}")
        x = self.centre(column)
        line: dict[str, Any] = {"color": "black", "linewidth": 2.2, "zorder": 4}
        if state == "rejected":
            self.axes.plot([x - 0.2, x + 0.42], [y, y], **line)
        if state == "pending":
            self.axes.plot([x - 0.45, x + 0.45], [y - 0.21, y - 0.21], **line, dashes=(2.2, 1.4))

    def bar(self, columns: range, y: float, high: float, look: State) -> None:
        """Draws one area over some columns: a forward pass."""
        corner = (self.centre(columns[0]) - WIDE / 2 + 0.05, y - high / 2)
        self.axes.add_patch(Rectangle(corner, len(columns) * WIDE - 0.1, high, facecolor=look.colour))

    def arrow(self, start: tuple[float, float], end: tuple[float, float], **style: Any) -> None:
        """Draws an arrow from a (column, y) to another."""
        style = {"color": self.theme.quiet, "linewidth": 2, "shrinkA": 0, "shrinkB": 0} | style
        style |= {"arrowstyle": "-|>", "mutation_scale": 18}
        (x, y), (from_x, from_y) = ((self.centre(column), high) for column, high in (end, start))
        self.axes.annotate("", (x, y), (from_x, from_y), arrowprops=style)
