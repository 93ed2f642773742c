"""Which worlds a rule is tried in: small ones first, and in them everything that rules stumble over.

Zeros, ties, p = q, p = q but for rounding, disjoint supports, near certainty, laws that change with what was
said before, and rows that propose less than their neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from itertools import product

import torch

from minispec.evidence.checker.instances import Instance, Law, Table
from minispec.rules.coupled import scramble

WEIGHTS = (0, 0, 1, 1, 2, 3)  # laws made of these often have zeros and ties
# K, V, how many with rows of one length, how many with rows of several.
SEEDED = (
    (1, 2, 10, 8),
    (1, 3, 12, 4),
    (1, 4, 5, 0),
    (1, 5, 5, 0),
    (2, 2, 28, 8),
    (2, 3, 20, 4),
    (2, 5, 3, 0),
    (3, 2, 20, 6),
    (3, 3, 10, 3),
    (3, 4, 2, 0),
    (4, 2, 6, 2),
    (4, 3, 2, 1),
    (4, 5, 2, 0),
)


def fractions(*weights: int) -> Law:
    """Returns the law with these weights."""
    return tuple(Fraction(weight, sum(weights)) for weight in weights)


def steady(p: Law, q: Law, after: Law | None = None) -> Instance:
    """Returns the world of one drafted token: p and q for it, and `after` (by default p) behind it."""
    return Instance(((p,), (after or p,)), ((q,),))


def standard_instances() -> tuple[Instance, ...]:
    """Returns about 300 worlds, the smallest first.

    Some are listed: laws of halves over two ids, many of thirds over two and three, p = q, p = q but for
    rounding (where a rejection finds nothing left to say), disjoint supports, near certainty. The others are
    seeded, with laws that differ after every prefix, up to K = 4 and V = 5.
    """
    halves = [fractions(1, 0), fractions(0, 1), fractions(1, 1)]
    thirds = [fractions(1, 2), fractions(2, 1)]
    of_three = [(1, 0, 0), (0, 0, 1), (1, 1, 0), (0, 1, 1), (1, 1, 1), (1, 2, 0), (2, 0, 1)]
    family = [Instance(((law,),), ()) for law in (*halves, *thirds, fractions(1, 2, 3))]
    family += [steady(p, q, after) for p, after, q in product(halves, repeat=3)]
    family += [steady(p, q, after) for p, q in product(halves + thirds, repeat=2) for after in (p, p[::-1])]
    family += [steady(fractions(*p), fractions(*q)) for p, q in product(of_three, repeat=2)]
    family += [steady(fractions(3, 2, 1), fractions(1, 1, 4))]
    family += [steady(p, q) for p, q in almost()]
    family += [Instance(((p,),) * (k + 1), ((q,),) * k) for k in (2, 3) for p, q in product(halves, repeat=2)]
    family += seeded_instances(SEEDED, mixed_table)
    return tuple(sorted(dict.fromkeys(family), key=lambda instance: instance.size))


def greedy_instances() -> tuple[Instance, ...]:
    """Returns about 180 worlds at temperature 0, the smallest first: the target is always certain.

    What a greedy rule has to do is then the same as what every rule has to: say the target's text.
    """
    certain = [fractions(1, 0), fractions(0, 1)]
    drafts = [*certain, fractions(1, 1), fractions(1, 2), fractions(2, 1)]
    family = [Instance(((law,),), ()) for law in certain]
    family += [steady(p, q, after) for p, after, q in product(certain, certain, drafts)]
    family += seeded_instances(SEEDED, certain_table)
    return tuple(sorted(dict.fromkeys(family), key=lambda instance: instance.size))


def almost() -> Iterator[tuple[Law, Law]]:
    """Yields pairs p, q that are almost certain, or almost equal."""
    half = fractions(1, 1)
    for rare in (Fraction(1, 10**6), 1e-12):
        sure, unsure = (1 - rare, rare), (rare, 1 - rare)
        yield from ((sure, unsure), (unsure, sure), (half, sure), (sure, half), (sure, sure))
    for p in ((0.5, 0.5), (0.25, 0.75), (0.25, 0.25, 0.5)):
        yield p, tuple(chance * (1 + 2**-52) for chance in p)  # p < q everywhere: no residual is left


def seeded_instances(
    sizes: Iterable[tuple[int, int, int, int]], target_table: Callable[[int, int, int], Table]
) -> Iterator[Instance]:
    """Yields worlds whose laws differ after every prefix and are a pure function of a counter.

    Args:
        sizes: K, V, how many with rows of one length, how many with rows of several.
        target_table: makes the target's tables: (rows, V, seed) -> table.
    """
    for k, size, plain, ragged in sizes:
        for number in range(plain + ragged):
            seed = 1_000_000 * k + 10_000 * size + 100 * number
            p = tuple(target_table(size**i, size, seed + 2 * i) for i in range(k + 1))
            q = tuple(beside(p[i], mixed_table(size**i, size, seed + 2 * i + 1), seed + i) for i in range(k))
            lengths = tuple(range(number % 2, k + 1))[: k + number % 3] if number >= plain else ()
            yield Instance(p, q, (0, k) if len(lengths) == 1 else lengths)


def mixed_table(rows: int, size: int, seed: int) -> Table:
    """Returns laws of small weights, often with zeros and ties: [rows, size]."""
    chosen = [WEIGHTS[number] for number in dice(rows * size, len(WEIGHTS), seed)]
    chunks = [chosen[row * size : (row + 1) * size] for row in range(rows)]
    return tuple(fractions(*(chunk if any(chunk) else [1, *chunk[1:]])) for chunk in chunks)


def certain_table(rows: int, size: int, seed: int) -> Table:
    """Returns one-hot laws: [rows, size]."""
    return tuple(fractions(*(int(i == best) for i in range(size))) for best in dice(rows, size, seed))


def beside(p: Table, free: Table, seed: int) -> Table:
    """Returns draft laws beside target laws: now equal, now of disjoint support, mostly free."""
    laws = []
    for relation, mine, other in zip(dice(len(p), 6, seed), p, free, strict=True):
        elsewhere = sum(b for a, b in zip(mine, other, strict=True) if not a)
        if relation == 0:
            laws.append(mine)
        elif relation == 1 and elsewhere:
            laws.append(tuple(0 * b if a else b / elsewhere for a, b in zip(mine, other, strict=True)))
        else:
            laws.append(other)
    return tuple(laws)


def dice(count: int, sides: int, seed: int) -> list[int]:
    """Returns numbers from 0 to sides − 1 that look random and are the same on every machine: [count]."""
    return (scramble(scramble(torch.arange(count)) + seed) >> 17).remainder(sides).tolist()
