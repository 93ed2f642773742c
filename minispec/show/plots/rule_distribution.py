"""What a rule makes of a draft: the part that is kept, the part that it says itself, and the target's law."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import isclose

from matplotlib.axes import Axes

from minispec.evidence.proof.first_token import FirstToken, parts
from minispec.evidence.theory.formulas import total_variation
from minispec.show.plots import charts
from minispec.show.plots.picture import Picture
from minispec.show.plots.style import GUESS, STATES, TARGET, TEXT, sheet

HALF = 0.36  # of a bar's width


def rule_law(
    found: FirstToken,
    p: Sequence[float],
    labels: Sequence[str],
    whole: int = 12,
    guess: Sequence[float] | None = None,
) -> Picture:
    """Draws the law that a rule emits as bars of two parts, with the target's law as a line across each.

    Args:
        found: from `first_token`.
        p: [V], the target's law.
        labels: [V], what the tokens are called.
        whole: laws are written in parts of this.
        guess: [V], the law that the reader expects.

    Raises:
        ValueError: if the lists differ in length.
    """
    if len({len(found.distribution), len(p), len(labels)}) != 1:
        raise ValueError("found, p and labels must be over the same tokens")
    figure = sheet(max(9.0, 2.4 * len(p) + 2), 6.0)
    axes = charts.prepare(figure.add_subplot(), "", "chance", grid="y")
    _bars(axes, found)
    places = range(len(p))
    axes.hlines(
        [float(x) for x in p],
        [i - HALF - 0.08 for i in places],
        [i + HALF + 0.08 for i in places],
        color=TARGET.colour,
        linewidth=5,
        label="target, p",
    )
    if guess is not None:
        for place, value in enumerate(guess):
            charts.guess_at(axes, place + HALF + 0.08, value, GUESS.word if place == 0 else "")
    axes.set_xticks(
        list(places),
        [f"{label}\n{_part(x, whole)}" for label, x in zip(labels, found.distribution, strict=True)],
    )
    axes.tick_params(axis="x", length=0, labelsize=TEXT)
    axes.set_xlim(-0.6, len(p) - 0.4)
    axes.set_ylim(0, 1.1 * max(*found.distribution, *map(float, p), *(guess or [0])))
    charts.keys(axes, 2)
    return Picture(
        "rule-law",
        figure,
        _alt(found, p, labels, whole),
        _caption(found, p),
        _twin(found, p, labels, whole, guess),
    )


def _bars(axes: Axes, found: FirstToken) -> None:
    places = range(len(found.distribution))
    bottoms = (found.kept, [0.0] * len(found.kept))
    for state, heights, bottom, word in (
        ("draft", found.kept, bottoms[1], "drafted and kept"),
        ("correction", found.said, bottoms[0], "said instead"),
    ):
        look = STATES[state]
        axes.bar(
            places,
            heights,
            2 * HALF,
            bottom=bottom,
            color=look.colour,
            edgecolor="black",
            label=f"{look.glyph} {word}",
        )
        for place, (height, floor) in enumerate(zip(heights, bottom, strict=True)):
            if height > 0.04:
                axes.text(
                    place,
                    floor + height / 2,
                    look.glyph,
                    fontsize=TEXT,
                    ha="center",
                    va="center",
                    color=look.ink,
                )


def _part(chance: float, whole: int) -> str:
    return parts([chance], whole).replace("(", "").replace(")", "")


def _same(found: FirstToken, p: Sequence[float]) -> bool:
    return all(isclose(a, float(b), abs_tol=1e-9) for a, b in zip(found.distribution, p, strict=True))


def _caption(found: FirstToken, p: Sequence[float]) -> str:
    kept = Fraction(found.acceptance).limit_denominator(100)
    if _same(found, p):
        return f"The rule keeps {kept} of what is drafted, and what comes out is the target's law."
    away = total_variation(found.distribution, p)
    return (
        f"The rule keeps {kept} of what is drafted, and what comes out is {away:.2f} away from the target's "
        f"law in total variation."
    )


def _alt(found: FirstToken, p: Sequence[float], labels: Sequence[str], whole: int) -> str:
    return (
        f"A bar for each of the tokens {', '.join(labels)}. Kept: {parts(found.kept, whole)}; said instead: "
        f"{parts(found.said, whole)}; together {parts(found.distribution, whole)}, where the target's law is "
        f"{parts([float(x) for x in p], whole)}."
    )


def _twin(
    found: FirstToken, p: Sequence[float], labels: Sequence[str], whole: int, guess: Sequence[float] | None
) -> str:
    rows = [
        ("", *labels),
        ("drafted and kept", *(_part(x, whole) for x in found.kept)),
        ("said instead", *(_part(x, whole) for x in found.said)),
        ("comes out", *(_part(x, whole) for x in found.distribution)),
        ("target, p", *(_part(float(x), whole) for x in p)),
    ]
    if guess is not None:
        rows.append((GUESS.word, *(_part(x, whole) for x in guess)))
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(f"{cell:<{space}}" for cell, space in zip(row, wide, strict=True)).rstrip() for row in rows
    )
