"""Figures of speed: what a forward costs, what formulas predict, and sizes of drafts and batches."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from statistics import fmean
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from minispec.evidence.bench.measurements import BatchPoint, DraftPoint, Latency, SpeedPoint
from minispec.evidence.theory.formulas import ForwardCost, Hardware, speed_up
from minispec.show.plots import charts
from minispec.show.plots.board import worded
from minispec.show.plots.charts import CURVES, GAIN, LOSS
from minispec.show.plots.style import TEXT, Picture, sheet
from minispec.show.signs import DRAFTER, GUESS, SIGNS, TARGET, State

ALONE, READING, COMPUTING, SIMPLE, REFINED = SIGNS["speed"].values()
BEST = "◎"
BY_K = "K, drafted tokens per round"
BY_ROWS = "texts side by side (rows of the batch)"
RING: dict[str, Any] = {"marker": "o", "ms": 20, "mfc": "none", "mew": 2.5, "linestyle": "none"}


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
    nearest = {model: min(line, key=lambda point: abs(point.width - at)) for model, line in lines.items()}
    figure = sheet(13, 3.8 * len(lines) + 1.2)
    panels = figure.subplots(len(lines), 2, sharey="row", squeeze=False, width_ratios=[1.5, 2])
    twin: list[str] = []
    for (left_panel, right), (model, line), look in zip(
        panels, lines.items(), cycle((TARGET, DRAFTER)), strict=False
    ):
        near = nearest[model]
        n = near.width
        single = line[0].seconds
        times = 1e3 * np.array([[p.seconds, p.low, p.high] for p in line])
        names = [f"{n} forwards\nover 1", f"1 forward\nover {n}"]
        texts = [charts.seconds(n * single), charts.seconds(near.seconds)]
        charts.prepare(left_panel, "", "milliseconds", "y", f"{n} positions")
        charts.prepare(right, "positions in one forward", "", "y", f"{model}: 1 forward over more")
        _forwards(left_panel, np.stack([n * times[0], times[line.index(near)]]), [ALONE, look], texts)
        _forwards(right, times, [look] * len(line), [f"{p.seconds / single:.1f}×" for p in line])
        highest = right.get_ylim()[1]
        if guess is not None and not twin:  # in a column of its own, as it may be as high as the bar
            height = guess * single * 1e3
            charts.guess_at(left_panel, 2, height)
            names.append(GUESS.word.replace(" ", "\n"))
            highest = max(highest, height)
        right.set_ylim(0, 1.22 * highest)
        charts.columns(left_panel, names)
        charts.columns(right, [str(p.width) for p in line])
        twin.append(f"{model}, {n} positions: {n} forwards over 1 {texts[0]}, 1 forward over {n} {texts[1]}")
        twin += [
            f"{model}, 1 forward over {p.width}: {charts.seconds(p.seconds)} ({charts.seconds(p.low)} to "
            f"{charts.seconds(p.high)}), {p.seconds / single:.2f} of 1 over 1"
            for p in line
        ]
    first = lines[points[0].model]
    near = nearest[points[0].model]
    ratio = near.seconds / first[0].seconds
    return worded(
        "latency",
        figure,
        twin,
        "cheap" if ratio < 0.8 * near.width else "",
        near=near,
        ratio=ratio,
        models=", ".join(lines),
        widths=", ".join(str(p.width) for p in first),
    )


def _forwards(axes: Axes, times: np.ndarray, looks: Sequence[State], texts: Sequence[str]) -> None:
    """Draws times [N, 3], each a median and its quartiles, as bars with a look and a text for each."""
    medians, low, high = np.transpose(times)
    bars = axes.bar(
        range(len(times)),
        medians,
        0.7,
        yerr=(medians - low, high - medians),
        capsize=5,
        edgecolor="black",
        color=[look.colour for look in looks],
        hatch=[look.hatch for look in looks],
    )
    axes.bar_label(bars, texts, padding=4, fontsize=TEXT)


def bytes_against_arithmetic(
    costs: Sequence[ForwardCost], hardware: Hardware, model: str = "a model"
) -> Picture:
    """Draws how long a forward takes to read its weights, and how long to compute, by number of positions.

    Both begin at once and go on side by side, so a forward ends with the longer of its two bars. The costs
    are of one model, for several numbers of new tokens, the smallest first.
    """
    name = "milliseconds: both begin together, the longer decides"
    figure, axes = charts.chart(10, 1.7 * len(costs) + 2.9, name, grid="x")
    rows = np.arange(len(costs))
    for side, look, work in ((-0.2, READING, "moving"), (0.2, COMPUTING, "computing")):
        times = [getattr(cost, work) for cost in costs]
        bars = axes.barh(rows + side, [1e3 * t for t in times], 0.36, label=look.word, **charts.area(look))
        axes.bar_label(bars, [charts.seconds(t) for t in times], padding=8, fontsize=TEXT)
    milliseconds = [cost.seconds * 1e3 for cost in costs]
    axes.vlines(milliseconds, rows - 0.46, rows + 0.46, "black", linewidth=4, label="the forward ends")
    labels = [f"{cost.tokens} position{'s' * (cost.tokens > 1)}" for cost in costs]
    axes.set_yticks(rows, labels)
    axes.invert_yaxis()
    axes.set_xlim(0, max(milliseconds) * 1.25)
    charts.keys(axes, 2)
    twin = [
        f"{label}: reading {charts.size(cost.bytes)} {charts.seconds(cost.moving)}, computing "
        f"{charts.size(cost.operations, 'flop')} {charts.seconds(cost.computing)}, both at once "
        f"{charts.seconds(cost.seconds)}"
        for label, cost in zip(labels, costs, strict=True)
    ]
    first = costs[0]
    ratio = first.moving / first.computing
    limit = first.tokens * ratio
    cheap = [cost.tokens for cost in costs[1:] if cost.tokens < 0.99 * limit]
    return worded(
        "bytes-against-arithmetic",
        figure,
        twin,
        "cheap" if cheap else "",
        hardware=hardware,
        model=model,
        labels=labels,
        first=first,
        moving=charts.seconds(first.moving),
        ratio=ratio,
        limit=limit,
        cheap=max(cheap, default=0),
    )


def speed_up_curves(
    alphas: Sequence[float], c: float, points: Sequence[SpeedPoint] = (), most: int = 12
) -> Picture:
    """Draws the promised speed-up against K, up to `most`, for one to five α, and what was measured.

    The curves are theorem 3.8 of Leviathan et al. 2023, with a cost ratio c; a ring marks the best K of each.

    Raises:
        ValueError: if a rate is not between 0 and 1.
    """
    widths = range(1, max([most, *(point.k for point in points)]) + 1)
    curves = {alpha: [speed_up(alpha, k, c) for k in widths] for alpha in sorted(alphas)}
    best = {alpha: 1 + curve.index(max(curve)) for alpha, curve in curves.items()}
    top = max([1.0, *map(max, curves.values()), *(p.high for p in points)])
    figure, axes = _speed_ups(BY_K)
    if points:
        rates = dict.fromkeys(f"{end(p.alpha for p in points):.2f}" for end in (min, max))
        _gains(axes, points, "k", f"measured, α = {' to '.join(rates)}", capsize=5, zorder=4)
    for (alpha, curve), (colour, style) in zip(curves.items(), CURVES, strict=False):
        axes.plot(widths, curve, color=colour, linestyle=style, linewidth=2.5)
        axes.plot([best[alpha]], [max(curve)], color=colour, **RING)
    ends = {f"α = {alpha:g}": curve[-1] for alpha, curve in curves.items()}
    charts.name_curves(axes, len(widths) + 0.25, ends, top / 14)
    axes.plot([], [], color="black", label="best K of a curve", **RING)
    axes.set(xlim=(0.5, len(widths) + 0.2), ylim=(0, top * 1.08))
    axes.set_xticks(widths if len(widths) <= 14 else widths[1::2])
    charts.keys(axes, 2)
    twin = [
        f"α = {alpha:g}: {', '.join(f'{gain:.2f}' for gain in curve)}; best K {best[alpha]}"
        for alpha, curve in curves.items()
    ]
    twin += [
        f"measured, K = {p.k}: {p.gain:.2f} ({p.low:.2f} to {p.high:.2f}), α = {p.alpha:.2f}" for p in points
    ]
    lowest = min(alphas)
    highest = max(alphas)
    return worded(
        "speed-up-curves",
        figure,
        twin,
        "longer" if best[lowest] < best[highest] else "",
        alpha=highest,
        lowest=lowest,
        c=c,
        k=best[highest],
        gain=max(curves[highest]),
        more=" or more" if best[highest] == len(widths) else "",
    )


def _speed_ups(across: str) -> tuple[Figure, Axes]:
    """Returns a chart of speed-ups against something: the part below 1 is a loss."""
    figure, axes = charts.chart(10, 6.6, across, "speed-up")
    axes.axhspan(0, 1, label=LOSS.word, zorder=0, **charts.area(LOSS) | {"edgecolor": "#BBBBBB"})
    return figure, axes


def gain_by_k(points: Sequence[SpeedPoint], assumed: float) -> Picture:
    """Draws the measured speed-up at several K beside two predictions.

    One is `refined` of the points, from measured times; the other is theorem 3.8 with an assumed c.

    Raises:
        ValueError: if there is no point, or c is negative.
    """
    if not points:
        raise ValueError("give at least one point: the speed-up at one K")
    points = sorted(points, key=lambda point: point.k)
    ks = [point.k for point in points]
    figure, axes = _speed_ups(BY_K)
    _gains(axes, points, "k", "measured", capsize=5, zorder=4)
    theorem = [speed_up(point.alpha, point.k, assumed) for point in points]
    axes.plot(ks, [p.refined for p in points], color=CURVES[0][0], linewidth=2.5, label="predicted")
    label = f"predicted if c = {assumed:g}, v = 1"
    axes.plot(ks, theorem, color=CURVES[2][0], linestyle=":", linewidth=2.5, label=label)
    axes.set(ylim=(0, 1.1 * max([*theorem, *(max(p.refined, p.high) for p in points)])), xticks=ks)
    charts.keys(axes, 2)
    best = max(points, key=lambda point: point.gain)
    promised = max(points, key=lambda point: point.refined)
    twin = [
        f"K = {p.k}: measured {p.gain:.2f} ({p.low:.2f} to {p.high:.2f}), predicted {p.refined:.2f}, "
        f"if c = {assumed:g} and v = 1 {simple:.2f}"
        for p, simple in zip(points, theorem, strict=True)
    ]
    case = "a-loss" if best.gain < 1 else ""
    return worded("gain-by-k", figure, twin, case, best=best, promised=promised, assumed=assumed)


def gain_by_rows(lines: Mapping[int, Sequence[tuple[int, float]]], k: int) -> Picture:
    """Draws the speed-up of a draft of K against the rows of a batch, a line for each length of context.

    lines: by context, in tokens: the numbers of rows, the smallest first, each with its speed-up.
    """
    lines = dict(sorted(lines.items()))
    rows = [count for count, _ in next(iter(lines.values()))]
    top = max(1.0, *(gain for line in lines.values() for _, gain in line)) * 1.08
    figure, axes = _speed_ups(BY_ROWS)
    axes.set(xscale="log", xlim=(rows[0] / 1.15, rows[-1] * 1.15), ylim=(0, top))
    axes.set_xticks(rows, [str(count) for count in rows])
    axes.minorticks_off()
    for line, (colour, style) in zip(lines.values(), cycle(CURVES), strict=False):
        axes.plot(*zip(*line, strict=True), style + "o", color=colour, linewidth=2.5, markersize=9)
    ends = {f"{context:,} tokens": line[-1][1] for context, line in lines.items()}
    charts.name_curves(axes, rows[-1] * 1.2, ends, top / 14)
    charts.keys(axes)
    twin = [
        f"{context:,} tokens of context: "
        + ", ".join(f"{gain:.2f} with {count}" + " (a loss)" * (gain < 1) for count, gain in line)
        for context, line in lines.items()
    ]
    short, *_, long = lines
    near, far = ((lines[context][0][1], lines[context][-1][1]) for context in (short, long))
    case = "gains" if near[1] < 1 < min(gain for _, gain in lines[long]) else ""
    ends_of_rows = (rows[0], rows[-1])
    return worded(
        "gain-by-rows", figure, twin, case, k=k, short=short, long=long, rows=ends_of_rows, near=near, far=far
    )


def _gains(axes: Axes, points: Sequence[SpeedPoint], against: str, label: str, **look: Any) -> None:
    """Draws measured speed-ups as points with their quartiles, against another of their numbers."""
    x = [getattr(point, against) for point in points]
    gains = [point.gain for point in points]
    dots: dict[str, Any] = {"color": "black", "marker": "o", "markersize": 11, "linestyle": "none"}
    axes.errorbar(x, gains, yerr=charts.whiskers(points, gains), label=label, **dots | look)


def predicted_measured(points: Sequence[SpeedPoint]) -> Picture:
    """Draws measured speed-ups of several K against predicted ones; on the diagonal they are equal."""
    figure, axes = charts.chart(10, 6.8, "predicted speed-up", "measured speed-up")
    errors = []
    for look, name in ((SIMPLE, "simple"), (REFINED, "refined")):
        errors.append(fmean(abs(getattr(p, name) / p.gain - 1) for p in points))
        label = f"{look.word}: off by {errors[-1]:.0%}"
        _gains(axes, points, name, label, color=look.colour, marker=look.marker, markersize=13)
    end = max(max(p.simple, p.refined, p.high) for p in points) * 1.08
    axes.plot([0, end], [0, end], color="black", linewidth=1.5)
    axes.text(end * 0.8, end * 0.86, "as predicted", fontsize=TEXT, ha="right")
    axes.set(xlim=(0, end), ylim=(0, end))
    charts.keys(axes)
    twin = [
        f"K = {p.k}: measured {p.gain:.2f}, theorem 3.8 {p.simple:.2f}, with measured times {p.refined:.2f}"
        for p in points
    ]
    return worded("predicted-measured", figure, twin, count=len(points), errors=errors)


def draft_sweep(points: Sequence[DraftPoint], guess: str | None = None) -> Picture:
    """Draws what a larger draft gains and costs: acceptance, forward pass, and the speed-up that remains.

    guess: the name of the draft that the reader thinks is best.
    """
    points = sorted(points, key=lambda point: point.parameters)
    names = [point.name for point in points]
    best = max(points, key=lambda point: point.gain)
    figure = sheet(max(10.0, 1.4 * len(points)), 9.4)
    *upper, bottom = figure.subplots(3, 1, sharex=True)
    numbers = {"acceptance α": [p.alpha for p in points], "ratio of forward passes": [p.c for p in points]}
    for axes, (word, values) in zip(upper, numbers.items(), strict=True):
        charts.prepare(axes, y=word)
        axes.plot(values, color="black", marker="o", markersize=13, linewidth=2.5)
        for x, value in enumerate(values):
            charts.note(axes, f"{value:.2f}", (x, value), (0, 12), ha="center")
        axes.set_ylim(0, max(values) * 1.35)
    charts.prepare(bottom, "draft", "speed-up")
    labels = [f"{p.name.replace(' ', chr(10))}\n{charts.size(p.parameters, '')}" for p in points]
    _gain_bars(bottom, points, labels, best)
    if guess in names:
        charts.guess_at(bottom, names.index(guess), 0.25)
    charts.keys(bottom, 2)
    twin = [
        f"{p.name} ({p.parameters:,} weights): α = {p.alpha:.2f}, forward passes {p.c:.2f}, "
        f"{p.gain:.2f} times as fast ({p.low:.2f} to {p.high:.2f}) with K = {p.k}"
        for p in points
    ]
    case = "between" if best not in (points[0], points[-1]) else ""
    return worded("draft-sweep", figure, twin, case, best=best, count=len(points))


def batch_sweep(points: Sequence[BatchPoint]) -> Picture:
    """Draws tokens per second and the gain against the number of texts in a batch; losses are hatched."""
    points = sorted(points, key=lambda point: point.rows)
    figure = sheet(10, 8.4)
    top, bottom = figure.subplots(2, 1, sharex=True)
    charts.prepare(top, y="tokens per second")
    for look, line, label in ((TARGET, "-", "target alone"), (DRAFTER, "--", "with a draft")):
        rates = [p.target_only if look is TARGET else p.speculative for p in points]
        top.plot(rates, line + look.marker, color=look.colour, label=label, markersize=12, linewidth=2.5)
    top.set_ylim(bottom=0)
    charts.keys(top, 2)
    charts.prepare(bottom, BY_ROWS, "speed-up")
    _gain_bars(bottom, points, [str(point.rows) for point in points])
    charts.keys(bottom, 2)
    twin = [
        f"{p.rows} rows: target alone {p.target_only:.0f}/s, with a draft {p.speculative:.0f}/s, "
        f"{p.gain:.2f} times as fast ({p.low:.2f} to {p.high:.2f})" + ", a loss" * (p.gain < 1)
        for p in points
    ]
    first = points[0]
    least = min(points, key=lambda point: point.gain)
    losing = ", ".join(str(point.rows) for point in points if point.gain < 1)
    return worded(
        "batch-sweep",
        figure,
        twin,
        "no-less" if least is first else "",
        first=first,
        last=points[-1],
        least=least,
        plural="s" * (first.rows > 1),
        end=f"it is a loss with {losing}" if losing else "no size that was tried is a loss",
    )


def _gain_bars(
    axes: Axes, points: Sequence[DraftPoint | BatchPoint], names: Sequence[str], best: Any = None
) -> None:
    """Draws speed-ups as bars with their quartiles: gains plain, losses hatched, the best after a ring."""
    spot = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
    for lossy, state in ((False, GAIN), (True, LOSS)):
        columns = {x: point for x, point in enumerate(points) if (point.gain < 1) is lossy}
        if columns:
            gains = [point.gain for point in columns.values()]
            whiskers = charts.whiskers(list(columns.values()), gains)
            bar = charts.area(state) | {"label": state.word, "capsize": 6}
            bars = axes.bar(list(columns), gains, 0.6, yerr=whiskers, **bar)
            texts = [f"{BEST} " * (p is best) + f"{p.gain:.2f}" for p in columns.values()]
            axes.bar_label(bars, texts, padding=6, fontsize=TEXT, bbox=spot, zorder=4)
    axes.axhline(1, color="black", linewidth=1.5)
    charts.columns(axes, names)
    axes.set_ylim(0, max(1.0, *(point.high for point in points)) * 1.25)
