"""What comes out of a rule, against the target's distribution: exactly, and counted in samples."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from matplotlib.axes import Axes

from minispec.evidence.proof.first_token import FirstToken, parts
from minispec.evidence.theory.formulas import total_variation
from minispec.evidence.theory.statistics import check_sample, deviation
from minispec.show.plots import charts
from minispec.show.plots.board import worded
from minispec.show.plots.style import DRAFTER, GUESS, TARGET, TEXT, Picture, aligned, sheet
from minispec.show.signs import STATES, State

HALF = 0.3  # of a bar's width; q stands behind it, wider
Q_HALF = 0.4
SHIPPED = State("#000000", "●", marker="o", word="shipped code")
MUTANT = State("#FFFFFF", "▲", marker="^", word="mutant")
WHOLE = 12  # numbers are written in parts of it
FALSE_ALARM = 1e-6


def rule_distribution(
    found: FirstToken,
    p: Sequence[float],
    labels: Sequence[str],
    guess: Sequence[float] | None = None,
    *,
    q: Sequence[float] | None = None,
    name: str = "The rule",
) -> Picture:
    """Draws what a rule emits as bars of two parts, with the target's distribution as a line across each.

    Args:
        found: from `first_token`.
        p: [V], the target's distribution.
        labels: [V], what the tokens are called.
        guess: [V], the distribution that the reader expects.
        q: [V], what the draft is drawn from, to be shown behind the bars.
        name: what the title calls the rule, such as `Rule 3`.
    """
    figure = sheet(max(9.0, 2.4 * len(p) + 2), 6.6)
    axes = charts.prepare(figure.add_subplot(), "", "probability", grid="y")
    if q is not None:
        outline: dict[str, Any] = {"facecolor": "white", "edgecolor": DRAFTER.colour, "hatch": DRAFTER.hatch}
        axes.bar(range(len(q)), q, 2 * Q_HALF, label=DRAFTER.word, **outline)
    lines: dict[str, Sequence[float]] = {"drafted and kept": found.kept, "said instead": found.said}
    for state, (word, heights), floors in zip(
        ("accepted", "correction"), lines.items(), ([0.0] * len(p), found.kept), strict=True
    ):
        _bars(axes, state, word, heights, floors)
    target = [float(x) for x in p]
    lefts, rights = ([x + side * (Q_HALF + 0.04) for x in range(len(p))] for side in (-1, 1))
    axes.hlines(target, lefts, rights, color=TARGET.colour, linewidth=5, label=TARGET.word)
    for x, value in enumerate(guess or ()):
        charts.guess_at(axes, x + Q_HALF + 0.04, value, "" if x else GUESS.word)
    ticks = [f"{a}\n{_part(x)}" for a, x in zip(labels, found.distribution, strict=True)]
    axes.set_xticks(range(len(p)), ticks)
    axes.tick_params(axis="x", length=0, labelsize=TEXT)
    axes.set_xlim(-0.6, len(p) - 0.4)
    axes.set_ylim(0, 1.1 * max(*found.distribution, *target, *(guess or [0]), *(q or [0])))
    charts.keys(axes, 2)
    lines |= {"comes out": found.distribution, TARGET.word: target}
    lines |= {DRAFTER.word: q} if q is not None else {}
    lines |= {GUESS.word: guess} if guess is not None else {}
    signs = {"drafted and kept": "accepted", "said instead": "correction"}
    heads = [f"{STATES[signs[word]].glyph} {word}" if word in signs else word for word in lines]
    rows = [
        ["", *labels],
        *([head, *map(_part, line)] for head, line in zip(heads, lines.values(), strict=True)),
    ]
    off = {a: x - y for a, x, y in zip(labels, found.distribution, p, strict=True)}
    few, many = (", ".join(a for a, x in off.items() if side * x > 1e-9) for side in (-1, 1))
    top = max(found.distribution)
    case = "right" if not few + many else "constant" if top > 1 - 1e-9 else ""
    sides = {"kept": found.kept, "said": found.said, "together": found.distribution, "target": target}
    values: dict[str, Any] = {side: parts(of, WHOLE) for side, of in sides.items()}
    values |= {"name": name, "labels": ", ".join(labels), "few": few, "many": many}
    values["constant"] = labels[list(found.distribution).index(top)]
    values["acceptance"] = Fraction(found.acceptance).limit_denominator(100)
    values["away"] = total_variation(found.distribution, p)
    return worded("rule-distribution", figure, aligned(rows), values, case)


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


def envelope(
    exact: Sequence[float], samples: int, false_alarm: float = FALSE_ALARM
) -> list[tuple[float, float]]:
    """Returns for each outcome between which frequencies samples of the distribution itself lie.

    All of them do at once, but for a probability of `false_alarm` at most: each frequency is a mean of N
    yes-or-no samples, which Hoeffding's inequality bounds on both sides (see `statistics.deviation`).
    """
    away = deviation(false_alarm / (2 * len(exact)), samples)
    return [(max(0.0, p - away), min(1.0, p + away)) for p in exact]


def distribution_histogram(
    exact: Sequence[float], counts: Sequence[int], mutant_counts: Sequence[int], labels: Sequence[str]
) -> Picture:
    """Draws how often each outcome came, inside the envelope of its exact probability; and a mutant outside.

    All are [n]: the outcomes' probabilities, how often each came from the shipped code and from a mutant, and
    what they are called.
    """
    figure = sheet(max(10, 0.9 * len(exact) + 2), 6.4)
    axes = charts.prepare(figure.add_subplot(), "outcome", "share of samples", grid="y")
    bounds, xs = envelope(exact, sum(counts)), range(len(exact))
    lows, heights = [low for low, _ in bounds], [high - low for low, high in bounds]
    axes.bar(xs, heights, 0.86, bottom=lows, color="#CCCCCC", label="envelope of the exact distribution")
    axes.hlines(exact, [x - 0.43 for x in xs], [x + 0.43 for x in xs], "black")
    shipped, mutant = ([count / sum(of) for count in of] for of in (counts, mutant_counts))
    _points(axes, shipped, -0.15, SHIPPED)
    _points(axes, mutant, 0.15, MUTANT)
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
    exactly = dict(enumerate(exact))
    tests = [check_sample("", dict(enumerate(of)), exactly, FALSE_ALARM) for of in (counts, mutant_counts)]
    values = {"outcomes": len(exact), "samples": sum(counts), "tests": tests, "odds": 1 / FALSE_ALARM}
    values |= {"shipped": outside[0], "mutant": outside[1]}
    case = "right" if not outside[0] and outside[1] else ""
    return worded("distribution-histogram", figure, "\n".join(lines), values, case)


def _points(axes: Axes, shares: Sequence[float], shift: float, look: State) -> None:
    dots: dict[str, Any] = {"color": look.colour, "markersize": 13, "markeredgecolor": "black", "zorder": 4}
    xs = [x + shift for x in range(len(shares))]
    axes.plot(xs, shares, look.marker, label=look.word, **dots)
