"""Figures of sweeps: drafts of several sizes, and batches of several sizes, with the losses."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from minispec.evidence.bench.measurements import BatchPoint, DraftPoint
from minispec.show.plots import charts
from minispec.show.plots.charts import LOSS
from minispec.show.plots.picture import Picture
from minispec.show.plots.style import DRAFTER, STATES, TARGET, TEXT, State, sheet

GAIN = STATES["draft"]


def draft_sweep(points: Sequence[DraftPoint], guess: str | None = None) -> Picture:
    """Draws what a larger draft gains and costs: acceptance, cost ratio, and the speed-up that remains.

    Args:
        points: one per draft.
        guess: the name of the draft that the reader thinks is best.

    Raises:
        ValueError: if there are no points.
    """
    if not points:
        raise ValueError("there is no draft to draw; give at least one point")
    points = sorted(points, key=lambda point: point.parameters)
    names, places = [point.name for point in points], list(range(len(points)))
    best = max(points, key=lambda point: point.gain)
    figure = sheet(max(10.0, 1.4 * len(points)), 9.4)
    top, middle, bottom = figure.subplots(3, 1, sharex=True)
    _panel(top, "acceptance α", [p.alpha for p in points], STATES["draft"])
    _panel(middle, "cost ratio c", [p.c for p in points], STATES["correction"])
    charts.prepare(bottom, "draft", "speed-up")
    _gains(bottom, points, points.index(best))
    if guess in names:
        charts.guess_at(bottom, names.index(guess), 0.25)
    bottom.set_xticks(
        places, [f"{p.name.replace(' ', chr(10))}\n{charts.size(p.parameters, '')}" for p in points]
    )
    bottom.set_xlim(-0.6, len(points) - 0.4)
    charts.keys(bottom, 2)
    text = f"the best of {len(points)} drafts is {best.name}, with α = {best.alpha:.2f} and c = {best.c:.2f}"
    return Picture(
        "draft-sweep",
        figure,
        f"Three charts over {len(points)} drafts from small to large: acceptance, cost ratio and speed-up; "
        f"{text}.",
        f"{text[0].upper()}{text[1:]}: {best.gain:.2f} times as fast as the target alone.",
        "\n".join(
            f"{p.name} ({p.parameters:,} weights): α = {p.alpha:.2f}, c = {p.c:.2f}, {p.gain:.2f} times as "
            f"fast ({p.low:.2f} to {p.high:.2f}) with K = {p.k}"
            for p in points
        ),
    )


def _panel(axes: Axes, word: str, values: Sequence[float], look: State) -> None:
    """Draws one number per draft, with the number written over each point."""
    charts.prepare(axes, y=word)
    axes.plot(range(len(values)), values, color=look.colour, marker=look.marker, markersize=13, linewidth=2.5)
    for spot in enumerate(values):
        axes.annotate(f"{spot[1]:.2f}", spot, (0, 12), textcoords="offset points", ha="center", fontsize=TEXT)
    axes.set_ylim(0, max(values) * 1.35)


def batch_sweep(points: Sequence[BatchPoint], guess: int | None = None) -> Picture:
    """Draws tokens per second and the gain against the number of texts side by side; losses are hatched.

    Args:
        points: one per size.
        guess: the number of rows from which the reader thinks that speculation loses.

    Raises:
        ValueError: if there are no points.
    """
    if not points:
        raise ValueError("there is no batch to draw; give at least one point")
    points = sorted(points, key=lambda point: point.rows)
    places, sizes = list(range(len(points))), [point.rows for point in points]
    figure = sheet(10, 8.4)
    top, bottom = figure.subplots(2, 1, sharex=True)
    charts.prepare(top, y="tokens per second")
    for name, values, look, style in (
        ("target alone", [p.target_only for p in points], TARGET, "-"),
        ("with a draft", [p.speculative for p in points], DRAFTER, "--"),
    ):
        line = {"color": look.colour, "marker": look.marker, "markersize": 12, "linewidth": 2.5}
        top.plot(places, values, linestyle=style, label=name, **line)
    top.set_ylim(bottom=0)
    charts.keys(top, 2)
    charts.prepare(bottom, "texts side by side (rows of the batch)", "speed-up")
    _gains(bottom, points)
    if guess is not None:
        nearest = min(places, key=lambda place: abs(sizes[place] - guess))
        charts.guess_at(bottom, nearest, 1)
    bottom.set_xticks(places, [str(n) for n in sizes])
    charts.keys(bottom, 2)
    text, end = _batch_words(points)
    return Picture(
        "batch-sweep",
        figure,
        f"Tokens per second, and the speed-up below, for batches of {sizes[0]} to {sizes[-1]}: "
        f"the {text}; {end}.",
        f"The {text}, and {end}.",
        "\n".join(
            f"{p.rows} rows: target alone {p.target_only:.0f}/s, with a draft {p.speculative:.0f}/s, "
            f"{p.gain:.2f} times as fast ({p.low:.2f} to {p.high:.2f})" + (", a loss" if p.gain < 1 else "")
            for p in points
        ),
    )


def _batch_words(points: Sequence[BatchPoint]) -> tuple[str, str]:
    """Says how the gain changes, and where it is a loss."""
    first, last = points[0], points[-1]
    start = f"{first.gain:.2f} with {first.rows} text{'s' * (first.rows > 1)}"
    losing = [point.rows for point in points if point.gain < 1]
    end = f"it is a loss with {charts.listed(losing)}" if losing else "no size that was tried is a loss"
    return f"gain goes from {start} to {last.gain:.2f} with {last.rows}", end


def _gains(axes: Axes, points: Sequence[DraftPoint | BatchPoint], best: int | None = None) -> None:
    """Draws speed-ups as bars with their quartiles: gains plain, losses hatched, the best with a star."""
    for won, look, word in ((True, GAIN, "faster"), (False, LOSS, LOSS.word)):
        places = [place for place, point in enumerate(points) if (point.gain >= 1) is won]
        gains = [points[place].gain for place in places]
        spans = [
            [points[place].gain - points[place].low for place in places],
            [points[place].high - points[place].gain for place in places],
        ]
        if places:
            axes.bar(
                places,
                gains,
                0.6,
                yerr=spans,
                capsize=6,
                facecolor=look.colour,
                edgecolor="black",
                hatch=look.hatch,
                label=word,
            )
    for place, point in enumerate(points):
        text = f"{'★ ' if place == best else ''}{point.gain:.2f}"
        axes.annotate(
            text,
            (place, point.high),
            (0, 10),
            textcoords="offset points",
            ha="center",
            fontsize=TEXT,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5},
            zorder=4,
        )
    axes.axhline(1, color="black", linewidth=1.5)
    axes.set_ylim(0, max(1.0, *(point.high for point in points)) * 1.25)
