"""A chain: tokens drawn one after another, each from the distribution that is reported for it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from minispec.core.records import Draft
from minispec.core.rng import Rng
from minispec.core.warp import Warp


def draw_chain(read: Callable[[Tensor], Tensor], pending: Tensor, k: int, warp: Warp, rng: Rng) -> Draft:
    """Draws k tokens a row.

    Args:
        read: takes a token a row, [B], and returns the logits of the next, [B, V].
        pending: [B], the last committed tokens.
        k: how many.
        warp: from logits to distributions.
        rng: draws, at positions 0 … k−1.
    """
    token, tokens, dists = pending, [], []
    for position in range(k):
        q = warp(read(token))
        token = rng.categorical(q, positions=position)
        tokens.append(token)
        dists.append(q)
    return Draft(torch.stack(tokens, 1), torch.stack(dists, 1))
