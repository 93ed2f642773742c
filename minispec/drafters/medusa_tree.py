"""A tree on Medusa's heads: several candidates for each position, and no forward of a draft model at all.

Head i says the same of its position, whatever stands before it. So all tokens of one depth have the same q,
and a candidate that follows the second one of the position before costs nothing more (Cai et al. 2024,
section 2.1.2). Heads are often in doubt, and a second and third candidate then help more than a longer chain.
"""

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from minispec.core.model import LanguageModel
from minispec.core.records import Draft
from minispec.core.rng import Rng
from minispec.core.warp import Warp
from minispec.drafters.chain import Choice, depths_of, draw_tree
from minispec.drafters.medusa import Medusa, MedusaDrafter
from minispec.drafters.tree import grow, without_replacement

RATES = (0.5, 0.15, 0.08, 0.05, 0.03, 0.02)  # assumed: how often a position's candidates are the one kept


def doubtful_tree(nodes: int, depth: int) -> list[int]:
    """Returns the parents of the tree that is best for heads that are often in doubt."""
    return grow([RATES] * depth, nodes)[0]


class MedusaTreeDrafter(MedusaDrafter):
    """Drafts a tree with the heads; verify it with `verify_tree`."""

    def __init__(
        self,
        heads: Medusa,
        target: LanguageModel,
        parents: Sequence[int],
        choice: Choice = without_replacement,
        warp: Warp | None = None,
    ) -> None:
        """Makes a drafter; see `MedusaDrafter` and `TreeDrafter`."""
        super().__init__(heads, target, warp)
        if len(parents) >= target.max_length:
            raise ValueError(f"a tree of {len(parents)} tokens does not fit a context of {target.max_length}")
        self.parents, self.choice = list(parents), choice

    def propose(self, pending: Tensor, k: int, warp: Warp, rng: Rng) -> Draft:
        """Proposes the tree, k deep or as deep as there are heads, to follow the pending tokens [B]."""
        if not bool(self._known.any()):
            return Draft.empty(len(pending), self.vocab_size, pending.device)
        depths = depths_of(self.parents)
        size = sum(0 < depth <= min(k, len(self.heads)) for depth in depths)
        logits, space = self.heads(self._state), size * self._known.long()  # [B, heads, V], [B]

        def read(tokens: Tensor, at: Sequence[int]) -> Tensor:
            return logits[:, depths[at[0]], None].expand(-1, len(at), -1)

        draft = draw_tree(read, pending, self.parents[:size], space, self.choice, self.warp or warp, rng)
        return replace(draft, lengths=space.cpu())
