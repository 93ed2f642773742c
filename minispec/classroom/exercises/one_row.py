"""The exercise on one row of lists: accept drafted tokens by the rejection rule, and add one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from minispec.classroom.exercise import Exercise
from minispec.classroom.parts import RowRng
from minispec.classroom.trials import Trial
from minispec.core.verify import residual


def accepting(
    ratio: Callable[[Tensor, Tensor], Tensor] = lambda p, q: p / q,
    correct: Callable[[Tensor, Tensor], Tensor] = residual,
    keep: int = 0,
    bonus: int | None = -1,
    one_number: bool = False,
) -> Callable[..., list[int]]:
    """Returns an answer; the right one by default.

    Args:
        ratio: of p(x) and q(x): u must be below it.
        correct: the distribution [V] of a correction, by p and q.
        keep: how many rejected ids are kept.
        bonus: which of the target's distributions the bonus is drawn from; None: there is none.
        one_number: whether all ids are tested with the first u.
    """

    def accept_one_row(
        tokens: list[int], dists: Sequence[Tensor], target_dists: Sequence[Tensor], rng: RowRng
    ) -> list[int]:
        """Returns the ids that a round gains; distributions are [V]."""
        first = rng.uniform()
        for i, (x, q) in enumerate(zip(tokens, dists, strict=True)):
            u, p = first if one_number else rng.uniform(), target_dists[i]
            if not u < ratio(p[x], q[x]):
                return [*tokens[: i + keep], rng.draw(correct(p, q))]
        return tokens + ([] if bonus is None else [rng.draw(target_dists[bonus])])

    return accept_one_row


def going_on(tokens: list[int], dists: list[Tensor], target_dists: Tensor, rng: RowRng) -> list[int]:
    """A wrong answer: drops what is rejected, and goes on testing; target_dists is [K+1, V]."""
    kept = [x for x, q, p in zip(tokens, dists, target_dists, strict=False) if rng.uniform() < p[x] / q[x]]
    i = len(kept)
    p = target_dists[i]
    return [*kept, rng.draw(residual(p, dists[i]) if i < len(tokens) else p)]


def one_row(tokens: list[int], dists: list[tuple[int, ...]], target_dists: list[tuple[int, ...]]) -> Trial:
    """Returns a trial; distributions are given by weights."""

    def text(weights: list[tuple[int, ...]]) -> str:
        return "; ".join(f"({', '.join(map(str, row))})/{sum(row)}" for row in weights)

    rows = [torch.tensor(weights).double().reshape(-1, 3) for weights in (dists, target_dists)]
    q, p = (weights / weights.sum(-1, keepdim=True) for weights in rows)
    said = f"drafted {tokens}, q = {text(dists) or 'none'}, p = {text(target_dists)}, every branch"
    return Trial(said, "gained", (tokens, list(q), p))


def show_gained(value: Any) -> str:
    """Writes what is gained, and how probable it is."""
    return "".join(f"\n    {list(ids)} with probability {probability:.3g}" for ids, probability in value)


ACCEPT = Exercise(
    key="accept-one-row",
    title="Accept and correct one row",
    notebook=6,
    difficulty=2,
    minutes=8,
    stub='''def accept_one_row(tokens, dists, target_dists, rng):
    """Returns the ids that a round gains: those accepted, then the correction or the bonus.

    tokens: K drafted ids; dists: K distributions q, [V] each; tokens[i] was drawn from dists[i].
    target_dists: K + 1 distributions p, [V] each; the last one is for the token after all K.
    rng.uniform() is a new number between 0 and 1, to be compared: u < 0.3.
    rng.draw(distribution [V]) draws an id.
    """
    ...
''',
    hints=(
        "Go from left to right, with a new u for each position. There you need three things: the id x, its q "
        "and its p.",
        "If the draft says x three times as often as the target does, x may stay in one case of three. The "
        "first x that may not stay ends the round: its place is taken by an id drawn from what q lacks. "
        "Whoever gets to the end has one distribution left.",
    ),
    goal="Each id is tested with a new number u. The first that fails is replaced, and the round is over.",
    picture="""
drafted  ✓ sat  ✓ on  ✗ mat    ○ and
p/q      1.3    0.8   0.1      not tested
u        0.97   0.42  0.57
gained   ✓ sat  ✓ on  ↳ floor
""",
    praise="One comparison a token, one draw a round: what comes out is distributed as the target's text.",
    wrong={
        "correction-from-p": (
            "After a rejection you draw from p. A part of it is used up: draw from the residual.",
            accepting(correct=lambda p, q: p),
        ),
        "ratio-inverted": (
            "You compare u with q/p. It is p/q: what the draft says too often is kept less often.",
            accepting(ratio=lambda p, q: q / p),
        ),
        "q-forgotten": (
            "You compare u with p(x) alone. How often x was proposed counts too: with p(x)/q(x).",
            accepting(ratio=lambda p, q: p),
        ),
        "keeps-the-rejected": (
            "The rejected id is still in your list. The correction takes its place.",
            accepting(keep=1),
        ),
        "going-on-after-a-rejection": (
            "You go on testing after a rejection. What stands there was proposed for a text that is gone.",
            going_on,
        ),
        "no-bonus": (
            "If all K are accepted, one more id is drawn, from the last distribution: the bonus.",
            accepting(bonus=None),
        ),
        "bonus-one-early": (
            "You draw the bonus from p of the last drafted position. Its own is one further: the last.",
            accepting(bonus=-2),
        ),
        "one-number-for-all": (
            "You test all ids with the same u. Each needs a number of its own: tests must be independent.",
            accepting(one_number=True),
        ),
    },
    right=accepting(),
    trials=(
        one_row([0], [(1, 1, 4)], [(3, 2, 1), (1, 1, 2)]),
        one_row([2], [(1, 1, 4)], [(3, 2, 1), (1, 1, 2)]),
        one_row([1], [(1, 1, 4)], [(1, 1, 4), (1, 0, 1)]),
        one_row([0], [(1, 0, 0)], [(0, 1, 3), (1, 1, 2)]),
        one_row([2, 0], [(1, 1, 4), (3, 2, 1)], [(3, 2, 1), (1, 1, 4), (2, 3, 1)]),
        one_row([0, 2], [(4, 1, 1), (1, 1, 4)], [(1, 2, 3), (3, 2, 1), (2, 3, 1)]),
        one_row([], [], [(3, 2, 1)]),
    ),
    show=show_gained,
)
