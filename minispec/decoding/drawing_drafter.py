"""The drawing drafter: it hands forward, law and draw to a model that does all three for several tokens."""

from __future__ import annotations

from operator import lt
from typing import Any, Protocol, cast

import torch
from torch import Tensor

from minispec.decoding.draft import ModelDrafter
from minispec.decoding.records import Draft, Round
from minispec.decoding.rng import BlockRng, Rng
from minispec.decoding.warp import Warp
from minispec.lm.model import LanguageModel


class DrawingModel(Protocol):
    """A language model that draws: `CompiledDraft` and `NativeGPT` do."""

    def can_draw(self, cache: Any, k: int) -> bool:
        """Whether `draw` can take k steps."""

    def draw(self, tokens: Tensor, cache: Any, temperature: float, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """Reads the tokens [B], draws the next, and so on: ids [B, K], laws [B, K, V] for numbers [B, K]."""


def drawing_model(model: LanguageModel) -> DrawingModel | None:
    """Returns the model as one that draws, or None if it does not."""
    return cast(DrawingModel, model) if hasattr(model, "draw") else None


class DrawingDrafter(ModelDrafter):
    """A `ModelDrafter` that lets its model draw where that can.

    It can for a warp that is a temperature only, and chance that tells its numbers beforehand (`numbers`, see
    `LeanRng`). Otherwise it drafts as its parent does. It is lossless for the same reason:
    the law that it reports is the law that the model drew from.
    """

    def __init__(self, model: LanguageModel, warp: Warp | None = None) -> None:
        """Makes a drafter.

        Args:
            model: the draft model, better a `DrawingModel`.
            warp: how to warp its logits; None: like the target's. Any is lossless.
        """
        super().__init__(model, warp)
        self._drawing = drawing_model(model)

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
        own, drawing = self.warp or warp, self._drawing
        plain = own.top_k is None and own.top_p is None
        if drawing is None or not plain or not drawing.can_draw(self.cache, k):
            return super().propose(pending, k, warp, rng)
        numbers = rng.numbers(0 if own.is_greedy else k) if isinstance(rng, BlockRng) else None
        if numbers is None:
            return super().propose(pending, k, warp, rng)
        if own.is_greedy:
            numbers = numbers.new_zeros(len(pending), k)
        return Draft(*drawing.draw(pending, self.cache, own.temperature, numbers))

    def catch_up(self, round: Round) -> None:
        """After full acceptance, reads the last drafted token, in the same way (see `ModelDrafter`)."""
        drawing = self._drawing
        if drawing is None or not drawing.can_draw(self.cache, 1):
            super().catch_up(round)
        elif any(map(lt, self.cache.row_lengths, round.target_cache.after)):
            last = round.draft.tokens[:, -1] if round.draft.k else round.pending
            drawing.draw(last, self.cache, 0.0, torch.zeros(len(last), 1, dtype=torch.float64))  # not used
