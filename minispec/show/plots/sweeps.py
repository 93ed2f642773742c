"""Figures of sweeps: drafts of several sizes, and batches of several sizes, with the losses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes

from minispec.evidence.bench.measurements import BatchPoint, DraftPoint
from minispec.show.plots import charts
from minispec.show.plots.charts import LOSS
from minispec.show.plots.style import DRAFTER, STATES, TARGET, Picture, State, sentence, sheet

GAIN = STATES["draft"]


def draft_sweep(points: Sequence[DraftPoint], guess: str | None = None) -> Picture:
    """Draws what a larger draft gains and costs: acceptance, cost ratio, and the speed-up that remains.

    Args:
        points: one per draft, at least one.
        guess: the name of the draft that the reader thinks is best.
    """
    points = sorted(points, key=lambda point: point.parameters)
    names = [point.name for point in points]
    best = max(points, key=lambda point: point.gain)
    figure = sheet(max(10.0, 1.4 * len(points)), 9.4)
    top, middle, bottom = figure.subplots(3, 1, sharex=True)
    _panel(top, "acceptance α", [p.alpha for p in points], STATES["draft"])
    _panel(middle, "cost ratio c", [p.c for p in points], STATES["correction"])
    charts.prepare(bottom, "draft", "speed-up")
    _gains(bottom, points, points.index(best))
    if guess in names:
        charts.guess_at(bottom, names.index(guess), 0.25)
    labels = [f"{p.name.replace(' ', chr(10))}\n{charts.size(p.parameters, '')}" for p in points]
    bottom.set_xticks(range(len(points)), labels)
    bottom.set_xlim(-0.6, len(points) - 0.4)
    charts.keys(bottom, 2)
    text = f"the best of {len(points)} drafts is {best.name}, with α = {best.alpha:.2f} and c = {best.c:.2f}"
    alt = f"Three charts over {len(points)} drafts from small to large: acceptance, cost ratio and speed-up; "
    twin = [
        f"{p.name} ({p.parameters:,} weights): α = {p.alpha:.2f}, c = {p.c:.2f}, {p.gain:.2f} times as "
        f"fast ({p.low:.2f} to {p.high:.2f}) with K = {p.k}"
        for p in points
    ]
    caption = sentence(f"{text}: {best.gain:.2f} times as fast as the target alone")
    return Picture("draft-sweep", figure, f"{alt}{text}.", caption, "\n".join(twin))


def _panel(axes: Axes, word: str, values: Sequence[float], look: State) -> None:
    """Draws one number per draft, with the number written over each point."""
    charts.prepare(axes, y=word)
    axes.plot(range(len(values)), values, color=look.colour, marker=look.marker, markersize=13, linewidth=2.5)
    for x, value in enumerate(values):
        charts.note(axes, f"{value:.2f}", (x, value), (0, 12), ha="center")
    axes.set_ylim(0, max(values) * 1.35)


def batch_sweep(points: Sequence[BatchPoint]) -> Picture:
    """Draws tokens per second and the gain against the number of texts in a batch; losses are hatched.

    Args:
        points: one per size, at least one.
    """
    points = sorted(points, key=lambda point: point.rows)
    columns, sizes = range(len(points)), [point.rows for point in points]
    figure = sheet(10, 8.4)
    top, bottom = figure.subplots(2, 1, sharex=True)
    charts.prepare(top, y="tokens per second")
    for name, values, look, style in (
        ("target alone", [p.target_only for p in points], TARGET, "-"),
        ("with a draft", [p.speculative for p in points], DRAFTER, "--"),
    ):
        line: dict[str, Any] = {"color": look.colour, "marker": look.marker, "markersize": 12}
        top.plot(columns, values, linestyle=style, linewidth=2.5, label=name, **line)
    top.set_ylim(bottom=0)
    charts.keys(top, 2)
    charts.prepare(bottom, "texts side by side (rows of the batch)", "speed-up")
    _gains(bottom, points)
    bottom.set_xticks(columns, [str(n) for n in sizes])
    charts.keys(bottom, 2)
    text = _batch_words(points)
    alt = f"Tokens per second, and the speed-up below, for batches of {sizes[0]} to {sizes[-1]}: the {text}."
    twin = [
        f"{p.rows} rows: target alone {p.target_only:.0f}/s, with a draft {p.speculative:.0f}/s, "
        f"{p.gain:.2f} times as fast ({p.low:.2f} to {p.high:.2f})" + (", a loss" if p.gain < 1 else "")
        for p in points
    ]
    return Picture("batch-sweep", figure, alt, f"The {text}.", "\n".join(twin))


def _batch_words(points: Sequence[BatchPoint]) -> str:
    """Says how the gain changes, and where it is a loss."""
    first, last = points[0], points[-1]
    start = f"{first.gain:.2f} with {first.rows} text{'s' * (first.rows > 1)}"
    losing = [str(point.rows) for point in points if point.gain < 1]
    end = f"it is a loss with {', '.join(losing)}" if losing else "no size that was tried is a loss"
    return f"gain goes from {start} to {last.gain:.2f} with {last.rows}, and {end}"


def _gains(axes: Axes, points: Sequence[DraftPoint | BatchPoint], best: int | None = None) -> None:
    """Draws speed-ups as bars with their quartiles: gains plain, losses hatched, the best with a star."""
    for won, look, word in ((True, GAIN, "faster"), (False, LOSS, LOSS.word)):
        some = {x: point for x, point in enumerate(points) if (point.gain >= 1) is won}
        gains = [p.gain for p in some.values()]
        spans = charts.whiskers([p.low for p in some.values()], gains, [p.high for p in some.values()])
        bar: dict[str, Any] = {"facecolor": look.colour, "hatch": look.hatch, "edgecolor": "black"}
        if some:
            axes.bar(list(some), gains, 0.6, yerr=spans, capsize=6, label=word, **bar)
    white = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
    for x, point in enumerate(points):
        text = f"{'★ ' if x == best else ''}{point.gain:.2f}"
        charts.note(axes, text, (x, point.high), (0, 10), ha="center", bbox=white, zorder=4)
    axes.axhline(1, color="black", linewidth=1.5)
    axes.set_ylim(0, max(1.0, *(point.high for point in points)) * 1.25)
