"""The native drafter: forward, warp and draw for all K tokens in one call into the library."""

from __future__ import annotations

from operator import index

from torch import Tensor

from minispec.core.draft import ModelDrafter
from minispec.core.records import Draft
from minispec.core.rng import Rng
from minispec.core.warp import Warp
from minispec.native.checks import budgets_of, check_generator
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

        Raises:
            TypeError: if an argument is of a wrong type.
            ValueError: if k is below 1, or it cannot draft: see `NativeGPT.draw`.
        """
        own, model, by = self.warp or warp, self.model, lender(rng)
        if not isinstance(own, Warp) or index(k) < 1 or self._cache is None:
            raise ValueError(
                f"a drafter needs start(prompts) first, then a K of at least 1 and a Warp: {k}, {own}"
            )
        plain = own.top_k is None and own.top_p is None
        if not plain or by is None or not isinstance(model, NativeGPT):
            check_generator(rng)
            return super().propose(pending, k, warp, rng)
        if not model.can_draw(self.cache, k):
            return super().propose(pending, k, warp, rng)
        most = 0 if own.is_greedy else len(pending) * k
        budgets = budgets_of(rng, len(pending), k)
        before = self.cache.row_lengths

        def native(numbers: Tensor) -> tuple[int, Draft]:
            self.cache.truncate(before)  # a generator that enumerates drafts more than once
            tokens, probs, used = model.draw(pending, self.cache, k, own.temperature, numbers, budgets)
            return used, Draft(tokens, probs)

        return by.decide(most, native, lambda: ModelDrafter.propose(self, pending, k, warp, rng))
