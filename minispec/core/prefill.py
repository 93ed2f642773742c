"""Prefill: read the prompt.

All of a prompt but its last token goes through the model, in few forwards. The last one is pending: it is
committed, but not in the cache yet. Every round begins by reading the pending token, so the first round
is like all others.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from minispec.core.batch import Prompts
from minispec.core.cache import KVCache
from minispec.core.model import LanguageModel

BLOCK = 512  # tokens a row in one forward: a mask has as many numbers for each token of the context


def prefill(model: LanguageModel, prompts: Prompts) -> tuple[KVCache, Tensor]:
    """Reads prompts, one list of token ids per row; rows may differ in length.

    Returns:
        A cache that holds len(prompt) − 1 tokens in each row, and their hidden states [B, n, D]. n is that of
        the longest prompt; what comes after the end of a shorter one is padding.
    """
    cache = model.new_cache(len(prompts))
    lengths = [len(prompt) - 1 for prompt in prompts]
    if max(lengths) == 0:
        return cache, torch.zeros(len(prompts), 0, model.hidden_size, device=model.device)
    tokens = pad(prompts, max(lengths), model.device)
    hidden = [model.hidden(block, cache) for block in tokens.split(BLOCK, 1)]
    cache.truncate(lengths)  # what was padding is forgotten
    return cache, torch.cat(hidden, 1)


def refill(model: LanguageModel, cache: KVCache, rows: Sequence[int], prompts: Prompts) -> Tensor:
    """Reads a prompt into each of these rows of a cache, in the place of a text that has ended.

    Returns:
        The hidden states of the prompts [len(rows), n, D], as `prefill` does.
    """
    fresh, hidden = prefill(model, prompts)
    for source, row in enumerate(rows):
        cache.place(row, fresh, source)
    return hidden


def pad(rows: Prompts, width: int, device: torch.device) -> Tensor:
    """Returns the first `width` ids of each row, zeros after them: [B, width]."""
    return torch.tensor([[*row[:width], *([0] * (width - len(row)))] for row in rows], device=device)
