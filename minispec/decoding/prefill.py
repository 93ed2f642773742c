"""Prefill: read the prompt.

All of a prompt but its last token goes through the model at once. The last one is pending: it is
committed, but not in the cache yet. Every round begins by reading the pending token, so the first round
is like all others.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from minispec.lm.cache import KVCache
from minispec.lm.model import LanguageModel


def prefill(model: LanguageModel, prompts: Sequence[Sequence[int]], device: torch.device) -> KVCache:
    """Reads all prompts but their last tokens.

    Args:
        model: any language model.
        prompts: token ids, one sequence per row; rows may differ in length.
        device: where the model is.

    Returns:
        A cache that holds len(prompt) − 1 tokens in each row.
    """
    cache = model.new_cache(len(prompts))
    lengths = [len(prompt) - 1 for prompt in prompts]
    if max(lengths) > 0:
        model.hidden(pad(prompts, max(lengths), device), cache)
        cache.truncate(lengths)  # what was padding is forgotten
    return cache


def pad(rows: Sequence[Sequence[int]], width: int, device: torch.device) -> Tensor:
    """Returns the first `width` ids of each row, zeros behind: [B, width]."""
    return torch.tensor([[*row[:width], *([0] * (width - len(row)))] for row in rows], device=device)


def device_of(model: LanguageModel) -> torch.device:
    """Returns where a model is; the CPU unless it says otherwise."""
    device: torch.device = getattr(model, "device", torch.device("cpu"))
    return device
