"""What a rule is tried on: the target's distributions, the draft's, and every draft that there can be.

An accept rule never sees a model, only numbers. So an instance is a handful of distributions: the target's
after every prefix, and the draft's. What is drafted is a tree of candidates; a chain is the tree with one
branch.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import torch
from torch import Tensor

from minispec.core.records import ORDER, Draft, are_parents
from minispec.drafters.chain import Choice, depths_of
from minispec.drafters.tree import greedy_drafting, most_probable, with_replacement, without_replacement

Probability = Fraction | float
TableRow = tuple[Probability, ...]
Table = tuple[TableRow, ...]

ROUNDING = 1e-9  # a distribution given as floats may miss a sum of 1 by this
# How the candidates of one position are chosen, as many as are said.
CHOICES: Mapping[str, Callable[[int], Choice]] = {
    "with replacement": lambda candidates: with_replacement,
    "without replacement": lambda candidates: without_replacement,
    "most probable": lambda candidates: most_probable,
    "greedy drafting": greedy_drafting,
}


@dataclass(frozen=True)
class PossibleDrafts:
    """Every draft of an instance that has a probability above 0, as a row that a rule can be given.

    Attributes:
        tokens: [S, K] int64; what stands after a row's length is padding.
        probs: [S, K, V] float64, of each token the distribution that it was drawn from, given those before.
        lengths: [S] int64.
        target_probs: [S, K+1, V] float64.
        prefixes: [S, K+1] int64: the text up to the pending token and to each other, read as a number in
            base V.
        weights: [S] float64, the probability of each draft; the sum is 1.
        parents: [K] int64, in a tree; None: a chain.
    """

    tokens: Tensor
    probs: Tensor
    lengths: Tensor
    target_probs: Tensor
    prefixes: Tensor
    weights: Tensor
    parents: Tensor | None = None

    def __len__(self) -> int:
        return self.tokens.shape[0]

    def draft(self, rows: Tensor) -> Draft:
        """Returns a fresh copy of some rows, [B] of them, as a drafter would hand them over."""
        parents = None if self.parents is None else self.parents.repeat(len(rows), 1)
        return Draft(self.tokens[rows], self.probs[rows], self.lengths[rows], parents)


@dataclass(frozen=True)
class Instance:
    """What a rule is tried on.

    Attributes:
        p: D+1 tables of the target. Table i has the distributions of token i: one, if it is the same after
            every prefix, or one for each of the V^i prefixes, in the order in which `product` counts them.
        q: D tables of the draft.
        lengths: how many tokens a row proposes. Several numbers: a batch has rows of each of these lengths,
            equally often. By default all rows propose K.
        parents: the tree, as in a `Draft`, D deep: of each of K tokens its parent. By default a chain.
        choice: which of `CHOICES` says how candidates of one position come from q.

    Raises:
        ValueError: if tables do not fit together, something is not a distribution, or there is no such tree.
    """

    p: tuple[Table, ...]
    q: tuple[Table, ...]
    lengths: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()
    choice: str = "with replacement"

    def __post_init__(self) -> None:
        object.__setattr__(self, "parents", self.parents or tuple(range(len(self.q))))
        object.__setattr__(self, "lengths", self.lengths or (self.k,))
        if self.choice not in CHOICES:
            raise ValueError(
                f"candidates are chosen in one of the ways {', '.join(CHOICES)}, not {self.choice}"
            )
        if len(self.p) != len(self.q) + 1:
            raise ValueError(
                f"{len(self.q)} draft tables need {len(self.q) + 1} of the target, not {len(self.p)}"
            )
        if not are_parents(torch.tensor([self.parents], dtype=torch.long)) or self.deep(self.k) != len(
            self.q
        ):
            raise ValueError(f"{ORDER}; and the tree must be {len(self.q)} deep")
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
        return len(self.parents)

    @property
    def is_chain(self) -> bool:
        """Whether each token follows the one before it."""
        return self.parents == tuple(range(self.k))

    @property
    def vocab_size(self) -> int:
        """How many ids there are."""
        return len(self.p[0][0])

    @property
    def depths(self) -> list[int]:
        """At which depth the pending token stands, 0, and each other."""
        return depths_of(self.parents)

    @property
    def size(self) -> tuple[int, ...]:
        """K, V, lengths of rows, different distributions (of p and q, of p), distributions, denominator."""
        of_p = {dist for table in self.p for dist in table}
        dists = [dist for table in (*self.p, *self.q) for dist in table]
        denominator = max(Fraction(prob).denominator for dist in dists for prob in dist)
        lengths = 0 if self.lengths == (self.k,) else len(self.lengths)
        return (self.k, self.vocab_size, lengths, len(set(dists)), len(of_p), len(dists), denominator)

    def deep(self, n: int) -> int:
        """How deep the first n tokens of the tree are."""
        return self.depths[n]  # they come level by level

    def target(self, position: int) -> Tensor:
        """Returns the target's distribution of a token after every prefix: [V^position, V] float64."""
        return self._after_prefixes(self.p[position], position)

    def longer(self, texts: Tensor, position: int) -> Tensor:
        """Lets the target add its token `position` to a distribution of texts: [V^i] -> [V^(i+1)]."""
        return (texts[:, None] * self.target(position)).flatten()

    def distribution(self) -> Tensor:
        """Returns the joint distribution of the target's d+1 tokens, d being each length's depth in turn.

        All lengths are equally likely, so the sum over everything is 1.

        Returns:
            [N] float64, N = the number of texts of all lengths.
        """
        parts = []
        for n in self.lengths:
            texts = torch.full((1,), 1 / len(self.lengths), dtype=torch.float64)
            for position in range(self.deep(n) + 1):
                texts = self.longer(texts, position)
            parts.append(texts)
        return torch.cat(parts)

    def texts(self) -> list[tuple[int, ...]]:
        """Returns the texts whose probabilities `distribution` holds, in its order."""
        ids = range(self.vocab_size)
        return [text for n in self.lengths for text in product(ids, repeat=self.deep(n) + 1)]

    def drafts(self) -> PossibleDrafts:
        """Returns every draft that has a probability above 0, ready for a rule."""
        columns = zip(*map(self._proposing, self.lengths), strict=True)
        tokens, probs, lengths, target_probs, prefixes, weights = map(torch.cat, columns)
        parents = None if self.is_chain else torch.tensor(self.parents)
        return PossibleDrafts(
            tokens, probs, lengths, target_probs, prefixes, weights / weights.sum(), parents
        )

    def _proposing(self, n: int) -> tuple[Tensor, ...]:
        """Returns the columns of `PossibleDrafts`, of rows that propose n tokens, padded to K."""
        size, k, depths = self.vocab_size, self.k, self.depths
        # A trap: any rule accepts such padding.
        uniform = torch.full((k + 1, size), 1 / size, dtype=torch.float64)
        tokens, prefixes = torch.zeros(1, k, dtype=torch.long), torch.zeros(1, k + 1, dtype=torch.long)
        probs, target_probs, weights = uniform[None, :k], uniform[None], uniform.new_ones(1)
        for i, parent in enumerate(self.parents[:n]):
            siblings = [j for j in range(i) if self.parents[j] == parent]
            chosen = torch.zeros(len(tokens), size, dtype=torch.bool).scatter(1, tokens[:, siblings], True)
            q = self._after_prefixes(self.q[depths[parent]], depths[parent])[prefixes[:, parent]]
            choose = CHOICES[self.choice](self.parents.count(parent))
            dist = choose(q, q, chosen)  # [S, V]; q orders the tokens as logits would
            rows, token = (dist > 0).nonzero(as_tuple=True)
            weights = weights[rows] * dist[rows, token]
            tokens, prefixes, probs = tokens[rows], prefixes[rows], probs[rows]
            tokens[:, i], prefixes[:, i + 1] = token, prefixes[:, parent] * size + token
            probs[:, i] = dist[rows]
        target_probs = target_probs.repeat(len(tokens), 1, 1)
        for i in range(n + 1):
            target_probs[:, i] = self.target(depths[i])[prefixes[:, i]]
        lengths = torch.full((len(tokens),), n)
        return tokens, probs, lengths, target_probs, prefixes, weights / len(self.lengths)

    def _after_prefixes(self, table: Table, position: int) -> Tensor:
        """Returns a table's distribution after every prefix: [V^position, V] float64."""
        rows = torch.tensor([as_floats(dist) for dist in table], dtype=torch.float64)
        return rows.expand(self.vocab_size**position, -1)


def as_floats(dist: TableRow) -> list[float]:
    """Returns a distribution as floats."""
    return [float(prob) for prob in dist]
