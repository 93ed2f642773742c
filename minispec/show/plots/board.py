"""Drawing in inches: tiles, lines of text and keys, for figures without axes; and the title of all."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any

from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Rectangle
from matplotlib.textpath import TextToPath

from minispec.io.files import read_table
from minispec.show.plots.charts import area, write_on
from minispec.show.plots.style import TEXT, Picture, aligned
from minispec.show.signs import STATES, State

GREY = "#595959"  # for text of lesser weight: still 7 to 1 on white
MARGIN = 0.2  # inches, around the page
SWATCH = 0.34  # side of a key's tile, in inches
HEAD = 0.36  # height of a line of the title
WORDS = read_table(__file__, "words.toml")
PARTS = ("title", "alt", "caption")  # of a table of words.toml


@dataclass(frozen=True)
class Cell:
    """One cell of a line."""

    text: str = ""
    look: State | None = None  #: of its tile; None for text by itself
    wide: int = 1  #: how many columns it covers
    colour: str = "black"  #: of text by itself


def tile(look: State, word: str = "") -> Cell:
    """Returns a tile with the sign of a look, and a word directly after it."""
    return Cell(look.glyph + word, look)


@dataclass(frozen=True)
class Line:
    """A name, cells under each other's columns, and a note after them; without cells a heading."""

    label: str
    cells: Sequence[Cell] = ()
    note: str = ""


class Board:
    """One page whose coordinates are inches from its upper left corner: y is negative, further down.

    So a text that is 1.2 inches wide gets a tile of 1.3 inches. A figure draws downwards, and `end` cuts the
    page off where it came to.

    Attributes:
        axes: they cover the page.
        width: of the page, in inches.
    """

    def __init__(self, width: float) -> None:
        """Makes an empty page."""
        self.width = width
        self._figure = Figure()  # no layout engine: everything has its coordinates
        self.axes = self._figure.add_axes((0.0, 0.0, 1.0, 1.0))
        self.axes.set_axis_off()
        self.axes.set_xlim(0, width)

    def write(self, x: float, y: float, text: str, **style: Any) -> None:
        """Writes a line at a point, by default from there to the right, and centred in height."""
        self.axes.text(x, y, text, fontsize=TEXT, parse_math=False, **{"va": "center"} | style)

    def tile(
        self,
        corner: tuple[float, float],
        size: tuple[float, float],
        state: State,
        text: str = "",
        **style: Any,
    ) -> None:
        """Draws a rectangle in a state's colour and hatch, with a text in the middle, free of the hatch.

        The lower left corner and the size are in inches; `style` is for the rectangle, such as `linewidth`.
        """
        rectangle = Rectangle(corner, *size, **area(state) | style)
        self.axes.add_artist(rectangle)
        if text:
            x, y = rectangle.get_center()
            write_on(self.axes, x, y, text, state)

    def end(self, y: float, key: Sequence[State] = ()) -> Figure:
        """Returns the page, cut off below a height and a key under it: a tile and a word for each state."""
        x = self.width  # so that the first one begins a line
        for state in key:
            wide = SWATCH + 0.12 + text_width(state.word) + 0.4
            if x + wide > self.width - MARGIN:
                x = MARGIN
                y -= SWATCH + 0.12
            self.tile((x, y), (SWATCH, SWATCH), state, state.glyph)
            self.write(x + SWATCH + 0.12, y + SWATCH / 2, state.word)
            x += wide
        self._figure.set_size_inches(self.width, MARGIN - y)
        self.axes.set_ylim(y - MARGIN, 0)
        return self._figure


def tiled(
    *panels: Sequence[Line], heads: Sequence[str] = (), key: Sequence[State] = (), high: float = 0.48
) -> Figure:
    """Returns a page of lines under turned headings of their columns; of several panels side by side.

    high: of a line, in inches.
    """
    lines = [line for panel in panels for line in panel]
    sizes = [(text_width(cell.text) + 0.18) / cell.wide for line in lines for cell in line.cells]
    column = max(0.42, *sizes)
    label_width = MARGIN + widest(line.label for line in lines if line.cells) + 0.15
    right = label_width + column * max(sum(cell.wide for cell in line.cells) for line in lines) + 0.15
    panel_width = right + widest(line.note for line in lines)
    page = Board(max(panel_width * len(panels) + MARGIN, 9.0))
    top = -widest(heads) - 0.25 * bool(heads)
    bottom = 0.0
    for number, panel in enumerate(panels):
        start = panel_width * number
        for i, head in enumerate(heads):
            x = start + label_width + column * (i + 0.5)
            page.write(x, top + 0.1, head, rotation=90, ha="center", va="bottom")
        y = top
        for line in panel:
            y -= high if line.cells else high + 0.12
            middle = y + high / 2 - 0.03
            if not line.cells:
                page.write(start + MARGIN, middle, line.label, weight="bold")
            else:
                page.write(start + label_width - 0.15, middle, line.label, ha="right")
            page.write(start + right, middle, line.note)
            x = start + label_width
            for cell in line.cells:
                wide = column * cell.wide
                if cell.look:
                    page.tile((x, y), (wide, high - 0.06), cell.look, cell.text)
                else:
                    page.write(x + wide / 2, middle, cell.text, ha="center", color=cell.colour)
                x += wide
        bottom = min(bottom, y)
    return page.end(bottom - 0.1, key)


def twin_of(lines: Sequence[Line], heads: Sequence[str] = ()) -> str:
    """Returns the same lines in characters; a tile without a text is a dash."""
    rows = [["", *heads]] if heads else []
    for line in lines:
        texts = [[cell.text or "-" * bool(cell.look)] + ["…"] * (cell.wide - 1) for cell in line.cells]
        rows.append([line.label, *chain(*texts), line.note] if texts else [line.label])
    return aligned(rows)


def in_order(names: Iterable[str], looks: Mapping[str, State] = STATES) -> list[State]:
    """Returns the looks of some names, each once, in the order in which they are listed."""
    selected = set(names)
    return [state for name, state in looks.items() if name in selected]


def worded(name: str, figure: Figure, twin: Sequence[str], case: str = "", /, **values: Any) -> Picture:
    """Returns a picture with the title, the alternative text and the caption that words.toml has for it.

    The twin is a text or its lines. `case` is a special case there, and `values` are what these texts leave
    open; the rest: see `titled`.
    """
    texts = WORDS[name] | WORDS[name].get(case, {})
    title, alt, caption = (" ".join(texts[part].split()).format(**values) for part in PARTS)
    return titled(name, figure, title, alt, caption, twin if isinstance(twin, str) else "\n".join(twin))


def titled(name: str, figure: Figure, title: str, alt: str, caption: str, twin: str) -> Picture:
    """Returns a picture with its message over it, in alternative text and twin too.

    The figure is a `sheet`, which makes room for the title, or that of a `Board`, which grows at its top. The
    title takes as many lines as it needs and has no full stop.
    """
    wide, high = figure.get_size_inches()
    lines = [""]
    for word in title.split():
        if lines[-1] and text_width(f"{lines[-1]} {word}", "bold") > wide - 0.5:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    style: dict[str, Any] = {"fontsize": TEXT, "weight": "bold", "ha": "left", "parse_math": False}
    if isinstance(engine := figure.get_layout_engine(), ConstrainedLayoutEngine):
        engine.set(w_pad=0.1, h_pad=0.1)
        figure.suptitle("\n".join(lines), x=0.1 / wide, **style)
    else:
        (axes,) = figure.axes
        top = HEAD * len(lines) + 0.15
        figure.set_size_inches(wide, high + top)
        axes.set_ylim(top=top)
        axes.text(MARGIN, top - 0.15, "\n".join(lines), va="top", **style)
    return Picture(name, figure, f"{title}. {alt}", caption, f"{title}\n{twin}", title)


@cache
def text_width(text: str, weight: str = "normal") -> float:
    """Returns how wide a text is, in inches."""
    font = FontProperties(size=TEXT, weight=weight)
    return float(TextToPath().get_text_width_height_descent(text, font, False)[0]) / 72


def widest(texts: Iterable[str], least: float = 0.0) -> float:
    """Returns the width of the widest text in inches, `least` at the least."""
    return max([least, *map(text_width, texts)])
