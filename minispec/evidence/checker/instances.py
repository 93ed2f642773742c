"""Small instances to try a rule on: few ids, few drafted tokens, probabilities written as fractions.

An accept rule never sees a model, only numbers. So an instance is a handful of distributions: the target's
after every prefix, and the draft's. A wrong rule is wrong on an instance of a few lines, and the smallest one
is the best explanation. The instances here have what rules fail on: zeros, ties, p = q, p = q but for
rounding, disjoint supports, near certainty, distributions that depend on the prefix, rows of several lengths.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

import torch
from torch import Tensor

from minispec.core.records import Draft
from minispec.rules.coupled import scramble

Probability = Fraction | float
TableRow = tuple[Probability, ...]
Table = tuple[TableRow, ...]

ROUNDING = 1e-9  # a distribution given as floats may miss a sum of 1 by this
WEIGHTS = (0, 0, 1, 1, 2, 3)  # distributions made of these often have zeros and ties
# K, V, how many instances with rows of one length, how many with rows of several.
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


@dataclass(frozen=True)
class PossibleDrafts:
    """Every draft of an instance that has a probability above 0, as a row that a rule can be given.

    Attributes:
        tokens: [S, K] int64; what stands after a row's length is padding.
        probs: [S, K, V] float64.
        lengths: [S] int64.
        target_probs: [S, K+1, V] float64.
        prefixes: [S, K+1] int64: the first i drafted tokens, read as a number in base V.
        weights: [S] float64, the probability of each draft; the sum is 1.
    """

    tokens: Tensor
    probs: Tensor
    lengths: Tensor
    target_probs: Tensor
    prefixes: Tensor
    weights: Tensor

    def __len__(self) -> int:
        return self.tokens.shape[0]

    def draft(self, rows: Tensor) -> Draft:
        """Returns a fresh copy of some rows, [B] of them, as a drafter would hand them over."""
        return Draft(self.tokens[rows], self.probs[rows], self.lengths[rows])


@dataclass(frozen=True)
class Instance:
    """What a rule is tried on.

    Attributes:
        p: K+1 tables of the target. Table i has the distributions of token i: one, if it is the same after
            every prefix, or one for each of the V^i prefixes, in the order in which `product` counts them.
        q: K tables of the draft.
        lengths: how many tokens a row proposes. Several numbers: a batch has rows of each of these lengths,
            equally often. By default all rows propose K.

    Raises:
        ValueError: if tables do not fit together, or something is not a distribution.
    """

    p: tuple[Table, ...]
    q: tuple[Table, ...]
    lengths: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.lengths:
            object.__setattr__(self, "lengths", (self.k,))
        if len(self.p) != self.k + 1:
            raise ValueError(f"{self.k} draft tables need {self.k + 1} of the target, not {len(self.p)}")
        if len(set(self.lengths)) < len(self.lengths) or not all(0 <= n <= self.k for n in self.lengths):
            raise ValueError(f"lengths must be different numbers from 0 to {self.k}, not {self.lengths}")
        for tables in (self.p, self.q):
            for position, table in enumerate(tables):
                if len(table) not in (1, self.vocab_size**position):
                    raise ValueError(f"table {position} needs one distribution, or one per prefix")
                for dist in table:
                    if len(dist) != self.vocab_size or min(dist) < 0 or abs(float(sum(dist)) - 1) > ROUNDING:
                        raise ValueError(f"{dist} is no distribution over {self.vocab_size} ids")

    @property
    def k(self) -> int:
        """How wide the draft is."""
        return len(self.q)

    @property
    def vocab_size(self) -> int:
        """How many ids there are."""
        return len(self.p[0][0])

    @property
    def size(self) -> tuple[int, ...]:
        """K, V, lengths of rows, different distributions (of p and q, of p), distributions, denominator."""
        of_p = {dist for table in self.p for dist in table}
        dists = [dist for table in (*self.p, *self.q) for dist in table]
        denominator = max(Fraction(prob).denominator for dist in dists for prob in dist)
        lengths = 0 if self.lengths == (self.k,) else len(self.lengths)
        return (self.k, self.vocab_size, lengths, len(set(dists)), len(of_p), len(dists), denominator)

    def target(self, position: int) -> Tensor:
        """Returns the target's distribution of a token after every prefix: [V^position, V] float64."""
        table = torch.tensor([as_floats(dist) for dist in self.p[position]], dtype=torch.float64)
        return table.expand(self.vocab_size**position, -1)

    def longer(self, texts: Tensor, position: int) -> Tensor:
        """Lets the target add its token `position` to a distribution of texts: [V^i] -> [V^(i+1)]."""
        return (texts[:, None] * self.target(position)).flatten()

    def distribution(self) -> Tensor:
        """Returns the joint distribution of the target's n+1 tokens, for each length n in turn.

        All lengths are equally likely, so the sum over everything is 1.

        Returns:
            [N] float64, N = the number of texts of all lengths.
        """
        parts = []
        for n in self.lengths:
            texts = torch.full((1,), 1 / len(self.lengths), dtype=torch.float64)
            for position in range(n + 1):
                texts = self.longer(texts, position)
            parts.append(texts)
        return torch.cat(parts)

    def texts(self) -> list[tuple[int, ...]]:
        """Returns the texts whose probabilities `distribution` holds, in its order."""
        ids = range(self.vocab_size)
        return [text for n in self.lengths for text in product(ids, repeat=n + 1)]

    def drafts(self) -> PossibleDrafts:
        """Returns every draft that has a probability above 0, ready for a rule."""
        size, k = self.vocab_size, self.k
        columns = zip(*(row for n in self.lengths for row in self._rows(n)), strict=True)
        tokens, probs, lengths, target_probs, prefixes, weights = (list(column) for column in columns)
        return PossibleDrafts(
            torch.tensor(tokens, dtype=torch.long),
            torch.tensor(probs, dtype=torch.float64).reshape(len(probs), k, size),
            torch.tensor(lengths),
            torch.tensor(target_probs, dtype=torch.float64),
            torch.tensor(prefixes),
            torch.tensor(weights, dtype=torch.float64),
        )

    def _rows(self, n: int) -> Iterator[tuple[Any, ...]]:
        """Yields the rows of `PossibleDrafts` that propose n tokens, padded to K."""
        pad = self.k - n
        uniform = [[1 / self.vocab_size] * self.vocab_size] * pad  # a trap: any rule accepts such padding
        for tokens in product(range(self.vocab_size), repeat=n):
            numbers = [self._number(tokens[:i]) for i in range(n + 1)]
            p, q = (
                [
                    as_floats(table[number % len(table)])
                    for table, number in zip(tables, numbers, strict=False)
                ]
                for tables in (self.p, self.q[:n])
            )
            weight = prod(dist[token] for dist, token in zip(q, tokens, strict=True)) / len(self.lengths)
            if weight > 0:
                yield [*tokens] + [0] * pad, q + uniform, n, p + uniform, numbers + [0] * pad, weight

    def _number(self, text: Sequence[int]) -> int:
        """Reads a text as a number in base V."""
        return sum(token * self.vocab_size**i for i, token in enumerate(reversed(text)))


def as_floats(dist: TableRow) -> list[float]:
    """Returns a distribution as floats."""
    return [float(prob) for prob in dist]


def fractions(*weights: int) -> TableRow:
    """Returns the distribution with these weights."""
    return tuple(Fraction(weight, sum(weights)) for weight in weights)


def one_token(p: TableRow, q: TableRow, after: TableRow | None = None) -> Instance:
    """Returns an instance of one drafted token: p and q for it, and `after` (by default p) for the next."""
    return Instance(((p,), (after or p,)), ((q,),))


def standard_instances() -> tuple[Instance, ...]:
    """Returns about 300 instances, the smallest first.

    Some are listed: all distributions of halves over two ids, many of thirds over two and three, p = q, p = q
    but for rounding (where a rejection leaves no residual), disjoint supports, near certainty. The others are
    seeded, with distributions that differ after every prefix, up to K = 4 and V = 5.
    """
    halves = [fractions(1, 0), fractions(0, 1), fractions(1, 1)]
    thirds = [fractions(1, 2), fractions(2, 1)]
    of_three = [(1, 0, 0), (0, 0, 1), (1, 1, 0), (0, 1, 1), (1, 1, 1), (1, 2, 0), (2, 0, 1)]
    family = [Instance(((p,),), ()) for p in (*halves, *thirds, fractions(1, 2, 3))]
    family += [one_token(p, q, after) for p, after, q in product(halves, repeat=3)]
    family += [
        one_token(p, q, after) for p, q in product(halves + thirds, repeat=2) for after in (p, p[::-1])
    ]
    family += [one_token(fractions(*p), fractions(*q)) for p, q in product(of_three, repeat=2)]
    family += [one_token(fractions(3, 2, 1), fractions(1, 1, 4))]
    family += [one_token(p, q) for p, q in nearly_equal_or_certain()]
    family += [Instance(((p,),) * (k + 1), ((q,),) * k) for k in (2, 3) for p, q in product(halves, repeat=2)]
    family += seeded_instances(mixed_table)
    return tuple(sorted(dict.fromkeys(family), key=lambda instance: instance.size))


def greedy_instances() -> tuple[Instance, ...]:
    """Returns about 180 instances at temperature 0, the smallest first: the target is always certain.

    What a greedy rule has to do is then what every rule has to: emit the target's text.
    """
    certain = [fractions(1, 0), fractions(0, 1)]
    drafts = [*certain, fractions(1, 1), fractions(1, 2), fractions(2, 1)]
    family = [Instance(((p,),), ()) for p in certain]
    family += [one_token(p, q, after) for p, after, q in product(certain, certain, drafts)]
    family += seeded_instances(certain_table)
    return tuple(sorted(dict.fromkeys(family), key=lambda instance: instance.size))


def nearly_equal_or_certain() -> Iterator[tuple[TableRow, TableRow]]:
    """Yields pairs p, q that are almost certain, or equal but for rounding."""
    half = fractions(1, 1)
    for rare in (Fraction(1, 10**6), 1e-12):
        sure, unsure = (1 - rare, rare), (rare, 1 - rare)
        yield from ((sure, unsure), (unsure, sure), (half, sure), (sure, half), (sure, sure))
    for p in ((0.5, 0.5), (0.25, 0.75), (0.25, 0.25, 0.5)):
        yield p, tuple(prob * (1 + 2**-52) for prob in p)  # p < q everywhere: the residual is empty


def seeded_instances(target_table: Callable[[int, int, int], Table]) -> Iterator[Instance]:
    """Yields instances of the sizes of `SEEDED`, a pure function of a counter.

    Args:
        target_table: makes the target's tables: (rows, V, seed) -> table.
    """
    for k, size, plain, ragged in SEEDED:
        for number in range(plain + ragged):
            seed = 1_000_000 * k + 10_000 * size + 100 * number
            p = tuple(target_table(size**i, size, seed + 2 * i) for i in range(k + 1))
            free = [mixed_table(size**i, size, seed + 2 * i + 1) for i in range(k)]
            q = tuple(draft_table(p[i], free[i], seed + i) for i in range(k))
            lengths = tuple(range(number % 2, k + 1))[: k + number % 3] if number >= plain else ()
            yield Instance(p, q, (0, k) if len(lengths) == 1 else lengths)


def mixed_table(rows: int, size: int, seed: int) -> Table:
    """Returns distributions of small weights, often with zeros and ties: [rows, size]."""
    chosen = [WEIGHTS[number] for number in dice(rows * size, len(WEIGHTS), seed)]
    chunks = [chosen[row * size : (row + 1) * size] for row in range(rows)]
    return tuple(fractions(*(chunk if any(chunk) else [1, *chunk[1:]])) for chunk in chunks)


def certain_table(rows: int, size: int, seed: int) -> Table:
    """Returns one-hot distributions: [rows, size]."""
    return tuple(fractions(*(int(i == best) for i in range(size))) for best in dice(rows, size, seed))


def draft_table(target: Table, free: Table, seed: int) -> Table:
    """Returns draft distributions for target ones: some equal, some disjoint, most free."""
    dists = []
    for relation, p, q in zip(dice(len(target), 6, seed), target, free, strict=True):
        elsewhere = sum(b for a, b in zip(p, q, strict=True) if not a)
        if relation == 0:
            q = p
        elif relation == 1 and elsewhere:
            q = tuple(0 * b if a else b / elsewhere for a, b in zip(p, q, strict=True))
        dists.append(q)
    return tuple(dists)


def dice(count: int, sides: int, seed: int) -> list[int]:
    """Returns numbers from 0 to sides − 1 that look random and are the same on every machine: [count]."""
    return (scramble(scramble(torch.arange(count)) + seed) >> 17).remainder(sides).tolist()
