"""How well draft and target agree along a text, position by position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes

from minispec.evidence.theory.formulas import total_variation
from minispec.io.trace import Trace
from minispec.show.plots.board import quoted, shown, widest
from minispec.show.plots.picture import Picture
from minispec.show.plots.style import STATES, TEXT, sheet
from minispec.show.plots.verification import verification_tests


@dataclass(frozen=True)
class Position:
    """One drafted token that was tested.

    Attributes:
        round: in which round.
        place: its position in the text, counted from 0, prompt included.
        token: its id.
        word: its text.
        chance: min(1, p/q), its chance to be accepted.
        tv: the total variation between the laws there; 1 − tv is the mean chance over all tokens that the
            draft could have drawn.
        accepted: whether it was.
    """

    round: int
    place: int
    token: int
    word: str
    chance: float
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
        for test in verification_tests(r, row)[: r.tested(row)]:
            p, q = r.target_probs[row, test.place], r.draft.probs[row, test.place]
            found.append(
                Position(
                    r.index,
                    length + test.place,
                    test.token,
                    words[test.token],
                    test.chance,
                    total_variation(p, q),
                    test.place < r.accepted(row),
                )
            )
        length += len(r.emitted[row])
    return found


def along_the_text(positions: Sequence[Position], first: int = 0, most: int = 28) -> Picture:
    """Draws the chance to be accepted and the distance between the laws, one position after another.

    Args:
        positions: from `positions_of`, several of them.
        first: from which one on.
        most: how many at most.

    Returns:
        The picture.

    Raises:
        ValueError: if there is no position from there on.
    """
    chosen = list(positions[first : first + most])
    if not chosen:
        raise ValueError(f"there is no tested position from {first} on; there are {len(positions)}")
    labels = [_label(position) for position in chosen]
    figure = sheet(max(2.2 + 0.42 * len(chosen), 9.0), 5.6 + widest(labels))
    upper, lower = figure.subplots(2, 1, sharex=True)
    look: dict[str, Any] = {"edgecolor": "black", "linewidth": 0.8, "width": 0.8}
    for place, position in enumerate(chosen):
        state = STATES["draft" if position.accepted else "rejected"]
        upper.bar(place, position.chance, color=state.colour, hatch=state.hatch, **look)
    lower.bar(range(len(chosen)), [position.tv for position in chosen], color="#BBBBBB", **look)
    for axes, name in ((upper, "chance to be\naccepted"), (lower, "TV(p, q)")):
        _prepare(axes, name)
    for place, (one, other) in enumerate(zip(chosen, chosen[1:], strict=False)):
        if one.round != other.round:
            for axes in (upper, lower):
                axes.axvline(place + 0.5, color="black", linewidth=1.0, linestyle=":")
    lower.set_xticks(range(len(chosen)), labels, rotation=90, fontsize=TEXT)
    lower.set_xlim(-0.6, len(chosen) - 0.4)
    lower.set_xlabel("✓ accepted   – rejected   dotted: a new round", fontsize=TEXT)
    twin = [f"{'':<16}chance  TV"]
    twin += [f"{label:<16}{x.chance:5.2f} {x.tv:5.2f}" for label, x in zip(labels, chosen, strict=True)]
    return Picture("along", figure, _alt(chosen), _caption(chosen), "\n".join(twin))


def _prepare(axes: Axes, name: str) -> None:
    axes.set_ylim(0, 1.05)
    axes.set_yticks([0, 0.5, 1])
    axes.set_ylabel(name, fontsize=TEXT)
    axes.tick_params(labelsize=TEXT)
    axes.tick_params(axis="x", length=0)
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _label(position: Position) -> str:
    glyph = STATES["draft" if position.accepted else "rejected"].glyph
    return f"{shown(position.word)} {glyph}"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _alt(chosen: Sequence[Position]) -> str:
    kept = sum(position.accepted for position in chosen)
    return (
        f"Two bar charts along {len(chosen)} drafted tokens, of which {kept} were accepted: above, each "
        f"token's chance to be accepted, {_mean([x.chance for x in chosen]):.2f} on average; below, the "
        f"total variation between draft and target, {_mean([x.tv for x in chosen]):.2f} on average."
    )


def _caption(chosen: Sequence[Position]) -> str:
    apart = max(chosen, key=lambda position: position.tv)
    near = sum(position.tv < 0.1 for position in chosen)
    return (
        f"At {near} of {len(chosen)} positions the two laws are nearly alike (TV under 0.1); they differ "
        f"most where the draft said {quoted(apart.word)}, by {apart.tv:.2f}."
    )
