"""Figures of speed: what a forward costs, what formulas predict, and sizes of drafts and batches."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes

from minispec.evidence.bench.measurements import BatchPoint, DraftPoint, Latency, SpeedPoint
from minispec.evidence.theory.formulas import speed_up
from minispec.show.plots import charts
from minispec.show.plots.board import worded
from minispec.show.plots.charts import CURVES, GAIN, LOSS
from minispec.show.plots.style import DRAFTER, GUESS, TARGET, TEXT, Picture, sheet
from minispec.show.signs import State

SIMPLE = State(CURVES[2][0], marker="s", word="theorem 3.8")
REFINED = State(CURVES[0][0], marker="o", word="with measured times")
ALONE = State("#DDDDDD", word="one by one")
BEST = "◎"
RING: dict[str, Any] = {"marker": "o", "markersize": 20, "markerfacecolor": "none", "markeredgewidth": 2.5}
RING |= {"linestyle": "none"}


def latency(points: Sequence[Latency], at: int = 5, guess: float | None = None) -> Picture:
    """Draws what some positions cost one by one and in one forward, and what one forward over more costs.

    Args:
        points: measured, of one model or several; each must have been measured for one token.
        at: the number of positions that are compared with as many forwards; the nearest that was measured.
        guess: how many times as long as one token the reader thinks that `at` take, in the first model.

    Raises:
        ValueError: if a model was not measured for one token.
    """
    lines: dict[str, list[Latency]] = {point.model: [] for point in points}
    for point in sorted(points, key=lambda point: point.width):
        lines[point.model].append(point)
    if not lines or any(line[0].width != 1 for line in lines.values()):
        raise ValueError("each model must be measured for one token too: all times are compared with that")
    figure = sheet(13, 3.8 * len(lines) + 1.2)
    panels = figure.subplots(len(lines), 2, sharey="row", squeeze=False, width_ratios=[1.5, 2])
    twin: list[str] = []
    for row, line, look in zip(panels, lines.values(), cycle((TARGET, DRAFTER)), strict=False):
        near = min(line, key=lambda point: abs(point.width - at))
        twin += _two_ways(row, line, near, look, None if twin else guess)
    (model, first), *_ = lines.items()
    near = min(first, key=lambda point: abs(point.width - at))
    n, ratio = near.width, near.seconds / first[0].seconds
    case, widths = "cheap" if ratio < 0.8 * n else "", ", ".join(str(p.width) for p in first)
    values = {"n": n, "ratio": ratio, "models": ", ".join(lines), "model": model, "widths": widths}
    return worded("latency", figure, "\n".join(twin), values, case)


def _two_ways(
    panels: Sequence[Axes], line: Sequence[Latency], near: Latency, look: State, guess: float | None
) -> list[str]:
    """Draws one model: so many positions one by one and at once; then one forward over each number."""
    (left, right), one, n, name = panels, line[0], near.width, near.model
    two = [Latency(name, 1, *(n * t for t in (one.seconds, one.low, one.high))), near]
    texts = [charts.seconds(p.seconds) for p in two]
    _forwards(left, two, [ALONE, look], texts, [f"{n} forwards\nover 1", f"1 forward\nover {n}"])
    left.set(ylabel="milliseconds", xlim=(-0.6, 1.6))
    left.set_title(f"{n} positions", fontsize=TEXT, loc="left")
    if guess is not None:  # in a column of its own, as it may be as high as the bar
        charts.guess_at(left, 2, guess * one.seconds * 1e3)
        left.set_xticks([2], [GUESS.word.replace(" ", "\n")], minor=True)
        left.tick_params(which="minor", labelsize=TEXT)
        left.set_xlim(-0.6, 2.6)
    ratios = [f"{p.seconds / one.seconds:.1f}×" for p in line]
    _forwards(right, line, [look] * len(line), ratios, [str(p.width) for p in line])
    right.set_xlabel("positions in one forward")
    right.set_title(f"{name}: 1 forward over more", fontsize=TEXT, loc="left")
    right.set_ylim(0, 1.22 * max(right.get_ylim()[1], (guess or 0.0) * one.seconds * 1e3))
    return [f"{name}, {n} positions: {n} forwards over 1 {texts[0]}, 1 forward over {n} {texts[1]}"] + [
        f"{name}, 1 forward over {p.width}: {charts.seconds(p.seconds)} ({charts.seconds(p.low)} to "
        f"{charts.seconds(p.high)}), {p.seconds / one.seconds:.2f} of 1 over 1"
        for p in line
    ]


def _forwards(
    axes: Axes, points: Sequence[Latency], looks: Sequence[State], texts: Sequence[str], names: Sequence[str]
) -> None:
    """Draws times as bars with their quartiles, a text over each and its name under it."""
    charts.prepare(axes, grid="y")
    for x, (p, look, text) in enumerate(zip(points, looks, texts, strict=True)):
        low, middle, high = (1e3 * t for t in (p.low, p.seconds, p.high))
        bar: dict[str, Any] = {"color": look.colour, "hatch": look.hatch, "edgecolor": "black", "capsize": 5}
        axes.bar(x, middle, 0.7, yerr=charts.whiskers([low], [middle], [high]), **bar)
        charts.note(axes, text, (x, high), (0, 8), ha="center")
    axes.set_xticks(range(len(points)), names)


def speed_up_curves(
    alphas: Sequence[float], c: float, points: Sequence[SpeedPoint] = (), most: int = 12
) -> Picture:
    """Draws the promised speed-up against K, up to `most`, for one to five α, and what was measured.

    The curves are theorem 3.8 of Leviathan et al. 2023, with a cost ratio c; a ring marks the best K of each.

    Raises:
        ValueError: if a rate is not between 0 and 1.
    """
    most = max([most, *(point.k for point in points)])
    widths = list(range(1, most + 1))
    figure = sheet(10, 6.6)
    axes = charts.prepare(figure.add_subplot(), "K, drafted tokens per round", "speed-up")
    curves = {alpha: [speed_up(alpha, k, c) for k in widths] for alpha in sorted(alphas)}
    top = max([1.0, *(gain for curve in curves.values() for gain in curve), *(p.high for p in points)])
    _curves(axes, curves, top / 14)
    loss: dict[str, Any] = {"facecolor": LOSS.colour, "edgecolor": "#BBBBBB", "hatch": LOSS.hatch}
    axes.axhspan(0, 1, label=LOSS.word, zorder=0, **loss)
    _measured_gains(axes, points)
    axes.plot([], [], color="black", label="best K of a curve", **RING)
    axes.set_xlim(0.5, most + 0.2)
    axes.set_ylim(0, top * 1.08)
    charts.ticks(axes, "x", widths if most <= 14 else widths[1::2])
    charts.keys(axes, 2)
    highest = max(alphas)
    k = _best(curves[highest])
    twin = [
        f"α = {alpha:g}: {', '.join(f'{gain:.2f}' for gain in curve)}; best K {_best(curve)}"
        for alpha, curve in curves.items()
    ]
    twin += [
        f"measured, K = {p.k}: {p.gain:.2f} ({p.low:.2f} to {p.high:.2f}), α = {p.alpha:.2f}" for p in points
    ]
    case = "longer" if _best(curves[min(alphas)]) < k else ""
    values = {"alpha": highest, "lowest": min(alphas), "c": c, "k": k, "gain": curves[highest][k - 1]}
    more = {"more": " or more" * (k == most)}
    return worded("speed-up-curves", figure, "\n".join(twin), values | more, case)


def _best(curve: Sequence[float]) -> int:
    return max(range(1, len(curve) + 1), key=lambda k: curve[k - 1])


def _curves(axes: Axes, curves: Mapping[float, Sequence[float]], gap: float) -> None:
    """Draws the curves with their rings, and names each at its end, the names at least `gap` apart."""
    for curve, (colour, style) in zip(curves.values(), CURVES, strict=False):
        axes.plot(range(1, len(curve) + 1), curve, color=colour, linestyle=style, linewidth=2.5)
        best = _best(curve)
        axes.plot([best], [curve[best - 1]], color=colour, **RING)
    heights = charts.spread([curve[-1] for curve in curves.values()], gap)
    for (alpha, curve), height in zip(curves.items(), heights, strict=True):
        axes.text(len(curve) + 0.25, height, f"α = {alpha:g}", fontsize=TEXT, va="center")


def _measured_gains(axes: Axes, points: Sequence[SpeedPoint]) -> None:
    if not points:
        return
    low, high = (f"{end(p.alpha for p in points):.2f}" for end in (min, max))
    label = f"measured, α = {low}" + (f" to {high}" if high != low else "")
    dots: dict[str, Any] = {"color": "black", "marker": "o", "markersize": 11}
    _gains(axes, [p.k for p in points], points, label, capsize=5, zorder=4, **dots)


def _gains(axes: Axes, x: Sequence[float], points: Sequence[SpeedPoint], label: str, **look: Any) -> None:
    gains = [p.gain for p in points]
    spans = charts.whiskers([p.low for p in points], gains, [p.high for p in points])
    axes.errorbar(x, gains, yerr=spans, linestyle="none", label=label, **look)


def predicted_measured(points: Sequence[SpeedPoint]) -> Picture:
    """Draws measured speed-ups of several K against predicted ones; on the diagonal they are equal."""
    figure = sheet(10, 6.8)
    axes = charts.prepare(figure.add_subplot(), "predicted speed-up", "measured speed-up")
    errors = []
    for predicted, look in (([p.simple for p in points], SIMPLE), ([p.refined for p in points], REFINED)):
        errors.append(fmean(abs(a / p.gain - 1) for a, p in zip(predicted, points, strict=True)))
        dots: dict[str, Any] = {"color": look.colour, "marker": look.marker, "markersize": 13}
        _gains(axes, predicted, points, f"{look.word}: off by {errors[-1]:.0%}", **dots)
    end = max(max(p.simple, p.refined, p.high) for p in points) * 1.08
    axes.plot([0, end], [0, end], color="black", linewidth=1.5)
    axes.text(end * 0.8, end * 0.86, "as predicted", fontsize=TEXT, ha="right")
    axes.set_xlim(0, end)
    axes.set_ylim(0, end)
    charts.keys(axes, 1)
    twin = [
        f"K = {p.k}: measured {p.gain:.2f}, theorem 3.8 {p.simple:.2f}, with measured times {p.refined:.2f}"
        for p in points
    ]
    values = {"count": len(points), "simple": errors[0], "refined": errors[1]}
    return worded("predicted-measured", figure, "\n".join(twin), values)


def draft_sweep(points: Sequence[DraftPoint], guess: str | None = None) -> Picture:
    """Draws what a larger draft gains and costs: acceptance, cost ratio, and the speed-up that remains.

    guess: the name of the draft that the reader thinks is best.
    """
    points = sorted(points, key=lambda point: point.parameters)
    names = [point.name for point in points]
    best = max(points, key=lambda point: point.gain)
    figure = sheet(max(10.0, 1.4 * len(points)), 9.4)
    top, middle, bottom = figure.subplots(3, 1, sharex=True)
    _panel(top, "acceptance α", [p.alpha for p in points])
    _panel(middle, "cost ratio c", [p.c for p in points])
    charts.prepare(bottom, "draft", "speed-up")
    _gain_bars(bottom, points, points.index(best))
    if guess in names:
        charts.guess_at(bottom, names.index(guess), 0.25)
    labels = [f"{p.name.replace(' ', chr(10))}\n{charts.size(p.parameters, '')}" for p in points]
    bottom.set_xticks(range(len(points)), labels)
    bottom.set_xlim(-0.6, len(points) - 0.4)
    charts.keys(bottom, 2)
    twin = [
        f"{p.name} ({p.parameters:,} weights): α = {p.alpha:.2f}, c = {p.c:.2f}, {p.gain:.2f} times as "
        f"fast ({p.low:.2f} to {p.high:.2f}) with K = {p.k}"
        for p in points
    ]
    case = "between" if best not in (points[0], points[-1]) else ""
    return worded("draft-sweep", figure, "\n".join(twin), {"best": best, "count": len(points)}, case)


def _panel(axes: Axes, word: str, values: Sequence[float]) -> None:
    """Draws one number per draft, with the number written over each point."""
    charts.prepare(axes, y=word)
    axes.plot(range(len(values)), values, color="black", marker="o", markersize=13, linewidth=2.5)
    for x, value in enumerate(values):
        charts.note(axes, f"{value:.2f}", (x, value), (0, 12), ha="center")
    axes.set_ylim(0, max(values) * 1.35)


def batch_sweep(points: Sequence[BatchPoint]) -> Picture:
    """Draws tokens per second and the gain against the number of texts in a batch; losses are hatched."""
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
    _gain_bars(bottom, points)
    bottom.set_xticks(columns, [str(n) for n in sizes])
    charts.keys(bottom, 2)
    twin = [
        f"{p.rows} rows: target alone {p.target_only:.0f}/s, with a draft {p.speculative:.0f}/s, "
        f"{p.gain:.2f} times as fast ({p.low:.2f} to {p.high:.2f})" + (", a loss" if p.gain < 1 else "")
        for p in points
    ]
    least = min(points, key=lambda point: point.gain)
    gains = f"{points[0].gain:.2f} times for {points[0].rows}, {least.gain:.2f} for {least.rows}"
    about = {"smallest": sizes[0], "largest": sizes[-1], "gains": gains, "text": _batch_words(points)}
    case = "no-less" if least is points[0] else ""
    return worded("batch-sweep", figure, "\n".join(twin), about, case)


def _batch_words(points: Sequence[BatchPoint]) -> str:
    """Says how the gain changes, and where it is a loss."""
    first, last = points[0], points[-1]
    start = f"{first.gain:.2f} with {first.rows} text{'s' * (first.rows > 1)}"
    losing = [str(point.rows) for point in points if point.gain < 1]
    end = f"it is a loss with {', '.join(losing)}" if losing else "no size that was tried is a loss"
    return f"gain goes from {start} to {last.gain:.2f} with {last.rows}, and {end}"


def _gain_bars(axes: Axes, points: Sequence[DraftPoint | BatchPoint], best: int | None = None) -> None:
    """Draws speed-ups as bars with their quartiles: gains plain, losses hatched, the best after a ring."""
    for won, look, word in ((True, GAIN, GAIN.word), (False, LOSS, LOSS.word)):
        some = {x: point for x, point in enumerate(points) if (point.gain >= 1) is won}
        gains = [p.gain for p in some.values()]
        spans = charts.whiskers([p.low for p in some.values()], gains, [p.high for p in some.values()])
        bar: dict[str, Any] = {"facecolor": look.colour, "hatch": look.hatch, "edgecolor": "black"}
        if some:
            axes.bar(list(some), gains, 0.6, yerr=spans, capsize=6, label=word, **bar)
    white = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
    for x, point in enumerate(points):
        text = f"{f'{BEST} ' if x == best else ''}{point.gain:.2f}"
        charts.note(axes, text, (x, point.high), (0, 10), ha="center", bbox=white, zorder=4)
    axes.axhline(1, color="black", linewidth=1.5)
    axes.set_ylim(0, max(1.0, *(point.high for point in points)) * 1.25)
