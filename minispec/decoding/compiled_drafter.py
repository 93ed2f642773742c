"""The compiled drafter: K tokens in K calls of a package, with the same chance as the plain drafter."""

from __future__ import annotations

import torch
from torch import Tensor

from minispec.decoding.draft import ModelDrafter
from minispec.decoding.records import Draft, Round
from minispec.decoding.rng import Rng
from minispec.decoding.warp import Warp
from minispec.lm.compiled_draft import CompiledDraft
from minispec.lm.lean import LeanCache


class CompiledDrafter(ModelDrafter):
    """A `ModelDrafter` that hands its whole step to a `CompiledDraft` where that can take it.

    It can for one row, a warp that is a temperature only, and chance that tells its numbers beforehand
    (`numbers`, see `LeanRng`). Otherwise it drafts as its parent does. It is lossless for the same reason:
    the law that it reports is the law that the package drew from.
    """

    def propose(self, pending: Tensor, k: int, warp: Warp, rng: Rng) -> Draft:
        """Guesses k tokens a row, each from the law that it then reports.

        Args:
            pending: [B], the last committed tokens.
            k: how many to guess.
            warp: the target's warp, used unless the drafter has its own.
            rng: draws the tokens; at temperature 0 nothing is drawn, else one number per token.

        Returns:
            tokens [B, k] and laws [B, k, V].
        """
        own, model, cache = self.warp or warp, self.model, self.cache
        plain = own.top_k is None and own.top_p is None
        numbers = getattr(rng, "numbers", None)
        if not (plain and numbers and isinstance(model, CompiledDraft) and isinstance(cache, LeanCache)):
            return super().propose(pending, k, warp, rng)
        drawn = numbers(0 if own.is_greedy else k) if model.can_draw(cache, k) else None
        if drawn is None:
            return super().propose(pending, k, warp, rng)
        if own.is_greedy:
            drawn = drawn.new_zeros(k)
        return Draft(*model.draw(pending, cache, own.temperature, drawn))

    def catch_up(self, round: Round) -> None:
        """After full acceptance, reads the last drafted token, by the same package (see `ModelDrafter`)."""
        model, cache = self.model, self.cache
        behind = cache.row_lengths[0] < round.target_cache.after[0]
        if not (
            isinstance(model, CompiledDraft) and isinstance(cache, LeanCache) and model.can_draw(cache, 1)
        ):
            super().catch_up(round)
        elif behind:
            last = round.draft.tokens[:, -1] if round.draft.k else round.pending
            model.draw(last, cache, 0.0, torch.zeros(1, dtype=torch.float64))  # what it draws is not used
