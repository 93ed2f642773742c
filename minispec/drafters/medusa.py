"""Medusa: heads on the target's last hidden state guess several positions at once.

The target's own head predicts what follows the token that it has read last; that token is pending. Head i
predicts what follows i tokens later (Cai et al. 2024, section 2.1). All heads read the same state, so a draft
costs a few matrices and no forward, and no cache. For the same reason head i does not know which tokens the
heads before it have drawn: its distribution is less sharp. It is a proper distribution all the same, and
rejection sampling asks for no more.

A tree on the heads costs no forward either. All tokens of one depth have the same q, so a candidate that
follows the second one of the position before costs nothing more (section 2.1.2). Heads are often in doubt,
and a second and third candidate then help more than a longer chain.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minispec.core.batch import Prompts
from minispec.core.model import LanguageModel
from minispec.core.records import Draft, Round
from minispec.core.rng import RoundRng
from minispec.core.warp import Warp
from minispec.drafters.chain import (
    TargetDrafter,
    check_width,
    checked_parents,
    depths_of,
    draw_tree,
)
from minispec.drafters.entry import NODES, DrafterEntry, Parts
from minispec.drafters.tree import READS_TREES, common_tree, without_replacement

DOUBTFUL = (0.5, 0.15, 0.08, 0.05, 0.03, 0.02)  # assumed: how often a position's candidates are the one kept


class MedusaHead(nn.Module):
    """One head: a residual layer, then a matrix to the vocabulary."""

    def __init__(self, width: int, vocab_size: int) -> None:
        """Makes a head whose residual layer changes nothing yet."""
        super().__init__()
        self.proj = nn.Linear(width, width, bias=False)
        nn.init.zeros_(self.proj.weight)
        self.lm_head = nn.Linear(width, vocab_size, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """Maps hidden states to logits: [..., D] -> [..., V] (Cai et al. 2024, section 2.1.1)."""
        return self.lm_head(hidden + F.silu(self.proj(hidden)))


class Medusa(nn.ModuleList):
    """Heads for the positions after the pending token, nearest first."""

    def __init__(self, width: int, vocab_size: int, heads: int) -> None:
        """Makes so many heads for a target of this width and vocabulary."""
        super().__init__(MedusaHead(width, vocab_size) for _ in range(heads))
        self.width = width
        self.vocab_size = vocab_size

    def forward(self, hidden: Tensor) -> Tensor:
        """Maps hidden states to the logits of all heads: [B, D] -> [B, heads, V]."""
        return torch.stack([head(hidden) for head in self], dim=1)


class Heads(Protocol):
    """Heads of a target, in torch or on another backend.

    Attributes:
        width: D.
        vocab_size: V.
    """

    width: int
    vocab_size: int

    def __len__(self) -> int:
        """How many there are."""

    def __call__(self, hidden: Tensor) -> Tensor:
        """Maps hidden states to the logits of all heads: [B, D] -> [B, heads, V]."""


class MedusaDrafter(TargetDrafter):
    """Drafts with the heads, from the state in which the target has read all but the pending token.

    A prompt of one token has been read by nobody: there the first round drafts nothing.
    """

    cache_lengths: tuple[int, ...] | None = None  # it has none

    def __init__(self, heads: Heads, target: LanguageModel, warp: Warp | None = None) -> None:
        """Makes a drafter of heads that were trained on a target, the one that verifies.

        warp: how to warp the heads' logits; None: like the target's.

        Raises:
            ValueError: if the heads have another vocabulary than the target.
        """
        if heads.vocab_size != target.vocab_size:
            raise ValueError(
                f"the heads know {heads.vocab_size} tokens, the target {target.vocab_size}: "
                f"they were made for another target"
            )
        super().__init__(target, warp)
        self.heads = heads
        self._state = torch.zeros(0, heads.width)  # [B, D]
        self._known = torch.zeros(0, dtype=torch.bool)  # [B], which rows have a state

    def start(self, prompts: Prompts, hidden: Tensor) -> None:
        """Takes each row's state after all of its prompt but the last token; hidden: [B, n, D]."""
        self._state, self._known = self._after(prompts, hidden)

    def admit(self, rows: Sequence[int], prompts: Prompts, hidden: Tensor) -> None:
        """Does so in some rows; hidden: [len(rows), n, D]."""
        states, known = self._after(prompts, hidden)
        self._state[list(rows)] = states.to(self._state)
        self._known[list(rows)] = known

    def _after(self, prompts: Prompts, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the states in which prompts have been read [M, D], and which prompts have one [M]."""
        check_width(hidden.shape[-1], self.heads.width)
        read = torch.tensor([len(prompt) - 1 for prompt in prompts], device=hidden.device)
        states = F.pad(hidden, (0, 0, 1, 0))  # [M, n + 1, D], for each number of tokens read
        return states[torch.arange(len(prompts)), read], read > 0

    def propose(self, pending: Tensor, k: int, warp: Warp, rng: RoundRng) -> Draft:
        """Guesses up to k tokens a row after the pending ones [B], one for each head."""
        if not bool(self._known.any()):
            return Draft.empty(len(pending), self.vocab_size, pending.device)
        warp = self.warp or warp
        width = min(k, len(self.heads))
        logits = self.heads(self._state)  # [B, heads, V]
        dists = [warp(logits[:, i]) for i in range(width)]
        tokens = [rng.categorical(q, i, self._known) for i, q in enumerate(dists)]
        return Draft(torch.stack(tokens, 1), torch.stack(dists, 1), width * self._known.long())

    def commit(self, round: Round) -> None:
        """Takes the state in which the target has read the last accepted token."""
        states = round.target_hidden
        rows = torch.arange(len(states), device=states.device)
        self._state = states[rows, round.verdict.last]
        self._known = torch.ones(len(states), dtype=torch.bool, device=states.device)


def doubtful_tree(nodes: int, depth: int) -> list[int]:
    """Returns the parents of the tree that is best for heads that are often in doubt."""
    return common_tree(nodes, depth, DOUBTFUL)


class MedusaTreeDrafter(MedusaDrafter):
    """Drafts a tree with the heads, candidates without replacement; verify it with `verify_tree`."""

    def __init__(
        self,
        heads: Heads,
        target: LanguageModel,
        parents: Sequence[int],
        warp: Warp | None = None,
    ) -> None:
        """Makes a drafter; see `MedusaDrafter` and `TreeDrafter`."""
        super().__init__(heads, target, warp)
        self.parents = checked_parents(parents, target.max_length)

    def propose(self, pending: Tensor, k: int, warp: Warp, rng: RoundRng) -> Draft:
        """Proposes the tree, k deep or as deep as there are heads, to follow the pending tokens [B]."""
        if not bool(self._known.any()):
            return Draft.empty(len(pending), self.vocab_size, pending.device)
        depths = depths_of(self.parents)
        size = self.size(k)
        logits = self.heads(self._state)  # [B, heads, V]
        space = size * self._known.long()  # [B]

        def read(tokens: Tensor, at: Sequence[int]) -> Tensor:
            return logits[:, depths[at[0]], None].expand(-1, len(at), -1)

        parents = self.parents[:size]
        draft = draw_tree(read, pending, parents, space, without_replacement, self.warp or warp, rng)
        return replace(draft, lengths=space.cpu())

    def size(self, k: int) -> int:
        """Returns how many of its tokens are at most k deep, and have a head."""
        return sum(0 < depth <= min(k, len(self.heads)) for depth in depths_of(self.parents))


def medusa_tree_of(parts: Parts, k: int) -> MedusaTreeDrafter:
    """Returns a drafter of the usually best tree for heads; ValueError if the target reads no trees."""
    target = parts.plain_target(READS_TREES)
    return MedusaTreeDrafter(parts.heads("medusa"), target, doubtful_tree(NODES, k), warp=parts.warp)


MEDUSA = DrafterEntry("medusa", lambda parts, k: MedusaDrafter(parts.heads("medusa"), parts.gpt, parts.warp))
MEDUSA_TREE = DrafterEntry("medusa-tree", medusa_tree_of, proposes_trees=True)
