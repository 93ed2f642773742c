"""Small worlds for a rule to fail in: few ids, few drafted tokens, laws written as fractions.

An accept rule never sees a model, only numbers. So a complete world for it is a handful of laws: what the
target would say after every prefix, and what the draft would. If a rule is wrong, it is wrong in a world that
fits on a few lines, and the smallest one is the best explanation.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import torch
from torch import Tensor

from minispec.core.records import Draft

Chance = Fraction | float
Law = tuple[Chance, ...]
Table = tuple[Law, ...]

ROUNDING = 1e-9  # laws given as floats may miss a sum of 1 by this


@dataclass(frozen=True)
class Rows:
    """Every row that a rule can be handed in an instance: one per draft that has a chance.

    Attributes:
        tokens: [S, K] int64; what stands behind a row's length is padding.
        probs: [S, K, V] float64.
        lengths: [S] int64.
        target_probs: [S, K+1, V] float64.
        prefixes: [S, K+1] int64: the first i drafted tokens, read as a number in base V.
        chances: [S] float64, how likely each is; the sum is 1.
    """

    tokens: Tensor
    probs: Tensor
    lengths: Tensor
    target_probs: Tensor
    prefixes: Tensor
    chances: Tensor

    def __len__(self) -> int:
        return self.tokens.shape[0]

    def draft(self, starts: Tensor) -> Draft:
        """Returns a fresh copy of some rows, [B] of them, as a drafter would hand them over."""
        return Draft(self.tokens[starts], self.probs[starts], self.lengths[starts])


@dataclass(frozen=True)
class Instance:
    """What a rule is tried on.

    Attributes:
        p: K+1 tables of the target. Table i has the laws of token i: one law, if it is the same after every
            prefix, or one for each of the V^i prefixes, in the order in which `product` counts them.
        q: K tables of the draft.
        lengths: how many tokens a row proposes. Several numbers: rows of each kind stand side by side in a
            batch, all kinds equally often. By default all rows propose K.

    Raises:
        ValueError: if tables do not fit together, or something is not a law.
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
            for place, table in enumerate(tables):
                if len(table) not in (1, self.vocab_size**place):
                    raise ValueError(f"table {place} has {len(table)} laws, one per prefix is needed, or one")
                for law in table:
                    if len(law) != self.vocab_size or min(law) < 0 or abs(float(sum(law)) - 1) > ROUNDING:
                        raise ValueError(f"{law} is no law over {self.vocab_size} ids")

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
        """What makes one small: K, V, kinds of rows, different laws (of both, of p), laws, denominator."""
        mine = {law for table in self.p for law in table}
        laws = [law for table in (*self.p, *self.q) for law in table]
        denominator = max(Fraction(chance).denominator for law in laws for chance in law)
        kinds = 0 if self.lengths == (self.k,) else len(self.lengths)
        return (self.k, self.vocab_size, kinds, len(set(laws)), len(mine), len(laws), denominator)

    def target(self, place: int) -> Tensor:
        """Returns the target's law of token `place` after every prefix: [V^place, V] float64."""
        return as_tensor(self.p[place], self.vocab_size**place)

    def law(self) -> Tensor:
        """Returns what the target alone says: the joint law of n+1 tokens for each length n, in a row.

        All kinds of rows are equally likely, so the sum over everything is 1.

        Returns:
            [N] float64, N = the number of lengths' texts together.
        """
        parts = []
        for n in self.lengths:
            law = torch.full((1,), 1 / len(self.lengths), dtype=torch.float64)
            for place in range(n + 1):
                law = go_on(law, self.target(place))
            parts.append(law)
        return torch.cat(parts)

    def texts(self) -> list[tuple[int, ...]]:
        """Returns the texts whose chances `law` holds, in its order."""
        ids = range(self.vocab_size)
        return [text for n in self.lengths for text in product(ids, repeat=n + 1)]

    def rows(self) -> Rows:
        """Returns every draft that has a chance, ready for a rule."""
        parts = [self._rows(n) for n in self.lengths]
        return Rows(*(torch.cat(columns) for columns in zip(*parts, strict=True)))

    def _rows(self, n: int) -> tuple[Tensor, ...]:
        """Returns the columns of `Rows` for rows that propose n tokens."""
        size, k = self.vocab_size, self.k
        number = torch.arange(size**n)  # a draft, read as a number in base V
        prefixes = [number // size ** (n - i) for i in range(n + 1)]
        tokens = [number // size ** (n - 1 - i) % size for i in range(n)]
        laws = [as_tensor(self.q[i], size**i)[prefixes[i]] for i in range(n)]
        chance = torch.full((size**n,), 1 / len(self.lengths), dtype=torch.float64)
        for token, law in zip(tokens, laws, strict=True):
            chance = chance * law.gather(1, token[:, None])[:, 0]
        # Padding is a trap: it looks like tokens that any rule accepts.
        uniform = torch.full((size**n, size), 1 / size, dtype=torch.float64)
        nothing = torch.zeros_like(number)
        columns = (
            stack(tokens + [nothing] * (k - n), torch.zeros(size**n, 0, dtype=torch.long)),
            stack(laws + [uniform] * (k - n), torch.zeros(size**n, 0, size, dtype=torch.float64)),
            torch.full_like(number, n),
            torch.stack([self.target(i)[prefixes[i]] for i in range(n + 1)] + [uniform] * (k - n), 1),
            torch.stack(prefixes + [nothing] * (k - n), 1),
            chance,
        )
        return tuple(column[chance > 0] for column in columns)


def as_tensor(table: Table, rows: int) -> Tensor:
    """Returns a table as numbers: [rows, V] float64."""
    numbers = [[float(chance) for chance in law] for law in table]
    return torch.tensor(numbers, dtype=torch.float64).expand(rows, -1)


def stack(columns: list[Tensor], empty: Tensor) -> Tensor:
    """Returns columns [R, ...] side by side as [R, n, ...], or `empty` if there are none."""
    return torch.stack(columns, 1) if columns else empty


def go_on(law: Tensor, table: Tensor) -> Tensor:
    """Returns the law of one token more: [V^i], [V^i, V] -> [V^(i+1)]."""
    return (law[:, None] * table).flatten()
