"""Exercises on choosing a rule: the ratios that block verification goes by, and what no rule can exceed."""

from functools import partial
from itertools import combinations
from typing import Any

from minispec.classroom.exercises.texts import exercise
from minispec.classroom.running import nested, numbers, real
from minispec.classroom.trials import call

Rows = list[list[float]]
cut = partial(min, 1.0)


def running(tokens: list[int], q: Rows, p: Rows, kept: Any = cut, said: Any = cut) -> list[float]:
    """Returns K ratios; a wrong answer keeps or says others. q: K of [V]; p: K + 1 of [V]."""
    w, found = 1.0, []
    for i, x in enumerate(tokens):
        w = kept(w) * p[i][x] / q[i][x]
        found.append(said(w))
    return found


P, Q = [0.5, 0.25, 0.25], [0.25, 0.25, 0.5]
RATIOS = exercise(
    "block-ratios",
    wrong={
        "one-by-one": partial(running, kept=lambda w: 1.0),
        "cut-too-late": partial(running, kept=float),
        "never-cut": partial(running, kept=float, said=float),
    },
    right=running,
    trials=tuple(
        call("block_ratios", tokens, [Q] * len(tokens), [P] * (len(tokens) + 1))
        for tokens in ([], [2], [0], [1], [2, 2], [2, 0], [0, 2], [0, 2, 2, 1])
    ),
    read=lambda value: nested(numbers(value, name="a list of ratios, one for each token,").tolist()),
)


def most(p: list[float], drawn: Any, largest: int = 9, lies: Any = set.issubset) -> float:
    """Returns what no rule exceeds; a wrong answer looks at other sets, of p [V] or of candidates."""
    spare = []
    for n in range(largest + 1):
        for some in map(set, combinations(range(len(p)), n)):
            spare.append(sum(p[x] for x in some) - sum(d for tokens, d in drawn if lies({*tokens}, some)))
    return 1 + min(spare)


def token_by_token(p: list[float], drawn: Any) -> float:
    """A wrong answer: as if each token could take all draws that it is among; p is [V]."""
    return sum(min(share, sum(d for tokens, d in drawn if x in tokens)) for x, share in enumerate(p))


DRAWS: list[Any] = [([0.25, 0.75], [((0,), 0.75), ((1,), 0.25)])]
DRAWS += [([0.5, 0.5], [((0, 0), 0.0625), ((0, 1), 0.375), ((1, 1), 0.5625)])]
DRAWS += [([0.5, 0.5, 0.0], [((0, 1), 0.5), ((2,), 0.5)])]
DRAWS += [([0.125, 0.125, 0.75], [((0, 1), 0.5), ((2, 0), 0.25), ((2,), 0.25)])]
DRAWS += [([0.1, 0.2, 0.3, 0.4], [((0, 1), 0.5), ((0, 2), 0.25), ((1, 3), 0.25)])]
MOST = exercise(
    "most-accepted",
    wrong={
        "token-by-token": token_by_token,
        "single-tokens": partial(most, largest=1),
        "some-are-in-it": partial(most, lies=set.intersection),
    },
    right=most,
    trials=tuple(call("most_accepted", *draw) for draw in DRAWS),
    read=real,
)
