"""A tree of candidates: where the draft is in doubt, it proposes more than one token.

A chain of K tokens ends at its first rejection. A tree with as many tokens has second and third candidates at
the positions that matter most, and the target reads all of it in the same forward. The draft grows it level
by level: all tokens of one depth are read at once, each seeing its own ancestors only.

How candidates of one position are chosen is a function. It returns the distribution that the next one is
drawn from, given those before it; a verifier needs no more than that (`verifiers/tree.py`). For some it must
be the same for all of them: `Verifier.candidates`.
"""

from collections.abc import Sequence
from heapq import heappop, heappush

import torch
from torch import Tensor

from minispec.core.batch import Prompts
from minispec.core.draft import ModelDrafter, lags_behind
from minispec.core.model import LanguageModel, Tree
from minispec.core.records import Draft, Round
from minispec.core.rng import RoundRng
from minispec.core.warp import Warp, one_hot
from minispec.drafters.chain import Choice, checked_parents, depths_of, draw_tree
from minispec.drafters.entry import NODES, DrafterEntry, Parts

READS_TREES = "the tree drafter needs a target that reads trees: with --exact there is none"
MOST_NODES = 4096  # of a tree: each token sees or does not see each other one
RATES = (0.8, 0.1, 0.04)  # assumed: how often a position's first, second, third candidate is the one kept


def with_replacement(q: Tensor, logits: Tensor, chosen: Tensor) -> Tensor:
    """Draws from q [M, V] every time; the same token may come twice (Miao et al. 2024, SpecInfer)."""
    return q


def without_replacement(q: Tensor, logits: Tensor, chosen: Tensor) -> Tensor:
    """Draws from what q [M, V] has left without the earlier candidates (Jeon et al. 2024, RSD).

    Where nothing is left, as at temperature 0, the most probable of the other tokens comes.
    """
    rest = q.masked_fill(chosen, 0)
    mass = rest.sum(-1, keepdim=True)
    tiny = torch.finfo(q.dtype).tiny
    return torch.where(mass > 0, rest / mass.clamp(min=tiny), most_probable(q, logits, chosen))


def most_probable(q: Tensor, logits: Tensor, chosen: Tensor) -> Tensor:
    """Takes the most probable token that was not chosen yet: all mass is on it, [M, V]."""
    return one_hot(logits.masked_fill(chosen, -torch.inf).argmax(-1), q.shape[1], q.dtype)


def greedy_drafting(candidates: int) -> Choice:
    """Returns the choice whose candidates, so many, are accepted most often (Hu et al. 2025).

    The first is drawn from what q [M, V] has left without the k − 1 most probable tokens; these come after
    it. With `verify_tree` one of them is kept with their probability under p, and Σ min(p, q) outside.
    """

    def choice(q: Tensor, logits: Tensor, chosen: Tensor) -> Tensor:
        top = torch.zeros_like(chosen)
        for _ in range(candidates - 1):
            top = top | (most_probable(q, logits, top) > 0)
        first = ~chosen.any(-1, keepdim=True)
        later = most_probable(q, logits, chosen)
        return torch.where(first, without_replacement(q, logits, top), later)

    return choice


def grow(rates: Sequence[Sequence[float]], nodes: int) -> tuple[list[int], list[int]]:
    """Returns the tree whose tokens are most often kept, if candidates are kept independently.

    Of all trees with so many tokens it has the largest sum of path probabilities, hence the most accepted
    tokens: what Sequoia finds by dynamic programming (Chen et al. 2024, section 3.1), best first.

    Args:
        rates: at each depth, how often the first, second, … candidate of a position is kept, descending.
        nodes: how many tokens.

    Returns:
        Of each token its parent, 0 for the pending one or i + 1 for token i, and which candidate it is; level
        by level.

    Raises:
        ValueError: if there is no depth, no token, or more than `MOST_NODES`.
    """
    if not rates or not 1 <= nodes <= MOST_NODES:
        wrong = f"{nodes:,} tokens and a depth of {len(rates):,}"
        raise ValueError(f"a tree has 1 to {MOST_NODES:,} tokens and is at least 1 deep, not {wrong}")
    # Likeliest first, then the one found first: (−probability, order, path, its parent's probability).
    heap: list[tuple[float, int, tuple[int, ...], float]] = [(-rates[0][0], 0, (0,), 1.0)]
    paths: list[tuple[int, ...]] = []
    while heap and len(paths) < nodes:
        prob, _, path, parent_prob = heappop(heap)
        paths.append(path)
        depth = len(path)
        rank = path[-1]
        if rank + 1 < len(rates[depth - 1]):
            sibling = -parent_prob * rates[depth - 1][rank + 1]
            heappush(heap, (sibling, 2 * len(paths), (*path[:-1], rank + 1), parent_prob))
        if depth < len(rates):
            heappush(heap, (prob * rates[depth][0], 2 * len(paths) + 1, (*path, 0), -prob))
    paths.sort(key=lambda path: (len(path), path))
    places: dict[tuple[int, ...], int] = {(): 0} | {path: i + 1 for i, path in enumerate(paths)}
    return [places[path[:-1]] for path in paths], [path[-1] for path in paths]


def common_tree(nodes: int, depth: int | None = None, rates: Sequence[float] = RATES) -> list[int]:
    """Returns the parents of the tree that is best if all levels have these rates; at most `depth` deep."""
    levels = min(nodes, MOST_NODES, nodes if depth is None else depth)
    return grow([rates] * levels, nodes)[0]


class TreeDrafter(ModelDrafter):
    """A draft model that proposes a tree of candidates, whose shape is fixed."""

    def __init__(
        self,
        model: LanguageModel,
        parents: Sequence[int],
        choice: Choice = without_replacement,
        warp: Warp | None = None,
    ) -> None:
        """Makes a drafter.

        Args:
            model: the draft model; it must have the target's vocabulary.
            parents: the shape, as in a `Draft`: of each token its parent, ascending.
            choice: how candidates of one position are chosen; `verify_tree` takes them all, and
                `verify_k_sequential` those of `with_replacement`.
            warp: how to warp the draft's logits; None: like the target's. Any is lossless.

        Raises:
            ValueError: if these are not the parents of a tree, or the context has no space for so many.
        """
        super().__init__(model, warp)
        self.choice = choice
        self.parents = checked_parents(parents, self.max_length)
        self._depths = depths_of(parents)
        shape = torch.tensor([self.parents], dtype=torch.long, device=model.device)
        self._tree = Tree.after(torch.tensor([0]), shape)
        self._read: list[int] = []  # in this round, which have been read: 0 the pending one, i + 1 token i

    def start(self, prompts: Prompts, hidden: Tensor) -> None:
        """Reads all prompts but their last tokens into a new cache; hidden [B, n, D] is not used."""
        super().start(prompts, hidden)
        self._read = []  # the last run may have ended with a draft that its verifier refused

    def propose(self, pending: Tensor, k: int, warp: Warp, rng: RoundRng) -> Draft:
        """Proposes the tree, at most k deep, to follow the pending tokens [B]; rng draws the candidates."""
        lengths = self.cache.lengths.to(pending.device)[:, None]
        space = self.max_length - 1 - lengths[:, 0]  # [B]; what a row decides depends on its own alone
        size = self.size(k, int(space.max()))

        def read(tokens: Tensor, at: Sequence[int]) -> Tensor:
            self._read += at
            mask = self._tree.mask[:, at][:, :, self._read].expand(len(tokens), -1, -1)
            here = Tree(lengths + self._tree.positions[:, at], mask)
            return self.model.head(self.model.hidden(tokens[:, at], self.cache, here))

        return draw_tree(read, pending, self.parents[:size], space, self.choice, self.warp or warp, rng)

    def size(self, k: int, space: int) -> int:
        """Returns how many of its tokens are at most k deep, and fit a space."""
        return min(sum(0 < depth <= k for depth in self._depths), space)

    def commit(self, round: Round) -> None:
        """Keeps of the cache the accepted path, and reads its last token, if that was a leaf."""
        slots = []
        for row, path in enumerate(round.verdict.kept()):
            before = round.lengths[row] - len(round.emitted[row])
            accepted = [0, *(i + 1 for i in path)]
            slots.append([*range(before), *(before + n for n, i in enumerate(self._read) if i in accepted)])
        self.cache.gather(slots)
        self._read = []
        if lags_behind(self.cache, round):
            last = round.verdict.last.to(round.block.device)[:, None]
            self.model.hidden(round.block.gather(1, last).to(self.model.device), self.cache)
        self.cache.truncate(round.lengths)


def tree_of(parts: Parts, k: int) -> TreeDrafter:
    """Returns a drafter of the tree that is usually best, k deep; ValueError if the target reads no trees."""
    parts.plain_target(READS_TREES)
    return TreeDrafter(parts.draft, common_tree(NODES, k), warp=parts.warp)


TREE = DrafterEntry("tree", tree_of, uses_draft_model=True, proposes_trees=True)
