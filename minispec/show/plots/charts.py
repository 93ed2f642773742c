"""What charts of numbers share: axes with large text, keys above them, numbers as people write them."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from minispec.show.plots.style import DRAFTER, GUESS, TEXT
from minispec.show.signs import State

# Curves in order are told apart by lightness (cividis) and line style, and each is named at its end.
CURVES = (("#00224E", "-"), ("#434E6C", "--"), ("#7D7C78", "-."), ("#A59C74", ":"), ("#000000", "-"))
GAIN = State(DRAFTER.colour, "", word="faster")
LOSS = State("#EEEEEE", "", hatch="..", word="slower than the target alone")


def prepare(axes: Axes, x: str = "", y: str = "", grid: str = "both") -> Axes:
    """Names both axes, sets their text to a readable size, and takes away what only decorates."""
    axes.set_xlabel(x, fontsize=TEXT)
    axes.set_ylabel(y, fontsize=TEXT)
    axes.tick_params(which="both", labelsize=TEXT)
    axes.spines[["top", "right"]].set_visible(False)
    if grid:
        axes.grid(alpha=0.3, axis=grid)  # type: ignore[arg-type]
        axes.set_axisbelow(True)
    return axes


def ticks(axes: Axes, which: str, positions: Sequence[float]) -> None:
    """Sets the ticks of the `x` or `y` axis to plain numbers at some positions, whatever its scale."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(FixedLocator(list(positions)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def steps_of_ten(low: float, high: float) -> list[float]:
    """Returns 1, 2 and 5 times powers of ten from below `low` to above `high`, for logarithmic axes."""
    every = [digit * 10.0**power for power in range(-9, 10) for digit in (1, 2, 5)]
    inside = [x for x in every if low <= x <= high]
    return [*[x for x in every if x < low][-1:], *inside, *[x for x in every if x > high][:1]]


def keys(axes: Axes, columns: int = 1) -> None:
    """Puts the key above the axes, where it covers nothing, the reader's guess last."""
    entries = zip(*axes.get_legend_handles_labels(), strict=True)
    handles, labels = zip(*sorted(entries, key=lambda entry: entry[1] == GUESS.word), strict=True)
    look: dict[str, Any] = {"fontsize": TEXT, "frameon": False, "borderpad": 0}
    axes.legend(handles, labels, loc="lower left", bbox_to_anchor=(0, 1.01), ncols=columns, **look)


def note(axes: Axes, text: str, point: tuple[float, float], offset: tuple[float, float], **how: Any) -> None:
    """Writes a text so many points away from a point of the chart."""
    axes.annotate(text, point, offset, textcoords="offset points", fontsize=TEXT, **how)


def spread(positions: Sequence[float], gap: float) -> list[float]:
    """Moves labels apart until each is at least `gap` from the next, and keeps their order."""
    order = sorted(range(len(positions)), key=lambda i: positions[i])
    moved = [float(x) for x in positions]
    for _ in range(200):
        for a, b in pairwise(order):
            short = max(0.0, gap - (moved[b] - moved[a]))
            moved[a] -= short / 2
            moved[b] += short / 2
        if all(moved[b] - moved[a] > gap - 1e-9 for a, b in pairwise(order)):
            break
    return moved


def guess_at(axes: Axes, x: float, y: float, label: str = GUESS.word) -> None:
    """Draws the reader's guess as a diamond; an empty label keeps it out of the key."""
    look: dict[str, Any] = {"color": GUESS.colour, "markeredgecolor": "black", "markersize": 16}
    axes.plot([x], [y], GUESS.marker, label=label, zorder=5, clip_on=False, **look)


def whiskers(lows: Sequence[float], medians: Sequence[float], highs: Sequence[float]) -> list[list[float]]:
    """Returns how far quartiles lie below and above their medians, as matplotlib wants error bars."""
    return [
        [median - low for low, median in zip(lows, medians, strict=True)],
        [high - median for high, median in zip(highs, medians, strict=True)],
    ]


def size(count: float, unit: str = "B") -> str:
    """Writes a number of bytes, or of anything, with three digits: 38.7 MB."""
    for prefix, power in zip("TGMk mµ", (12, 9, 6, 3, 0, -3, -6), strict=True):
        if count >= 10.0**power:
            return f"{count / 10.0**power:.3g} {prefix.strip()}{unit}"
    return f"{count / 1e-9:.3g} n{unit}"


def seconds(value: float) -> str:
    """Writes a time with three digits: 1.26 ms."""
    return size(value, "s")
