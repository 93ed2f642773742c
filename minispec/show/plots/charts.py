"""What charts of numbers share: axes with large text, keys above them, numbers as people write them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from minispec.show.plots.style import GUESS, TEXT, State

MEASURED = State("black", "●", marker="o", word="measured")
# Curves are told apart by colour and line style, and each is named at its end.
CURVES = (("#0072B2", "-"), ("#D55E00", "--"), ("#009E73", "-."), ("#56B4E9", ":"), ("#000000", "-"))
LOSS = State("#EEEEEE", "", hatch="xx", word="slower than the target alone")


def prepare(axes: Axes, x: str = "", y: str = "", grid: str = "both") -> Axes:
    """Names both axes, sets their text to a readable size, and takes away what only decorates."""
    axes.set_xlabel(x, fontsize=TEXT)
    axes.set_ylabel(y, fontsize=TEXT)
    axes.tick_params(which="both", labelsize=TEXT)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3, axis=grid)  # type: ignore[arg-type]
    axes.set_axisbelow(True)
    return axes


def ticks(axes: Axes, which: str, places: Sequence[float]) -> None:
    """Sets the ticks of the `x` or `y` axis to plain numbers at some places, whatever its scale."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(FixedLocator(list(places)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def steps_of_ten(low: float, high: float) -> list[float]:
    """Returns 1, 2 and 5 times powers of ten from below `low` to above `high`, for logarithmic axes."""
    every = [digit * 10.0**power for power in range(-9, 10) for digit in (1, 2, 5)]
    inside = [x for x in every if low <= x <= high]
    below = [x for x in every if x < low][-1:]
    above = [x for x in every if x > high][:1]
    return below + inside + above


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


def spread(places: Sequence[float], gap: float) -> list[float]:
    """Moves numbers apart until each is at least `gap` from the next, and keeps their order.

    Args:
        places: where labels would stand.
        gap: how far apart they must be.
    """
    order = sorted(range(len(places)), key=lambda i: places[i])
    moved = [float(x) for x in places]
    for _ in range(200):
        worst = False
        for a, b in zip(order, order[1:], strict=False):
            short = gap - (moved[b] - moved[a])
            if short > 1e-9:
                moved[a] -= short / 2
                moved[b] += short / 2
                worst = True
        if not worst:
            break
    return moved


def guess_at(axes: Axes, x: float, y: float, label: str = GUESS.word) -> None:
    """Draws the reader's guess as a diamond; an empty label keeps it out of the key."""
    axes.plot(
        [x],
        [y],
        linestyle="none",
        marker=GUESS.marker,
        markersize=16,
        color=GUESS.colour,
        markeredgecolor="black",
        label=label,
        zorder=5,
        clip_on=False,
    )


def listed(words: Iterable[object]) -> str:
    """Writes a list as people do: 8, 16 and 32."""
    *most, last = map(str, words)
    return f"{', '.join(most)} and {last}" if most else last


def seconds(value: float) -> str:
    """Writes a time with three digits: 1.26 ms."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def size(count: float, unit: str = "B") -> str:
    """Writes a number of bytes, or of anything, with three digits: 38.7 MB."""
    for prefix, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= scale:
            return f"{count / scale:.3g} {prefix}{unit}"
    return f"{count:.3g} {unit}"
