"""The law of what came out, against the law that it should have."""

from __future__ import annotations

from collections.abc import Sequence
from math import isclose

from matplotlib.axes import Axes

from minispec.evidence.theory.statistics import check_sample, deviation
from minispec.show.plots import charts
from minispec.show.plots.picture import Picture
from minispec.show.plots.style import GUESS, STATES, sheet

ENVELOPE = "#CCCCCC"
FALSE_ALARM = 1e-6


def envelope(
    exact: Sequence[float], samples: int, false_alarm: float = FALSE_ALARM
) -> list[tuple[float, float]]:
    """Returns for each outcome between which frequencies samples of the law itself lie.

    All of them do at once, but for a chance of `false_alarm` at most: each frequency is a mean of N
    yes-or-no samples, which Hoeffding's inequality bounds on both sides (see `statistics.deviation`).

    Args:
        exact: the probability of each outcome.
        samples: N.
        false_alarm: between 0 and 1.

    Raises:
        ValueError: if there are no outcomes or no samples.
    """
    if not exact or samples < 1:
        raise ValueError("there is nothing to bound; give outcomes and samples")
    reach = deviation(false_alarm / (2 * len(exact)), samples)
    return [(max(0.0, p - reach), min(1.0, p + reach)) for p in exact]


def law_histogram(
    exact: Sequence[float],
    counts: Sequence[int],
    mutant_counts: Sequence[int],
    labels: Sequence[str],
    guess: Sequence[float] | None = None,
    false_alarm: float = FALSE_ALARM,
) -> Picture:
    """Draws how often each outcome came, inside the envelope of the exact law; and a mutant outside it.

    Args:
        exact: [n], the probability of each outcome; together 1.
        counts: [n], how often each came from the shipped code.
        mutant_counts: [n], how often from a mutant.
        labels: [n], what the outcomes are called.
        guess: [n], the law that the reader thinks the mutant has.
        false_alarm: the chance that right code leaves the envelope, at most.

    Raises:
        ValueError: if the lists differ in length, or there are no samples.
    """
    if len({len(exact), len(counts), len(mutant_counts), len(labels)}) != 1:
        raise ValueError("exact, counts, mutant_counts and labels must have one entry per outcome")
    if not isclose(sum(exact), 1, abs_tol=1e-6):
        raise ValueError(f"the exact law must sum to 1, not {sum(exact):.6g}")
    figure = sheet(max(10, 0.9 * len(exact) + 2), 6.4)
    axes = charts.prepare(figure.add_subplot(), "outcome", "share of samples", grid="y")
    bounds = envelope(exact, sum(counts), false_alarm)
    _draw_envelope(axes, exact, bounds)
    shipped, mutant = _shares(counts), _shares(mutant_counts)
    _points(axes, shipped, -0.15, "draft", "shipped code")
    _points(axes, mutant, 0.15, "correction", "mutant")
    if guess is not None:
        for place, value in enumerate(guess):
            charts.guess_at(axes, place + 0.33, value, GUESS.word if place == 0 else "")
    axes.set_xticks(range(len(exact)), list(labels))
    axes.set_ylim(0, max(max(shipped), max(mutant), *(high for _, high in bounds)) * 1.08)
    charts.keys(axes, 2)
    outside = [_outside(shares, bounds) for shares in (shipped, mutant)]
    text = f"{_said(outside[0])} of the shipped code's shares and {_said(outside[1])} of the mutant's"
    return Picture(
        "law-histogram",
        figure,
        f"For each of {len(exact)} outcomes the envelope of its exact probability, the share in "
        f"{sum(counts):,} samples of the shipped code, and the share in samples of a mutant. Outside the "
        f"envelope: {text}.",
        f"{_distances(exact, counts, mutant_counts, false_alarm)}.",
        _twin(labels, exact, bounds, shipped, mutant, guess),
    )


def _draw_envelope(
    axes: Axes, exact: Sequence[float], bounds: Sequence[tuple[float, float]], half: float = 0.43
) -> None:
    """Draws a grey box per outcome, and the exact probability as a line across it."""
    places = range(len(exact))
    low, spans = [low for low, _ in bounds], [high - low for low, high in bounds]
    axes.bar(places, spans, 2 * half, bottom=low, color=ENVELOPE, label="envelope of the exact law")
    axes.hlines(exact, [i - half for i in places], [i + half for i in places], "black")


def _shares(counts: Sequence[int]) -> list[float]:
    total = sum(counts)
    if total < 1:
        raise ValueError("there are no samples; give at least one")
    return [count / total for count in counts]


def _points(axes: Axes, shares: Sequence[float], shift: float, state: str, word: str) -> None:
    look = STATES[state]
    axes.plot(
        [place + shift for place in range(len(shares))],
        shares,
        linestyle="none",
        marker=look.marker,
        markersize=13,
        color=look.colour,
        markeredgecolor="black",
        label=f"{look.glyph} {word}",
        zorder=4,
    )


def _outside(shares: Sequence[float], bounds: Sequence[tuple[float, float]]) -> int:
    return sum(not low <= share <= high for share, (low, high) in zip(shares, bounds, strict=True))


def _said(number: int) -> str:
    return "none" if number == 0 else str(number)


def _distances(
    exact: Sequence[float], counts: Sequence[int], mutant_counts: Sequence[int], false_alarm: float
) -> str:
    """Says both total variations, and what right code stays under."""
    law = {place: float(p) / sum(exact) for place, p in enumerate(exact)}
    both = [
        check_sample(n, dict(enumerate(c)), law, false_alarm) for n, c in (("", counts), ("m", mutant_counts))
    ]
    shipped, mutant = both
    return (
        f"In total variation the shipped code is {shipped.distance:.2g} and the mutant {mutant.distance:.2g} "
        f"away from the law, and right code stays under {shipped.threshold:.2g} but for one chance in "
        f"{1 / false_alarm:,.0f}"
    )


def _twin(
    labels: Sequence[str],
    exact: Sequence[float],
    bounds: Sequence[tuple[float, float]],
    shipped: Sequence[float],
    mutant: Sequence[float],
    guess: Sequence[float] | None,
) -> str:
    lines = []
    for i, label in enumerate(labels):
        low, high = bounds[i]
        marks = ["" if low <= share <= high else ", outside" for share in (shipped[i], mutant[i])]
        lines.append(
            f"{label}: should be {exact[i]:.4f} ({low:.4f} to {high:.4f}); "
            f"shipped code {shipped[i]:.4f}{marks[0]}; mutant {mutant[i]:.4f}{marks[1]}"
            + (f"; {GUESS.word} {guess[i]:.4f}" if guess is not None else "")
        )
    return "\n".join(lines)
