"""Figures of speed: what a forward costs, what the formulas promise, and how well they keep it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from matplotlib.axes import Axes

from minispec.evidence.bench.measurements import Latency, SpeedPoint
from minispec.evidence.theory.formulas import best_k, speed_up
from minispec.show.plots import charts
from minispec.show.plots.charts import CURVES, LOSS, MEASURED
from minispec.show.plots.picture import Picture
from minispec.show.plots.style import DRAFTER, GUESS, STATES, TARGET, TEXT, sheet

LOOKS = (TARGET, DRAFTER, STATES["draft"], STATES["correction"], STATES["drafted"])


def latency(points: Sequence[Latency], at: int = 5, guess: float | None = None) -> Picture:
    """Draws how long a forward takes against its number of new tokens, a line per model.

    A dashed line shows what so many forwards over one token would take.

    Args:
        points: measured, of one model or several; each must have been measured for one token.
        at: the number of tokens that the caption speaks of; the nearest that was measured.
        guess: how many times as long as one token the reader thinks that `at` take, in the first model.

    Raises:
        ValueError: if a model was not measured for one token.
    """
    lines: dict[str, list[Latency]] = {}
    for point in sorted(points, key=lambda point: point.width):
        lines.setdefault(point.model, []).append(point)
    if not lines or any(line[0].width != 1 for line in lines.values()):
        raise ValueError("each model must be measured for one token too: all times are compared with that")
    order = list(dict.fromkeys(point.model for point in points))
    figure = sheet(10, 6.4)
    axes = charts.prepare(figure.add_subplot(), "new tokens in one forward", "milliseconds")
    for name, look in zip(order, LOOKS, strict=False):
        _latency_line(axes, name, lines[name], look.colour, look.marker)
    first = lines[order[0]]
    near = min(first, key=lambda point: abs(point.width - at))
    everything = [value * 1e3 for p in points for value in (p.low, p.high)]
    if guess is not None:
        guessed = guess * first[0].seconds * 1e3
        charts.guess_at(axes, near.width, guessed)
        everything.append(guessed)
    axes.plot([], [], color="black", linestyle=":", label="one by one")
    axes.set_xscale("log")
    axes.set_yscale("log")
    charts.ticks(axes, "x", sorted({point.width for point in points}))
    charts.ticks(axes, "y", charts.steps_of_ten(min(everything), max(everything)))
    axes.set_ylim(min(everything) / 1.5, max(everything) * 2)
    charts.keys(axes, 2)
    ratio = near.seconds / first[0].seconds
    text = f"{near.width} new tokens in one forward of the {order[0]} take {ratio:.2f} times as long as one"
    return Picture(
        "latency",
        figure,
        f"Lines of milliseconds per forward against new tokens for {', '.join(order)}. {text}.",
        f"{text}, not {near.width} times.",
        "\n".join(
            f"{p.model}, {p.width} new: {charts.seconds(p.seconds)} ({charts.seconds(p.low)} to "
            f"{charts.seconds(p.high)}), {p.seconds / lines[p.model][0].seconds:.2f} of one"
            for name in order
            for p in lines[name]
        ),
    )


def _latency_line(axes: Axes, name: str, line: Sequence[Latency], colour: str, marker: str) -> None:
    widths, medians = [p.width for p in line], [p.seconds * 1e3 for p in line]
    spans = [[(p.seconds - p.low) * 1e3 for p in line], [(p.high - p.seconds) * 1e3 for p in line]]
    axes.errorbar(
        widths, medians, yerr=spans, color=colour, marker=marker, markersize=10, linewidth=2.5, label=name
    )
    axes.plot(widths, [width * medians[0] for width in widths], color=colour, linestyle=":", linewidth=2)


def speed_up_curves(
    alphas: Sequence[float],
    c: float,
    points: Sequence[SpeedPoint] = (),
    most: int = 12,
    guess: int | None = None,
) -> Picture:
    """Draws the promised speed-up against K for several α, and what was measured.

    The curves are theorem 3.8 of Leviathan et al. 2023; a star marks the best K of each.

    Args:
        alphas: acceptance rates, at most five.
        c: the cost ratio.
        points: measured.
        most: the largest K.
        guess: the K that the reader thinks is best for the largest α.

    Raises:
        ValueError: if there are no rates or too many, or one is not between 0 and 1.
    """
    if not 0 < len(alphas) <= len(CURVES):
        raise ValueError(f"give 1 to {len(CURVES)} acceptance rates, not {len(alphas)}")
    most = max([most, *(point.k for point in points)])
    widths = list(range(1, most + 1))
    figure = sheet(10, 6.6)
    axes = charts.prepare(figure.add_subplot(), "K, drafted tokens per round", "speed-up")
    curves = {alpha: [speed_up(alpha, k, c) for k in widths] for alpha in sorted(alphas)}
    top = max([1.0, *(gain for curve in curves.values() for gain in curve), *(p.high for p in points)])
    _curves(axes, curves, top / 14)
    axes.axhspan(
        0, 1, facecolor=LOSS.colour, edgecolor="#BBBBBB", hatch=LOSS.hatch, label=LOSS.word, zorder=0
    )
    _measured_gains(axes, points)
    axes.plot([], [], color="black", marker="*", markersize=20, linestyle="none", label="best K of a curve")
    if guess is not None:
        charts.guess_at(axes, guess, speed_up(max(alphas), max(guess, 0), c))
    axes.set_xlim(0.5, most + 0.2)
    axes.set_ylim(0, top * 1.08)
    charts.ticks(axes, "x", widths if most <= 14 else widths[1::2])
    charts.keys(axes, 2)
    highest = max(alphas)
    k = best_k(highest, c, most)
    gain = f"{speed_up(highest, k, c):.2f} times"
    text = f"t a cost ratio of {c:.2g}, α = {highest:g} pays most with K = {k}: {gain}"
    return Picture(
        "speed-up-curves",
        figure,
        f"Curves of speed-up against K for α from {min(alphas):g} to {highest:g}; a{text}.",
        f"A{text} as fast.",
        _curves_twin(curves, points),
    )


def _curves(axes: Axes, curves: Mapping[float, Sequence[float]], gap: float) -> None:
    """Draws the curves with their stars, and names each at its end, the names at least `gap` apart."""
    for curve, (colour, style) in zip(curves.values(), CURVES, strict=False):
        axes.plot(range(1, len(curve) + 1), curve, color=colour, linestyle=style, linewidth=2.5)
        best = _best(curve)
        axes.plot([best], [curve[best - 1]], color=colour, marker="*", markersize=20, linestyle="none")
    places = charts.spread([curve[-1] for curve in curves.values()], gap)
    for (alpha, curve), place in zip(curves.items(), places, strict=True):
        axes.text(len(curve) + 0.25, place, f"α = {alpha:g}", fontsize=TEXT, va="center")


def _best(curve: Sequence[float]) -> int:
    return max(range(1, len(curve) + 1), key=lambda k: curve[k - 1])


def _curves_twin(curves: Mapping[float, Sequence[float]], points: Sequence[SpeedPoint]) -> str:
    lines = [
        f"α = {alpha:g}: {', '.join(f'{gain:.2f}' for gain in curve)}; best K {_best(curve)}"
        for alpha, curve in curves.items()
    ]
    lines += [
        f"measured, K = {p.k}: {p.gain:.2f} ({p.low:.2f} to {p.high:.2f}), α = {p.alpha:.2f}" for p in points
    ]
    return "\n".join(lines)


def _measured_gains(axes: Axes, points: Sequence[SpeedPoint]) -> None:
    if not points:
        return
    spans = [[p.gain - p.low for p in points], [p.high - p.gain for p in points]]
    alphas = [p.alpha for p in points]
    low, high = f"{min(alphas):.2f}", f"{max(alphas):.2f}"
    axes.errorbar(
        [p.k for p in points],
        [p.gain for p in points],
        yerr=spans,
        color=MEASURED.colour,
        marker=MEASURED.marker,
        markersize=11,
        linestyle="none",
        capsize=5,
        label=f"measured, α = {low}" + (f" to {high}" if high != low else ""),
        zorder=4,
    )


def predicted_measured(points: Sequence[SpeedPoint], guess: float | None = None) -> Picture:
    """Draws measured speed-ups against predicted ones: on the diagonal the prediction is right.

    Args:
        points: of several K.
        guess: the speed-up that the reader predicted for the K that was measured to be best.

    Raises:
        ValueError: if there are no points.
    """
    if not points:
        raise ValueError("there is nothing to compare; give at least one point")
    figure = sheet(10, 6.8)
    axes = charts.prepare(figure.add_subplot(), "predicted speed-up", "measured speed-up")
    both = (
        ("theorem 3.8", [p.simple for p in points], STATES["correction"]),
        ("with measured times", [p.refined for p in points], STATES["draft"]),
    )
    gains = [p.gain for p in points]
    spans = [[p.gain - p.low for p in points], [p.high - p.gain for p in points]]
    errors = []
    for name, predicted, look in both:
        errors.append(fmean(abs(a / b - 1) for a, b in zip(predicted, gains, strict=True)))
        axes.errorbar(
            predicted,
            gains,
            yerr=spans,
            color=look.colour,
            marker=look.marker,
            markersize=13,
            linestyle="none",
            label=f"{name}: off by {errors[-1]:.0%}",
        )
    best = max(points, key=lambda p: p.gain)
    if guess is not None:
        charts.guess_at(axes, guess, best.gain)
    reach = max(max(p.simple, p.refined, p.high) for p in points) * 1.08
    axes.plot([0, reach], [0, reach], color="black", linewidth=1.5)
    axes.text(reach * 0.8, reach * 0.86, "as predicted", fontsize=TEXT, ha="right")
    axes.set_xlim(0, reach)
    axes.set_ylim(0, reach)
    charts.keys(axes, 1)
    return Picture(
        "predicted-measured",
        figure,
        f"Measured against predicted speed-up for {len(points)} values of K, with the diagonal on which the "
        f"prediction is right. Theorem 3.8 is off by {errors[0]:.0%} on average, measured times by "
        f"{errors[1]:.0%}.",
        f"With measured times the prediction is off by {errors[1]:.0%} on average, and by {errors[0]:.0%} if "
        f"verifying is taken to cost one step.",
        "\n".join(
            f"K = {p.k}: measured {p.gain:.2f}, theorem 3.8 {p.simple:.2f}, "
            f"with measured times {p.refined:.2f}"
            for p in points
        )
        + (f"\n{GUESS.word}: {guess:g} for K = {best.k}" if guess is not None else ""),
    )
