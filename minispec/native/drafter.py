"""The native drafter: forward, warp and draw for all K tokens in one call into the library."""

from __future__ import annotations

from torch import Tensor

from minispec.core.draft import ModelDrafter
from minispec.core.records import Draft
from minispec.core.rng import BlockRng, Rng
from minispec.core.warp import Warp
from minispec.native.decisions import lender
from minispec.native.model import NativeGPT


class NativeDrafter(ModelDrafter):
    """A `ModelDrafter` that lets a `NativeGPT` draw where it can.

    It can for a warp that is a temperature only, with a `NativeRng`. Otherwise it drafts as its parent does.
    It is lossless for the same reason: the distribution that it reports is the one that was drawn from.
    """

    def propose(self, pending: Tensor, k: int, warp: Warp, rng: Rng) -> Draft:
        """Guesses k tokens a row after the pending ones [B], each from the distribution that it then reports.

        Args:
            pending: the last committed tokens.
            k: how many to guess.
            warp: the target's warp, used unless the drafter has its own.
            rng: draws the tokens, the same ones as in `ModelDrafter`.
        """
        own, model, by = self.warp or warp, self.model, lender(rng)
        plain = own.top_k is None and own.top_p is None
        if not plain or by is None or not isinstance(model, NativeGPT):
            return super().propose(pending, k, warp, rng)
        if not model.can_draw(self.cache, k):
            return super().propose(pending, k, warp, rng)
        most = 0 if own.is_greedy else len(pending) * k
        budgets = rng.budgets if isinstance(rng, BlockRng) else None
        before = self.cache.row_lengths

        def native(numbers: Tensor) -> tuple[int, Draft]:
            self.cache.truncate(before)  # a generator that enumerates drafts more than once
            tokens, probs, used = model.draw(pending, self.cache, k, own.temperature, numbers, budgets)
            return used, Draft(tokens, probs)

        return by.decide(most, native, lambda: ModelDrafter.propose(self, pending, k, warp, rng))
