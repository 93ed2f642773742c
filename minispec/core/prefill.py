"""Prefill: read the prompt.

All of a prompt but its last token goes through the model at once. The last one is pending: it is
committed, but not in the cache yet. Every round begins by reading the pending token, so the first round
is like all others.
"""

from collections.abc import Sequence
from operator import index

import torch
from torch import Tensor

from minispec.core.cache import KVCache
from minispec.core.model import LanguageModel

Prompts = Sequence[Sequence[int]]


def prefill(model: LanguageModel, prompts: Prompts) -> KVCache:
    """Reads prompts, one list of token ids per row; rows may differ in length.

    Returns:
        A cache that holds len(prompt) − 1 tokens in each row.
    """
    cache = model.new_cache(len(prompts))
    lengths = [len(prompt) - 1 for prompt in prompts]
    if max(lengths) > 0:
        model.hidden(pad(prompts, max(lengths), device_of(model)), cache)
        cache.truncate(lengths)  # what was padding is forgotten
    return cache


def refill(model: LanguageModel, cache: KVCache, rows: Sequence[int], prompts: Prompts) -> None:
    """Reads a prompt into each of these rows of a cache, in the place of a text that has ended."""
    read = prefill(model, prompts)
    for source, row in enumerate(rows):
        cache.place(row, read, source)


def check_prompts(prompts: Prompts, vocab_size: int, max_length: int) -> list[list[int]]:
    """Refuses prompts that cannot be decoded; returns the others as plain integers, whatever they came as.

    Raises:
        ValueError: if there is no prompt, one is no sequence or tensor of integers, empty, too long, or has
            an id outside 0 … V−1.
    """
    if len(prompts) == 0:
        raise ValueError("there is no prompt; give at least one")
    lists = []
    for row, prompt in enumerate(prompts):
        try:
            ids = [index(token) for token in prompt]
        except TypeError:
            raise ValueError(f"prompt {row} must be a sequence of token ids, not {prompt!r:.60}") from None
        if len(ids) == 0:
            raise ValueError(f"prompt {row} is empty; it needs at least one token")
        if len(ids) > max_length:
            raise ValueError(f"prompt {row} has {len(ids)} tokens; the context holds {max_length}")
        if not all(0 <= token < vocab_size for token in ids):
            raise ValueError(f"prompt {row} has a token id outside 0 to {vocab_size - 1}")
        lists.append(ids)
    return lists


def pad(rows: Prompts, width: int, device: torch.device) -> Tensor:
    """Returns the first `width` ids of each row, zeros after them: [B, width]."""
    return torch.tensor([[*row[:width], *([0] * (width - len(row)))] for row in rows], device=device)


def device_of(model: LanguageModel) -> torch.device:
    """Returns where a model is; the CPU unless it says otherwise."""
    device: torch.device = getattr(model, "device", torch.device("cpu"))
    return device
