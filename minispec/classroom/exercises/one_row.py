"""The exercise on one row of lists: accept drafted tokens by the rejection rule, and add one."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from minispec.classroom.exercises.texts import exercise
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


ACCEPT = exercise(
    "accept-one-row",
    wrong={
        "correction-from-p": accepting(correct=lambda p, q: p),
        "ratio-inverted": accepting(ratio=lambda p, q: q / p),
        "q-forgotten": accepting(ratio=lambda p, q: p),
        "keeps-the-rejected": accepting(keep=1),
        "going-on-after-a-rejection": going_on,
        "no-bonus": accepting(bonus=None),
        "bonus-one-early": accepting(bonus=-2),
        "one-number-for-all": accepting(one_number=True),
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
