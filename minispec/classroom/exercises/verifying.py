"""Exercises on other ways to verify: trees of candidates, whole drafts, and what no rule exceeds."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from typing import Any

from torch import Tensor

from minispec.classroom.exercise import exercise
from minispec.classroom.exercises.rejection import scaled, show_emitted
from minispec.classroom.parts import RowRng
from minispec.classroom.running import called, ids, nested, numbers, real
from minispec.classroom.trials import emitted_by
from minispec.core.verify import residual


def seeing(sees: Callable[..., set[int]] = set.union, by_slot: bool = False) -> Any:
    """Returns an answer: what a token sees is made of what its parent sees, itself, and its parent."""

    def tree_mask(parents: list[int]) -> tuple[list[list[bool]], list[int]]:
        rows = [{0}]
        depths = [0]
        for i, parent in enumerate(parents, 1):
            rows.append(sees(rows[parent], {i}, {parent}))
            depths.append(i if by_slot else depths[parent] + 1)
        return [[j in row for j in range(len(rows))] for row in rows], depths

    return tree_mask


MASK = exercise(
    "tree-mask",
    wrong={
        "siblings-seen": seeing(lambda above, itself, parent: {*range(max(itself) + 1)}),
        "parent-only": seeing(lambda above, itself, parent: itself | parent),
        "itself-not-seen": seeing(lambda above, itself, parent: above | parent),
        "position-by-slot": seeing(by_slot=True),
    },
    right=seeing(),
    read=lambda pair: (nested(numbers(pair[0], name="mask: a square").tolist()), ids(pair[1])),
)


def trying(wrong: str = "") -> Any:
    """Returns an answer, the right one or a wrong one by its name."""

    def try_candidates(tokens: list[int], dists: Sequence[Tensor], p: Tensor, rng: RowRng) -> tuple[int, int]:
        dist = p  # [V], as all distributions here
        for n, x in enumerate(tokens):
            q = dists[0 if wrong == "first-q-for-all" else n]
            if wrong == "p-stays":
                dist = p
            if rng.uniform() < (dist[x] if wrong == "q-forgotten" else dist[x] / q[x]):
                return n, x
            dist = residual(dist, q)
        return len(tokens), rng.draw(p if wrong == "drawn-from-p" else dist)

    return try_candidates


TRY = exercise(
    "try-candidates",
    wrong={name: trying(name) for name in ("p-stays", "first-q-for-all", "q-forgotten", "drawn-from-p")},
    right=trying(),
    run=lambda answer, tokens, dists, p: emitted_by(answer, tokens, [*map(scaled, dists)], scaled(p)),
    show=show_emitted,
)


def slots_to_keep(cached: int, parents: list[int], last: int) -> list[int]:
    """Returns the slots of the old tokens, of the pending one, and of the path."""
    above = slots_to_keep(cached, parents, parents[last - 1]) if last else [*range(cached)]
    return [*above, cached + last]


KEEP = exercise(
    "slots-to-keep",
    wrong={
        "as-in-a-chain": lambda *given: [*range(len(slots_to_keep(*given)))],
        "pending-forgotten": lambda *given: [slot for slot in slots_to_keep(*given) if slot != given[0]],
        "one-slot-early": lambda *given: [slot - (slot > given[0]) for slot in slots_to_keep(*given)],
        "old-ones-forgotten": lambda *given: [slot for slot in slots_to_keep(*given) if slot >= given[0]],
    },
    right=slots_to_keep,
    read=ids,
)

Rows = list[list[float]]
P = [0.5, 0.25, 0.25]
Q = [0.25, 0.25, 0.5]
cut = partial(min, 1.0)


def ratios(tokens: list[int], q: Rows, p: Rows, keep: Any = cut, report: Any = cut) -> list[float]:
    """Returns K ratios; a wrong answer keeps or says others. q: K of [V]; p: K + 1 of [V]."""
    w = 1.0
    reported = []
    for i, x in enumerate(tokens):
        w = keep(w) * p[i][x] / q[i][x]
        reported.append(report(w))
    return reported


RATIOS = exercise(
    "block-ratios",
    wrong={
        "one-by-one": partial(ratios, keep=lambda w: 1.0),
        "cut-too-late": partial(ratios, keep=float),
        "never-cut": partial(ratios, keep=float, report=float),
    },
    right=ratios,
    run=lambda answer, tokens: called(answer, tokens, [Q] * len(tokens), [P] * (len(tokens) + 1)),
    read=lambda value: nested(numbers(value, name="a list of ratios, one for each token,").tolist()),
)


def bound(p: list[float], drawn: Any, largest: int = 9, lies: Any = set.issubset) -> float:
    """Returns what no rule exceeds; a wrong answer looks at other sets, of p [V] or of candidates."""
    spare = []
    for n in range(largest + 1):
        for some in map(set, combinations(range(len(p)), n)):
            spare.append(sum(p[x] for x in some) - sum(d for tokens, d in drawn if lies({*tokens}, some)))
    return 1 + min(spare)


def token_by_token(p: list[float], drawn: Any) -> float:
    """A wrong answer: as if each token could take all draws that it is among; p is [V]."""
    return sum(min(share, sum(d for tokens, d in drawn if x in tokens)) for x, share in enumerate(p))


BOUND = exercise(
    "most-accepted",
    wrong={
        "token-by-token": token_by_token,
        "single-tokens": partial(bound, largest=1),
        "some-are-in-it": partial(bound, lies=set.intersection),
    },
    right=bound,
    run=lambda answer, p, drawn: called(answer, p, [(tuple(tokens), share) for tokens, share in drawn]),
    read=real,
)
