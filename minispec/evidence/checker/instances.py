"""Small instances to try a rule on: few ids, few drafted tokens, probabilities written as fractions.

A wrong rule is wrong on an instance of a few lines, and the smallest one is the best explanation. The
instances here have what rules fail on: zeros, ties, p = q, p = q but for rounding, disjoint supports, near
certainty, distributions that depend on the prefix, rows of several lengths, candidates that come twice.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from itertools import product, starmap
from typing import Any

import torch

from minispec.drafters.chain import depths_of
from minispec.evidence.checker.instance import CHOICES, Instance, Table, TableRow
from minispec.io.files import read_table
from minispec.verifiers.coupled import scramble

TableMaker = Callable[[int, int, int], Table]

UNEQUAL = 2**-43  # p and q differ so little; but by more than `NEGLIGIBLE`, so that a rejection is a branch
FAMILIES = read_table(__file__, "instances.toml")


def fractions(*weights: int) -> TableRow:
    """Returns the distribution with these weights."""
    return tuple(Fraction(weight, sum(weights)) for weight in weights)


def listed(name: str) -> list[TableRow]:
    """Returns distributions that are listed in instances.toml."""
    return [fractions(*weights) for weights in FAMILIES[name]]


def one_token(p: TableRow, q: TableRow, after: TableRow | None = None) -> Instance:
    """Returns an instance of one drafted token: p and q for it, and `after` (by default p) for the next."""
    return Instance(((p,), (after or p,)), ((q,),))


@cache
def standard_instances() -> tuple[Instance, ...]:
    """Returns about 300 instances, the smallest first.

    Some are listed: all distributions of halves over two ids, many of thirds over two and three, p = q, p = q
    but for rounding (where a rejection leaves no residual), disjoint supports, near certainty. The others are
    seeded, with distributions that differ after every prefix, up to K = 4 and V = 5.
    """
    halves, thirds, three_ids = map(listed, ("halves", "thirds", "three_ids"))
    family = [Instance(((p,),), ()) for p in (*halves, *thirds, fractions(1, 2, 3))]
    family += [one_token(p, q, after) for p, after, q in product(halves, repeat=3)]
    family += [
        one_token(p, q, after) for p, q in product(halves + thirds, repeat=2) for after in (p, p[::-1])
    ]
    different = (fractions(3, 2, 1), fractions(1, 1, 4))
    family += starmap(one_token, [*product(three_ids, repeat=2), different, *nearly_equal_or_certain()])
    family += [Instance(((p,),) * (k + 1), ((q,),) * k) for k in (2, 3) for p, q in product(halves, repeat=2)]
    family += seeded_instances("chains", mixed_table)
    return smallest_first(family)


@cache
def greedy_instances() -> tuple[Instance, ...]:
    """Returns about 180 instances at temperature 0, the smallest first: the target is always certain.

    What a greedy rule has to do is then what every rule has to: emit the target's text.
    """
    halves = listed("halves")
    certain = halves[:2]
    drafts = halves + listed("thirds")
    family = [Instance(((p,),), ()) for p in certain]
    family += [one_token(p, q, after) for p, after, q in product(certain, certain, drafts)]
    family += seeded_instances("chains", certain_table)
    return smallest_first(family)


@cache
def large_instances(certain: bool = False) -> tuple[Instance, ...]:
    """Returns some 20 instances with more ids, or more drafted tokens, than the standard ones.

    Up to 1,024 ids for one drafted token, 32 for two, and two for up to 8. Of many ids only a few have a
    probability above 0, so that every branch can be enumerated. `certain`: the target is at temperature 0.
    """
    target_table = certain_table if certain else dense_table
    wide = [
        widened(instance, size)
        for instance in seeded_instances("narrow", target_table, dense_table)
        for size in FAMILIES["wide"][instance.k - 1]
    ]
    return smallest_first([*wide, *seeded_instances("long", target_table)])


def widened(instance: Instance, size: int) -> Instance:
    """Returns an instance with more ids, whose distributions are the same after each prefix of any kind.

    The ids that there were are spread over the larger vocabulary; the others have probability 0. Only the
    first distribution of each table is kept, so that tables stay small.
    """
    step = size // instance.vocab_size

    def widen(table: Table) -> Table:
        row: list[Any] = [0] * size
        row[step - 1 :: step] = table[0]
        return (tuple(row),)

    return replace(instance, p=tuple(map(widen, instance.p)), q=tuple(map(widen, instance.q)))


@cache
def tree_instances(*choices: str, certain: bool = False) -> tuple[Instance, ...]:
    """Returns 140 instances of trees, the smallest first: several candidates, and branches up to 3 deep.

    Candidates of one position are chosen in these ways of `CHOICES`; by default in all of them. `certain`:
    the target is at temperature 0; then there are about 90.
    """
    target_table = certain_table if certain else dense_table
    pairs = [] if certain else list(product(listed("two_candidates"), repeat=2))
    family: list[Instance] = []
    for choice in choices or CHOICES:
        family += [Instance(((p,), (p,)), ((q,),), (), (0, 0), choice) for p, q in pairs]
        family += seeded_instances("trees", target_table, dense_table, choice)
    return smallest_first(family)


def smallest_first(family: Iterable[Instance]) -> tuple[Instance, ...]:
    """Returns instances by size, each once."""
    return tuple(sorted(dict.fromkeys(family), key=lambda instance: instance.size))


def nearly_equal_or_certain() -> Iterator[tuple[TableRow, TableRow]]:
    """Yields pairs p, q that are almost certain, or equal but for rounding."""
    half = fractions(1, 1)
    for sure in (fractions(999_999, 1), (1 - 1e-12, 1e-12)):
        unsure = sure[::-1]
        yield from ((sure, unsure), (unsure, sure), (half, sure), (sure, half), (sure, sure))
    for p in map(tuple, FAMILIES["nearly_equal"]):
        yield p, tuple(prob * (1 + UNEQUAL) for prob in p)  # p < q everywhere: the residual is empty


def mixed_table(rows: int, size: int, seed: int, weights: str = "sparse") -> Table:
    """Returns distributions of such weights in instances.toml: [rows, size]."""
    faces = FAMILIES[weights]
    chosen = [faces[number] for number in hashed_integers(rows * size, len(faces), seed)]
    chunks = torch.tensor(chosen).view(rows, size).tolist()
    return tuple(fractions(*(chunk if any(chunk) else [1, *chunk[1:]])) for chunk in chunks)


dense_table = partial(mixed_table, weights="dense")  # with few zeros


def seeded_instances(
    shapes: str,
    target_table: TableMaker,
    free_table: TableMaker = mixed_table,
    choice: str = "with replacement",
) -> Iterator[Instance]:
    """Yields instances of some shapes in instances.toml, a pure function of a counter.

    Tables are made by (rows, V, seed) -> table; the draft's by `free_table`, or like the target's.
    """
    for parents, size, plain, ragged in FAMILIES[shapes]:
        k = len(parents)
        depth = depths_of(parents)[-1]
        for number in range(plain + ragged):
            seed = 1_000_000 * k + 10_000 * size + 100 * number
            p = tuple(target_table(size**i, size, seed + 2 * i) for i in range(depth + 1))
            free = [free_table(size**i, size, seed + 2 * i + 1) for i in range(depth)]
            q = tuple(draft_table(p[i], free[i], seed + i) for i in range(depth))
            lengths = tuple(range(number % 2, k + 1))[: k + number % 3] if number >= plain else ()
            yield Instance(p, q, (0, k) if len(lengths) == 1 else lengths, tuple(parents), choice)


def certain_table(rows: int, size: int, seed: int) -> Table:
    """Returns one-hot distributions: [rows, size]."""
    return tuple(
        fractions(*(int(i == best) for i in range(size))) for best in hashed_integers(rows, size, seed)
    )


def draft_table(target: Table, free: Table, seed: int) -> Table:
    """Returns draft distributions for target ones: some equal, some disjoint, most free."""
    dists = []
    for relation, p, q in zip(hashed_integers(len(target), 6, seed), target, free, strict=True):
        mass_outside = sum(b for a, b in zip(p, q, strict=True) if not a)
        if relation == 0:
            q = p
        elif relation == 1 and mass_outside:
            q = tuple(0 * b if a else b / mass_outside for a, b in zip(p, q, strict=True))
        dists.append(q)
    return tuple(dists)


def hashed_integers(count: int, sides: int, seed: int) -> list[int]:
    """Returns numbers from 0 to sides − 1 that look random and are the same on every machine: [count]."""
    return (scramble(scramble(torch.arange(count)) + seed) >> 17).remainder(sides).tolist()
