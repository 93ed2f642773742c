"""How well draft and target agree along a text, position by position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import Any

from minispec.evidence.theory.formulas import total_variation
from minispec.io.trace import Trace
from minispec.show.plots import charts
from minispec.show.plots.board import quoted, shown, widest
from minispec.show.plots.style import STATES, TEXT, Picture, sheet
from minispec.show.plots.verification import drafted_tokens

MOST = 28  # positions in one figure


@dataclass(frozen=True)
class Position:
    """One drafted token that was tested.

    Attributes:
        round: in which round.
        position: in the text, counted from 0, prompt included.
        token: its id.
        word: its text.
        acceptance: min(1, p/q), its probability to be accepted.
        tv: the total variation between p and q there; 1 − tv is the mean acceptance over all tokens that
            the draft could have drawn.
        accepted: whether it was.
    """

    round: int
    position: int
    token: int
    word: str
    acceptance: float
    tv: float
    accepted: bool


def positions_of(trace: Trace, words: Sequence[str], row: int = 0) -> list[Position]:
    """Returns every drafted token of a row that was tested, in order.

    Where the target's token followed instead or in addition, there is no test and so no position.

    Args:
        trace: any, from a run with `verify_rejection` or `verify_greedy`.
        words: the text of every token id.
        row: which row.
    """
    found, length = [], len(trace.prompts[row])
    for r in trace.rounds:
        for test in drafted_tokens(r, row)[: r.tested(row)]:
            tv = total_variation(r.target_probs[row, test.index], r.draft.probs[row, test.index])
            at, accepted = length + test.index, test.index < r.accepted(row)
            word = words[test.token]
            found.append(Position(r.index, at, test.token, word, test.acceptance, tv, accepted))
        length += len(r.emitted[row])
    return found


def along_the_text(positions: Sequence[Position]) -> Picture:
    """Draws the probability to be accepted and the distance between p and q, one position after another.

    Args:
        positions: from `positions_of`, one at least; the first 28 are drawn.
    """
    chosen = list(positions[:MOST])
    looks = [STATES["draft" if x.accepted else "rejected"] for x in chosen]
    labels = [f"{shown(x.word)} {look.glyph}" for x, look in zip(chosen, looks, strict=True)]
    figure = sheet(max(2.2 + 0.42 * len(chosen), 9.0), 5.6 + widest(labels))
    upper, lower = figure.subplots(2, 1, sharex=True)
    bar: dict[str, Any] = {"edgecolor": "black", "linewidth": 0.8, "width": 0.8}
    for x, (position, look) in enumerate(zip(chosen, looks, strict=True)):
        upper.bar(x, position.acceptance, color=look.colour, hatch=look.hatch, **bar)
    lower.bar(range(len(chosen)), [position.tv for position in chosen], color="#BBBBBB", **bar)
    new = [i + 0.5 for i, (a, b) in enumerate(pairwise(chosen)) if a.round != b.round]
    for axes, name in ((upper, "probability to\nbe accepted"), (lower, "TV(p, q)")):
        charts.prepare(axes, "", name, grid="y")
        axes.tick_params(axis="x", length=0)
        axes.set_ylim(0, 1.05)
        axes.set_yticks([0, 0.5, 1])
        for x in new:
            axes.axvline(x, color="black", linewidth=1.0, linestyle=":")
    lower.set_xticks(range(len(chosen)), labels, rotation=90, fontsize=TEXT)
    lower.set_xlim(-0.6, len(chosen) - 0.4)
    lower.set_xlabel("✓ accepted   – rejected   dotted: a new round", fontsize=TEXT)
    alt = (
        f"Two bar charts along {len(chosen)} drafted tokens, of which {sum(x.accepted for x in chosen)} were "
        f"accepted: above, each token's probability to be accepted, "
        f"{fmean(x.acceptance for x in chosen):.2f} on average; below, the total variation between draft and "
        f"target, {fmean(x.tv for x in chosen):.2f} on average."
    )
    apart = max(chosen, key=lambda position: position.tv)
    caption = (
        f"At {sum(x.tv < 0.1 for x in chosen)} of {len(chosen)} positions p and q are nearly alike (TV under "
        f"0.1); they differ most where the draft said {quoted(apart.word)}, by {apart.tv:.2f}."
    )
    twin = [f"{'':<16}min(1, p/q)  TV"]
    twin += [f"{label:<16}{x.acceptance:11.2f}  {x.tv:.2f}" for label, x in zip(labels, chosen, strict=True)]
    return Picture("along", figure, alt, caption, "\n".join(twin))
