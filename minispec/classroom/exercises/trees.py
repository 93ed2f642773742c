"""Exercises on trees of candidates: what each token sees, the rule for one position, what stays cached."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from minispec.classroom.exercises.rejection import one_row, show_gained
from minispec.classroom.exercises.texts import exercise
from minispec.classroom.parts import RowRng
from minispec.classroom.running import ids, nested, numbers
from minispec.classroom.trials import Trial, call
from minispec.core.verify import residual

PARENTS: list[list[int]] = [[], [0], [0, 1], [0, 0], [0, 0, 1], [0, 0, 1, 2], [0, 0, 2, 2, 3, 4]]


def seeing(sees: Callable[..., set[int]] = set.union, by_slot: bool = False) -> Any:
    """Returns an answer: what a token sees is made of what its parent sees, itself, and its parent."""

    def tree_mask(parents: list[int]) -> tuple[list[list[bool]], list[int]]:
        rows, depths = [{0}], [0]
        for i, parent in enumerate(parents, 1):
            rows.append(sees(rows[parent], {i}, {parent}))
            depths.append(i if by_slot else depths[parent] + 1)
        return [[j in row for j in range(len(rows))] for row in rows], depths

    return tree_mask


MASK = exercise(
    "tree-mask",
    wrong={
        "siblings-seen": seeing(lambda above, own, parent: {*range(max(own) + 1)}),
        "parent-only": seeing(lambda above, own, parent: own | parent),
        "itself-not-seen": seeing(lambda above, own, parent: above | parent),
        "position-by-slot": seeing(by_slot=True),
    },
    right=seeing(),
    trials=tuple(call("tree_mask", parents) for parents in PARENTS),
    read=lambda pair: (nested(numbers(pair[0], name="mask: a square").tolist()), ids(pair[1])),
)


def trying(wrong: str = "") -> Any:
    """Returns an answer, the right one or a wrong one by its name."""

    def try_candidates(tokens: list[int], dists: Sequence[Tensor], p: Tensor, rng: RowRng) -> tuple[int, int]:
        left = p  # [V], as all distributions here
        for n, x in enumerate(tokens):
            q, left = dists[0 if wrong == "first-q-for-all" else n], p if wrong == "p-stays" else left
            if rng.uniform() < (left[x] if wrong == "q-forgotten" else left[x] / q[x]):
                return n, x
            left = residual(left, q)
        return len(tokens), rng.draw(p if wrong == "drawn-from-p" else left)

    return try_candidates


def one_place(tokens: list[int], *dists: tuple[int, ...]) -> Trial:
    """Returns a trial on candidates for one position; q of each and p are given by weights."""
    trial = one_row(tokens, [*dists[:-1]], [dists[-1]])
    return replace(trial, arguments=(*trial.arguments[:2], trial.arguments[2][0]))


P, Q = (3, 2, 1), (1, 1, 4)
TRY = exercise(
    "try-candidates",
    wrong={name: trying(name) for name in ("p-stays", "first-q-for-all", "q-forgotten", "drawn-from-p")},
    right=trying(),
    trials=(
        *(one_place([], P), one_place([2], Q, P), one_place([2, 0], Q, Q, P)),
        *(one_place([2, 1], Q, (1, 1, 0), P), one_place([1, 2, 0], (0, 1, 0), (0, 0, 1), (1, 0, 0), P)),
    ),
    show=show_gained,
)


def slots_to_keep(cached: int, parents: list[int], last: int) -> list[int]:
    """Returns the slots of the old tokens, of the pending one, and of the path."""
    return (
        [*slots_to_keep(cached, parents, parents[last - 1]), cached + last] if last else [*range(cached + 1)]
    )


KEEP = exercise(
    "slots-to-keep",
    wrong={
        "as-in-a-chain": lambda *given: [*range(len(slots_to_keep(*given)))],
        "pending-forgotten": lambda *given: [slot for slot in slots_to_keep(*given) if slot != given[0]],
        "one-slot-early": lambda *given: [slot - (slot > given[0]) for slot in slots_to_keep(*given)],
        "old-ones-forgotten": lambda *given: [slot for slot in slots_to_keep(*given) if slot >= given[0]],
    },
    right=slots_to_keep,
    trials=tuple(call("slots_to_keep", 3, tree, last) for tree in PARENTS for last in range(len(tree) + 1)),
    read=ids,
)
