"""What charts of numbers share: axes with large text, keys beside them, numbers as people write them."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter

from minispec.show.plots.style import TEXT, sheet
from minispec.show.signs import GUESS, SIGNS, State

# Curves in order are told apart by lightness (cividis) and line style, and each is named at its end.
CURVES = (("#00224E", "-"), ("#434E6C", "--"), ("#7D7C78", "-."), ("#A59C74", ":"), ("#000000", "-"))
GAIN, LOSS = SIGNS["gains"].values()
Grid = Literal["both", "x", "y", ""]  # which lines a chart has behind it; empty: none
Numbers = Sequence[float] | np.ndarray


def chart(width: float, height: float, x: str = "", y: str = "", grid: Grid = "both") -> tuple[Figure, Axes]:
    """Returns a figure, in inches, with one pair of axes, named as by `prepare`."""
    figure = sheet(width, height)
    return figure, prepare(figure.add_subplot(), x, y, grid)


def panels(
    count: int, across: int, width: float, height: float, **style: Any
) -> tuple[Figure, Sequence[Axes]]:
    """Returns a figure, in inches, with so many axes in lines of `across` at most."""
    figure = sheet(width, height)
    grid = figure.subplots(-(-count // across), min(count, across), squeeze=False, **style).flatten()
    for axes in grid[count:]:
        axes.set_visible(False)
    return figure, grid[:count]


def prepare(axes: Axes, x: str = "", y: str = "", grid: Grid = "both", title: str = "", **style: Any) -> Axes:
    """Names both axes, sets their text to a readable size, and takes away what only decorates.

    `style` is for the title, such as `weight`; by default it begins at the left.
    """
    axes.set_xlabel(x, fontsize=TEXT)
    axes.set_ylabel(y, fontsize=TEXT)
    axes.set_title(title, fontsize=TEXT, parse_math=False, **{"loc": "left"} | style)
    axes.tick_params(which="both", labelsize=TEXT)
    axes.spines[["top", "right"]].set_visible(False)
    if grid:
        axes.grid(alpha=0.3, axis=grid)
        axes.set_axisbelow(True)
    return axes


def columns(axes: Axes, labels: Sequence[str], **style: Any) -> None:
    """Names the columns of bars at 0, 1, …, without ticks; a dollar sign is no formula."""
    axes.set_xticks(range(len(labels)), labels, parse_math=False, **style)
    axes.tick_params(axis="x", length=0)
    axes.set_xlim(-0.6, len(labels) - 0.4)


def area(look: State) -> dict[str, Any]:
    """Returns how a bar in some look is filled, as keywords."""
    return {"facecolor": look.colour, "hatch": look.hatch, "edgecolor": "black"}


def dots(look: State, size: float) -> dict[str, Any]:
    """Returns how points in some look are drawn, as keywords: so large, in points, and without a line."""
    return {"marker": look.marker, "ms": size, "color": look.colour, "mec": "black", "ls": "none"}


def patch(look: State, label: str = "") -> Patch:
    """Returns what a key shows for areas in some look: by default its sign and its word."""
    return Patch(label=label or f"{look.glyph} {look.word}".strip(), **area(look))


def write_on(axes: Axes, x: float, y: float, text: str, look: State) -> None:
    """Writes a text in the middle of an area in some look, free of its hatch."""
    spot = {"facecolor": look.colour, "edgecolor": "none", "pad": 1.5} if look.hatch else None
    axes.text(
        x, y, text, color=look.ink, bbox=spot, ha="center", va="center", fontsize=TEXT, parse_math=False
    )


def stack(
    axes: Axes, look: State, word: str, heights: Numbers, floors: Numbers, least: float = float("inf")
) -> Any:
    """Draws parts of bars, in columns 0, 1, …, with the sign in each that is high enough; returns them."""
    bars = axes.bar(range(len(heights)), heights, 0.7, floors, label=f"{look.glyph} {word}", **area(look))
    for x, (height, floor) in enumerate(zip(heights, floors, strict=True)):
        if height >= least:
            write_on(axes, x, floor + height / 2, look.glyph, look)
    return bars


def whiskers(points: Sequence[Any], medians: Sequence[float]) -> np.ndarray:
    """Returns how far the quartiles, `low` and `high`, lie below and above the medians, for error bars."""
    quartiles = np.array([[point.low, point.high] for point in points])
    return abs(quartiles.T - medians)


def levels(axes: Axes, heights: Numbers, half: float, **style: Any) -> LineCollection:
    """Draws a line across each column, from its middle so far to both sides, such as a distribution's."""
    middles = np.arange(len(heights))
    return axes.hlines(heights, middles - half, middles + half, **style)


def keys(axes: Axes, columns: int = 1) -> None:
    """Puts the key above the axes, where it covers nothing, the reader's guess last."""
    entries = zip(*axes.get_legend_handles_labels(), strict=True)
    handles, labels = zip(*sorted(entries, key=lambda entry: entry[1] == GUESS.word), strict=True)
    axes.legend(
        handles,
        labels,
        loc="lower left",
        bbox_to_anchor=(0, 1.01),
        ncols=columns,
        fontsize=TEXT,
        frameon=False,
        borderpad=0,
    )


def keys_below(figure: Figure, handles: Sequence[Any] = (), columns: int = 2) -> None:
    """Puts one key under all panels; without handles, of what the first panel shows."""
    shown_handles = handles or figure.axes[0].get_legend_handles_labels()[0]
    figure.legend(
        handles=shown_handles, loc="outside lower left", ncols=columns, fontsize=TEXT, frameon=False
    )


def note(
    axes: Axes, text: str, point: tuple[float, float], offset: tuple[float, float], **style: Any
) -> None:
    """Writes a text so many points away from a point of the chart."""
    axes.annotate(text, point, offset, textcoords="offset points", fontsize=TEXT, **style)


def spread(positions: Sequence[float], gap: float) -> np.ndarray:
    """Moves labels, the lowest first, up until each is at least `gap` above the one before."""
    gaps = gap * np.arange(len(positions))
    return np.maximum.accumulate(positions - gaps) + gaps


def name_curves(axes: Axes, x: float, ends: Mapping[str, float], gap: float) -> None:
    """Writes names beside the ends of curves, given with their heights, at least `gap` above each other."""
    names = sorted(ends, key=ends.__getitem__)
    for name, y in zip(names, spread(sorted(ends.values()), gap), strict=True):
        axes.text(x, y, name, fontsize=TEXT, va="center")


def guess_at(axes: Axes, x: float, y: float, label: str = GUESS.word) -> None:
    """Draws the reader's guess as a diamond; an empty label keeps it out of the key."""
    axes.plot([x], [y], label=label, zorder=5, clip_on=False, **dots(GUESS, 16))


def size(count: float, unit: str = "B") -> str:
    """Writes a number of bytes, or of anything, with three digits: 38.7 MB."""
    return EngFormatter(unit)(float(f"{count:.3g}"))


def seconds(value: float) -> str:
    """Writes a time with three digits: 1.26 ms."""
    return size(value, "s")
