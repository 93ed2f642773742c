"""A tree on Medusa's heads: the most probable combinations of their candidates.

Each head says how probable its tokens are, whatever stands before them. So the probability of a path is a
product, and the tree with the most probable paths is grown anew for every draft (Cai et al. 2024, section
2.1.2, has one tree for all). Its candidates are fixed, not drawn: all of q is on each of them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from minispec.core.model import LanguageModel, Tree
from minispec.core.records import Draft
from minispec.core.rng import Rng
from minispec.core.warp import Warp, one_hot
from minispec.drafters.medusa import Medusa, MedusaDrafter
from minispec.drafters.tree import grow

CANDIDATES = 6  # of each head


class MedusaTreeDrafter(MedusaDrafter):
    """Drafts a tree with the heads; verify it with `verify_tree`."""

    def __init__(self, heads: Medusa, target: LanguageModel, nodes: int = 16) -> None:
        """Makes a drafter of so many tokens; see `MedusaDrafter`.

        Raises:
            ValueError: if the heads were made for another target, or the context has no space for the tree.
        """
        super().__init__(heads, target)
        if nodes >= target.max_length:
            raise ValueError(f"a tree of {nodes} tokens does not fit a context of {target.max_length}")
        self.nodes = nodes

    def propose(self, pending: Tensor, k: int, warp: Warp, rng: Rng) -> Draft:
        """Proposes a tree to follow the pending tokens [B].

        Args:
            pending: the last committed tokens.
            k: how deep at most.
            warp: not used: candidates are compared, not drawn.
            rng: not used.
        """
        if not bool(self._known.any()):
            return Draft.empty(len(pending), self.vocab_size, pending.device)
        dists = self.heads(self._state)[:, :k].float().softmax(-1)  # [B, depth, V]
        rates, ids = dists.topk(min(CANDIDATES, self.vocab_size), dim=-1)
        grown = [grow(row, self.nodes) for row in rates.tolist()]
        parents, ranks = (torch.tensor(of, device=ids.device) for of in zip(*grown, strict=True))
        depths = Tree.after(torch.zeros_like(pending), parents).positions[:, 1:] - 1
        rows = torch.arange(len(pending), device=ids.device)[:, None]
        tokens = ids[rows, depths, ranks]
        lengths = parents.shape[1] * self._known.long()
        return Draft(tokens, one_hot(tokens, self.vocab_size, dists.dtype), lengths, parents)
