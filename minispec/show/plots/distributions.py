"""What comes out of a rule, against the target's distribution: exactly, and counted in samples."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import isclose
from typing import Any

from matplotlib.axes import Axes

from minispec.evidence.proof.first_token import FirstToken, parts
from minispec.evidence.theory.formulas import total_variation
from minispec.evidence.theory.statistics import check_sample, deviation
from minispec.show.plots import charts
from minispec.show.plots.style import GUESS, STATES, TARGET, TEXT, Picture, aligned, sheet

HALF = 0.36  # of a bar's width
WHOLE = 12  # numbers are written in parts of it
FALSE_ALARM = 1e-6


def rule_distribution(
    found: FirstToken, p: Sequence[float], labels: Sequence[str], guess: Sequence[float] | None = None
) -> Picture:
    """Draws what a rule emits as bars of two parts, with the target's distribution as a line across each.

    Args:
        found: from `first_token`.
        p: [V], the target's distribution.
        labels: [V], what the tokens are called.
        guess: [V], the distribution that the reader expects.
    """
    figure = sheet(max(9.0, 2.4 * len(p) + 2), 6.0)
    axes = charts.prepare(figure.add_subplot(), "", "probability", grid="y")
    _bars(axes, "draft", "drafted and kept", found.kept, [0.0] * len(p))
    _bars(axes, "correction", "said instead", found.said, found.kept)
    lefts, rights = ([x + side * (HALF + 0.08) for x in range(len(p))] for side in (-1, 1))
    target = [float(x) for x in p]
    axes.hlines(target, lefts, rights, color=TARGET.colour, linewidth=5, label="target, p")
    for x, value in enumerate(guess or ()):
        charts.guess_at(axes, x + HALF + 0.08, value, "" if x else GUESS.word)
    axes.set_xticks(
        range(len(p)), [f"{a}\n{_part(x)}" for a, x in zip(labels, found.distribution, strict=True)]
    )
    axes.tick_params(axis="x", length=0, labelsize=TEXT)
    axes.set_xlim(-0.6, len(p) - 0.4)
    axes.set_ylim(0, 1.1 * max(*found.distribution, *target, *(guess or [0])))
    charts.keys(axes, 2)
    alt = (
        f"A bar for each of the tokens {', '.join(labels)}. Kept: {parts(found.kept, WHOLE)}; said instead: "
        f"{parts(found.said, WHOLE)}; together {parts(found.distribution, WHOLE)}, where the target's "
        f"distribution is {parts(target, WHOLE)}."
    )
    lines: dict[str, Sequence[float]] = {"drafted and kept": found.kept, "said instead": found.said}
    lines |= {"comes out": found.distribution, "target, p": target}
    lines |= {GUESS.word: guess} if guess is not None else {}
    rows = [["", *labels], *([word, *map(_part, line)] for word, line in lines.items())]
    return Picture("rule-distribution", figure, alt, _caption(found, target), aligned(rows))


def _bars(axes: Axes, state: str, word: str, heights: Sequence[float], floors: Sequence[float]) -> None:
    look = STATES[state]
    bar: dict[str, Any] = {"color": look.colour, "edgecolor": "black", "label": f"{look.glyph} {word}"}
    axes.bar(range(len(heights)), heights, 2 * HALF, bottom=floors, **bar)
    middle: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": TEXT, "color": look.ink}
    for x, (height, floor) in enumerate(zip(heights, floors, strict=True)):
        if height > 0.04:
            axes.text(x, floor + height / 2, look.glyph, **middle)


def _part(x: float) -> str:
    return f"{float(x) * WHOLE:.3g}/{WHOLE}"


def _caption(found: FirstToken, p: Sequence[float]) -> str:
    start = f"The rule keeps {Fraction(found.acceptance).limit_denominator(100)} of what is drafted, and what"
    if all(isclose(a, b, abs_tol=1e-9) for a, b in zip(found.distribution, p, strict=True)):
        return f"{start} comes out is the target's distribution."
    away = total_variation(found.distribution, p)
    return f"{start} comes out is {away:.2f} away from the target's distribution in total variation."


def envelope(
    exact: Sequence[float], samples: int, false_alarm: float = FALSE_ALARM
) -> list[tuple[float, float]]:
    """Returns for each outcome between which frequencies samples of the distribution itself lie.

    All of them do at once, but for a probability of `false_alarm` at most: each frequency is a mean of N
    yes-or-no samples, which Hoeffding's inequality bounds on both sides (see `statistics.deviation`).

    Args:
        exact: the probability of each outcome, one at least.
        samples: N, at least 1.
        false_alarm: between 0 and 1.
    """
    away = deviation(false_alarm / (2 * len(exact)), samples)
    return [(max(0.0, p - away), min(1.0, p + away)) for p in exact]


def distribution_histogram(
    exact: Sequence[float], counts: Sequence[int], mutant_counts: Sequence[int], labels: Sequence[str]
) -> Picture:
    """Draws how often each outcome came, inside the envelope of its exact probability; and a mutant outside.

    Args:
        exact: [n], the probability of each outcome.
        counts: [n], how often each came from the shipped code.
        mutant_counts: [n], how often from a mutant.
        labels: [n], what the outcomes are called.
    """
    figure = sheet(max(10, 0.9 * len(exact) + 2), 6.4)
    axes = charts.prepare(figure.add_subplot(), "outcome", "share of samples", grid="y")
    bounds, xs = envelope(exact, sum(counts)), range(len(exact))
    lows, heights = [low for low, _ in bounds], [high - low for low, high in bounds]
    axes.bar(xs, heights, 0.86, bottom=lows, color="#CCCCCC", label="envelope of the exact distribution")
    axes.hlines(exact, [x - 0.43 for x in xs], [x + 0.43 for x in xs], "black")
    shipped, mutant = ([count / sum(of) for count in of] for of in (counts, mutant_counts))
    _points(axes, shipped, -0.15, "draft", "shipped code")
    _points(axes, mutant, 0.15, "correction", "mutant")
    axes.set_xticks(xs, list(labels))
    axes.set_ylim(0, max(*shipped, *mutant, *(high for _, high in bounds)) * 1.08)
    charts.keys(axes, 2)
    lines, outside = [], [0, 0]
    for label, p, (low, high), *shares in zip(labels, exact, bounds, shipped, mutant, strict=True):
        out = [not low <= share <= high for share in shares]
        outside = [total + new for total, new in zip(outside, out, strict=True)]
        said = [f"{share:.4f}{', outside' * new}" for share, new in zip(shares, out, strict=True)]
        should = f"{label}: should be {p:.4f} ({low:.4f} to {high:.4f})"
        lines.append(f"{should}; shipped code {said[0]}; mutant {said[1]}")
    alt = (
        f"For each of {len(exact)} outcomes the envelope of its exact probability, the share in "
        f"{sum(counts):,} samples of the shipped code, and the share in samples of a mutant. Outside the "
        f"envelope: {outside[0]} of the shipped code's shares and {outside[1]} of the mutant's."
    )
    caption = _distances(exact, counts, mutant_counts)
    return Picture("distribution-histogram", figure, alt, caption, "\n".join(lines))


def _points(axes: Axes, shares: Sequence[float], shift: float, state: str, word: str) -> None:
    look = STATES[state]
    dots: dict[str, Any] = {"color": look.colour, "markersize": 13, "markeredgecolor": "black", "zorder": 4}
    xs = [x + shift for x in range(len(shares))]
    axes.plot(xs, shares, look.marker, label=f"{look.glyph} {word}", **dots)


def _distances(exact: Sequence[float], *counts: Sequence[int]) -> str:
    """Says both total variations, and what right code stays under."""
    p = dict(enumerate(exact))
    shipped, mutant = (check_sample("", dict(enumerate(of)), p, FALSE_ALARM) for of in counts)
    return (
        f"In total variation the shipped code is {shipped.distance:.2g} and the mutant {mutant.distance:.2g} "
        f"away from the exact distribution, and right code stays under {shipped.threshold:.2g} except with "
        f"probability 1 in {1 / FALSE_ALARM:,.0f}."
    )
