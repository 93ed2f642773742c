"""The exercise at the end of the loop: sampled speculative decoding with both caches."""

from typing import Any

import torch
from torch import Tensor

from minispec.classroom.exercise import exercise
from minispec.classroom.exercises import rejection
from minispec.classroom.parts import LimitedModel, RowRng
from minispec.classroom.trials import enumerate_loop
from minispec.core.cache import KVCache


def probabilities(model: LimitedModel, tokens: list[int], cache: KVCache) -> Tensor:
    """Reads n tokens after what the cache holds; returns the distributions [n, V] of what follows each."""
    return torch.softmax(model(torch.tensor([tokens]), cache)[0], -1)


def my_sampled_loop(
    target: LimitedModel, draft: LimitedModel, prompt: list[int], k: int, n: int, rng: RowRng
) -> list[int]:
    """Returns n tokens; does what `speculate_basic` does."""
    text = list(prompt)
    target_cache = target.new_cache(1)
    draft_cache = draft.new_cache(1)
    if len(prompt) > 1:
        probabilities(target, prompt[:-1], target_cache)
        probabilities(draft, prompt[:-1], draft_cache)
    while len(text) < len(prompt) + n:
        block = [text[-1]]
        dists: list[Tensor] = []
        room = len(prompt) + n - len(text)
        for _ in range(min(k, room - 1)):
            dists.append(probabilities(draft, block[-1:], draft_cache)[0])
            block.append(rng.draw(dists[-1]))
        p = probabilities(target, block, target_cache)
        text += rejection.ACCEPT.right(block[1:], dists, p, rng)
        length = len(text) - 1
        if draft_cache.row_lengths[0] == length - 1:
            probabilities(draft, block[-1:], draft_cache)
        target_cache.truncate([length])
        draft_cache.truncate([length])
    return text[len(prompt) :]


def show_loop(value: Any) -> str:
    """Writes the first texts with their probabilities, the target calls, and what is wrong in the caches."""
    texts, calls, faults = value
    lines = [f"{list(tokens)} with probability {probability:.3g}" for tokens, probability in texts[:8]]
    lines += ["…"] * (len(texts) > 8)
    lines.append(f"{calls:.3g} target calls on average")
    lines += faults or ["between rounds both caches hold all of the text but its pending token"]
    return "".join(f"\n    {line}" for line in lines)


SAMPLED_LOOP = exercise(
    "write-the-sampled-loop",
    right=my_sampled_loop,
    run=enumerate_loop,
    show=show_loop,
)
