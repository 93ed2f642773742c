"""Exercises on other ways to verify: trees of candidates, whole drafts, and what no rule exceeds."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

from torch import Tensor

from minispec.classroom.exercise import exercise
from minispec.classroom.exercises.rejection import normalised, show_emitted
from minispec.classroom.parts import RowRng
from minispec.classroom.running import as_tuples, call_answer, read_ids, read_number, read_tensor
from minispec.classroom.trials import enumerate_emitted
from minispec.core.verify import residual


def tree_mask(parents: list[int]) -> tuple[list[list[bool]], list[int]]:
    """Returns what each token sees (what its parent sees, and itself), and its depth."""
    rows = [{0}]
    depths = [0]
    for i, parent in enumerate(parents, 1):
        rows.append(rows[parent] | {i})
        depths.append(depths[parent] + 1)
    return [[j in row for j in range(len(rows))] for row in rows], depths


MASK = exercise(
    "tree-mask",
    right=tree_mask,
    read=lambda pair: (as_tuples(read_tensor(pair[0], name="mask: a square").tolist()), read_ids(pair[1])),
)


def try_candidates(tokens: list[int], dists: Sequence[Tensor], p: Tensor, rng: RowRng) -> tuple[int, int]:
    """Returns how many candidates are rejected, and the token; distributions are [V]."""
    dist = p
    for n, (x, q) in enumerate(zip(tokens, dists, strict=True)):
        if rng.uniform() < dist[x] / q[x]:
            return n, x
        dist = residual(dist, q)
    return len(tokens), rng.draw(dist)


TRY = exercise(
    "try-candidates",
    right=try_candidates,
    run=lambda answer, tokens, dists, p: enumerate_emitted(
        answer, tokens, [*map(normalised, dists)], normalised(p)
    ),
    show=show_emitted,
)


def slots_to_keep(cached: int, parents: list[int], last: int) -> list[int]:
    """Returns the slots of the old tokens, of the pending one, and of the path."""
    path = [last]
    while path[0]:
        path.insert(0, parents[path[0] - 1])
    return [*range(cached), *(cached + slot for slot in path)]


KEEP = exercise("slots-to-keep", right=slots_to_keep, read=read_ids)

P = [0.5, 0.25, 0.25]
Q = [0.25, 0.25, 0.5]


def block_ratios(tokens: list[int], q: list[list[float]], p: list[list[float]]) -> list[float]:
    """Returns K ratios; q: K of [V]; p: K + 1 of [V]."""
    ratio = 1.0
    ratios = []
    for i, x in enumerate(tokens):
        ratio = min(1.0, ratio * p[i][x] / q[i][x])
        ratios.append(ratio)
    return ratios


RATIOS = exercise(
    "block-ratios",
    right=block_ratios,
    run=lambda answer, tokens: call_answer(answer, tokens, [Q] * len(tokens), [P] * (len(tokens) + 1)),
    read=lambda value: as_tuples(read_tensor(value, name="a list of ratios, one for each token,").tolist()),
)


def most_accepted(p: list[float], drawn: Any) -> float:
    """Returns what no rule exceeds; `drawn` are candidates with their probabilities, p is [V]."""
    spare = []
    for size in range(len(p) + 1):
        for subset in map(set, combinations(range(len(p)), size)):
            covered = sum(d for tokens, d in drawn if subset.issuperset(tokens))
            spare.append(sum(p[x] for x in subset) - covered)
    return 1 + min(spare)


BOUND = exercise(
    "most-accepted",
    right=most_accepted,
    run=lambda answer, p, drawn: call_answer(answer, p, [(tuple(tokens), share) for tokens, share in drawn]),
    read=read_number,
)
