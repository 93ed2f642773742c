"""Near ties: the only excuse for a greedy text that differs.

Greedy speculative decoding emits what the target alone would, token for token, in exact arithmetic. In
float32 and in bfloat16 a forward over n positions and n forwards over one differ in the last bits, so two
logits that are almost equal may change order. Such a flip is allowed only with a certificate: the logits of
the two tokens, and how far one and many forward passes were measured to lie apart at that very position.

How large may the gap of a flip be? Let every computation of the logits stay within d of the uncached
forward. One puts token a on top and another token b, so the uncached gap between a and b is at most 2d.
bfloat16 keeps 8 bits of a number, so there d differs much from position to position, and we take what was
measured there. In float32 d is some millionths, and a fixed limit is simpler. In float64 only an exact tie is
an excuse.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import inf, nan

import torch

from minispec.core.model import LanguageModel
from minispec.core.prefill import prefill

FLOAT32_LIMIT = 1e-4
# For types of 16 bits, whatever was measured. bfloat16 numbers from 8 to 16, where the logits that win mostly
# are, lie 1/16 apart: the cap is eight such steps.
NARROW_CAP = 0.5


@dataclass(frozen=True)
class Flip:
    """The first position where two greedy texts part."""

    position: int  #: how many new tokens they share
    tokens: tuple[int | None, int | None]  #: what each has there; None where it has ended
    logits: tuple[float, float]  #: the target's, of both, from an uncached forward in its own type
    gap: float  #: how far these are apart
    #: the most that any logit of that position changes when the text is read by one-token steps with a cache
    #: instead: what one against many forwards amounts to there
    difference: float
    limit: float  #: the largest gap that rounding explains

    @property
    def is_near_tie(self) -> bool:
        """Whether rounding alone explains the flip."""
        return self.gap <= self.limit


def limit_of(dtype: torch.dtype, difference: float) -> float:
    """Returns the largest gap of two logits of a type that may change order; difference: see `Flip`.

    0 for float64, 1e-4 for float32; twice the difference, but never more than 0.5, for narrower types.
    """
    fixed = {torch.float64: 0.0, torch.float32: FLOAT32_LIMIT}
    return fixed.get(dtype, min(2 * difference, NARROW_CAP))


@torch.inference_mode()
def first_flip(
    target: LanguageModel, prompt: Sequence[int], first: Sequence[int], second: Sequence[int]
) -> Flip | None:
    """Finds where two greedy continuations of a prompt part and measures how close the call was.

    Returns the flip, or None if the texts are equal. A text that merely ends earlier has an infinite gap. The
    target is the model that both claim to follow.
    """
    differing = (i for i, (a, b) in enumerate(zip_longest(first, second)) if a != b)
    if (position := next(differing, None)) is None:
        return None
    a, b = ((*text, None)[position] for text in (first, second))
    if a is None or b is None:
        return Flip(position, (a, b), (nan, nan), inf, nan, 0.0)
    at_once, one_by_one = logits_both_ways(target, prompt, first[:position])
    logits = float(at_once[a]), float(at_once[b])
    difference = float((at_once.double() - one_by_one.double()).abs().max())
    gap = abs(logits[0] - logits[1])
    limit = limit_of(at_once.dtype, difference)
    return Flip(position, (a, b), logits, gap, difference, limit)


def logits_both_ways(
    target: LanguageModel, prompt: Sequence[int], new_tokens: Sequence[int]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the logits after a text, [V] each: by one forward, and as `generate` computes them.

    The prompt is read at once both times, the new tokens so far one by one the second time.
    """
    device = target.device
    at_once = target.head(target.hidden(torch.tensor([[*prompt, *new_tokens]], device=device)))[0, -1]
    cache, _ = prefill(target, [prompt])
    for token in [prompt[-1], *new_tokens]:
        one_by_one = target.head(target.hidden(torch.tensor([[token]], device=device), cache))[0, -1]
    return at_once, one_by_one
