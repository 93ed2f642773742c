"""The native drafter: forward, warp and draw for all K tokens in one call into the library."""

from collections.abc import Callable
from functools import partial
from operator import index
from typing import Any

import torch
from torch import Tensor

from minispec.core.cache import KVCache
from minispec.core.draft import ModelDrafter
from minispec.core.records import Draft
from minispec.core.rng import RoundRng
from minispec.core.warp import Warp
from minispec.native.checks import check_budgets
from minispec.native.decisions import Lender
from minispec.native.model import NativeGPT


class DrawnDraft(Draft):
    """A draft that the library has drawn: how it draws, a token has a probability above 0."""

    def check(self) -> None:
        """Checks nothing again: that would be a share of a round that can be measured."""


class NativeDrafter(ModelDrafter):
    """A `ModelDrafter` that lets a `NativeGPT` draw where it can.

    It can for a warp that is a temperature only, with a `NativeRng`. Otherwise it drafts as its parent does.
    It is lossless for the same reason: the distribution that it reports is the one that was drawn from.
    """

    def propose(self, pending: Tensor, k: int, warp: Warp, rng: RoundRng) -> Draft:
        """Guesses k tokens a row after the pending ones [B], those of `ModelDrafter` (see there).

        Raises:
            TypeError: if an argument is of a wrong type.
            ValueError: if k is below 1, or it cannot draft: see `NativeGPT.draw`.
        """
        model = self.model if isinstance(self.model, NativeGPT) else None
        core = partial(ModelDrafter.propose, self, pending, k, warp, rng)
        return native_draft(model, self._cache, pending, k, self.warp or warp, rng, core)


def native_draft(
    model: Any,
    held: KVCache | None,
    pending: Tensor,
    k: int,
    warp: Warp,
    rng: RoundRng,
    core: Callable[[], Draft],
) -> Draft:
    """Drafts k tokens a row after the pending ones [B] in one call into the library, or as `core` does.

    The model draws as a `NativeGPT` does (None: it does not) into the cache that it has (None: it has none).
    """
    rows = len(pending)
    if not isinstance(warp, Warp) or index(k) < 1 or held is None:
        raise ValueError(f"a drafter needs start(prompts) first, a K of at least 1 and a Warp: {k}, {warp}")
    before = held.row_lengths
    budgets = check_budgets(rng.plan.budgets, rows)
    plain = warp.top_k is None and warp.top_p is None
    if not plain or not isinstance(rng.source, Lender) or model is None or not model.can_draw(held, k):
        return core()

    def native(numbers: Tensor) -> tuple[int, Draft]:
        if held.row_lengths != before:  # a generator that enumerates drafts more than once
            held.truncate(before)
        tokens, probs, used = model.draw(pending, held, k, warp.temperature, numbers, budgets)
        if min(budgets) >= k:
            return used, DrawnDraft(tokens, probs)
        return used, DrawnDraft(tokens, probs, torch.tensor([min(budget, k) for budget in budgets]))

    return rng.source.decide(0 if warp.is_greedy else rows * k, native, core)
