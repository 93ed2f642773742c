"""What a rule is tried on: the target's distributions, the draft's, and every draft that there can be.

An acceptance rule never sees a model, only numbers. So an instance is a handful of distributions: those of
the target after every prefix, and those of the draft. What is drafted is a tree of candidates; a chain is the
tree with one branch.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain, product

import torch
from torch import Tensor

from minispec.core.records import PARENTS_ORDER, Draft, are_parents
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
    """Drafts with their probabilities [S], as rows that a rule can be given."""

    draft: Draft  #: of S rows; what stands after a row's length is padding
    target_probs: Tensor  #: [S, K+1, V] float64
    prefixes: Tensor  #: [S, K+1] int64: the text up to the pending token and to each other, in base V
    weights: Tensor  #: [S] float64, the probability of each draft

    def __len__(self) -> int:
        return len(self.weights)

    def rows(self, rows: Tensor) -> tuple[Draft, Tensor]:
        """Returns some rows [B] as a rule is given them, draft and target_probs: fresh copies."""
        drafts = self.draft
        parents = None if drafts.parents is None else drafts.parents[rows]
        draft = Draft(drafts.tokens[rows], drafts.probs[rows], drafts.lengths[rows], parents)
        return draft, self.target_probs[rows]


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
        depth = len(self.q)
        if self.choice not in CHOICES:
            raise ValueError(f"candidates are chosen in a way of {', '.join(CHOICES)}, not {self.choice}")
        if len(self.p) != depth + 1:
            raise ValueError(f"{depth} draft tables need {depth + 1} of the target, not {len(self.p)}")
        tree = torch.tensor([self.parents], dtype=torch.long)
        if not are_parents(tree) or self.depths[self.k] != depth:
            raise ValueError(f"{PARENTS_ORDER}; and the tree must be {depth} deep")
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
        """At which depth the pending token stands, 0, and each other; they come level by level."""
        return depths_of(self.parents)

    @property
    def size(self) -> tuple[int, ...]:
        """K, V, lengths of rows, different distributions (of p and q, of p), distributions, denominator."""
        dists = [*chain(*self.p, *self.q)]
        denominator = max(Fraction(prob).denominator for dist in dists for prob in dist)
        lengths = 0 if self.lengths == (self.k,) else len(self.lengths)
        return (
            self.k,
            self.vocab_size,
            lengths,
            len(set(dists)),
            len(set(chain(*self.p))),
            len(dists),
            denominator,
        )

    def distribution(self) -> Tensor:
        """Returns the joint distribution of the target's d+1 tokens, d being each length's depth in turn.

        All lengths are equally likely, so the sum over all N texts of all lengths is 1: [N] float64.
        """
        first = self._after_prefixes(self.p)[0][0] / len(self.lengths)
        return self.continue_texts(lambda length, position: torch.zeros(()) if position else first)

    def continue_texts(self, ending_probs: Callable[[int, int], Tensor]) -> Tensor:
        """Lets the target go on with texts until they are as long as those of `distribution`: [N] float64.

        ending_probs: (length of the row, i) -> probabilities of texts that end with i + 1 tokens, [V^(i+1)].
        """
        parts = []
        for n in self.lengths:
            texts = torch.zeros(1, dtype=torch.float64)
            for position, dists in enumerate(self._after_prefixes(self.p[: self.depths[n] + 1])):
                texts = (texts[:, None] * dists).flatten()
                texts = texts + ending_probs(n, position)
            parts.append(texts)
        return torch.cat(parts)

    def texts(self) -> Iterator[tuple[int, ...]]:
        """Yields the texts in the order in which `distribution` has their probabilities."""
        for n in self.lengths:
            yield from product(range(self.vocab_size), repeat=self.depths[n] + 1)

    def drafts(self) -> PossibleDrafts:
        """Returns every draft that has a probability above 0, ready for a rule; the sum of these is 1."""
        p = self._after_prefixes(self.p)
        q = self._after_prefixes(self.q)
        drafts = possible_drafts(p, q, self.parents, self.choice, self.lengths)
        return replace(drafts, weights=drafts.weights / drafts.weights.sum())

    def _after_prefixes(self, tables: Sequence[Table]) -> list[Tensor]:
        """Returns for each position i the distribution after every prefix: [V^i, V] float64."""
        rows = (
            torch.tensor([[*map(float, dist)] for dist in table], dtype=torch.float64) for table in tables
        )
        return [row.expand(self.vocab_size**position, -1) for position, row in enumerate(rows)]


def possible_drafts(
    p: Sequence[Tensor], q: Sequence[Tensor], parents: Sequence[int], choice: str, lengths: Sequence[int]
) -> PossibleDrafts:
    """Returns every draft that has a probability above 0, after each of N texts.

    Of the i-th token p and q hold the distributions after every text of the tokens before it, [N·V^i, V]. The
    other arguments are those of an `Instance`.
    """
    columns = zip(*(_proposing(p, q, parents, choice, n) for n in lengths), strict=True)
    tokens, probs, proposed, *others = map(torch.cat, columns)
    is_chain = list(parents) == list(range(len(parents)))
    shape = None if is_chain else torch.tensor([parents]).expand(len(tokens), -1)
    return PossibleDrafts(Draft(tokens, probs, proposed, shape), *others)


def _proposing(
    p: Sequence[Tensor], q: Sequence[Tensor], parents: Sequence[int], choice: str, n: int
) -> tuple[Tensor, ...]:
    """Returns the columns of `PossibleDrafts`, of rows that propose n tokens, padded to K."""
    count, size = p[0].shape
    k = len(parents)
    depths = depths_of(parents)
    # A trap: any rule accepts such padding.
    uniform = torch.full((count, k + 1, size), 1 / size, dtype=torch.float64)
    tokens = torch.zeros(count, k, dtype=torch.long)
    prefixes = torch.zeros(count, k + 1, dtype=torch.long)
    prefixes[:, 0] = torch.arange(count)
    probs = uniform[:, :k]
    weights = uniform.new_ones(count)
    for i, parent in enumerate(parents[:n]):
        siblings = [j for j in range(i) if parents[j] == parent]
        chosen = torch.zeros(len(tokens), size, dtype=torch.bool).scatter(1, tokens[:, siblings], True)
        proposal = q[depths[parent]][prefixes[:, parent]]
        choose = CHOICES[choice](parents.count(parent))
        dist = choose(proposal, proposal, chosen)  # [S, V]; q orders the tokens as logits would
        rows, token = (dist > 0).nonzero(as_tuple=True)
        weights = weights[rows] * dist[rows, token]
        tokens = tokens[rows]
        prefixes = prefixes[rows]
        probs = probs[rows]
        tokens[:, i] = token
        prefixes[:, i + 1] = prefixes[:, parent] * size + token
        probs[:, i] = dist[rows]
    target_probs = uniform[:1].repeat(len(tokens), 1, 1)
    for i in range(n + 1):
        target_probs[:, i] = p[depths[i]][prefixes[:, i]]
    return tokens, probs, torch.full((len(tokens),), n), target_probs, prefixes, weights
