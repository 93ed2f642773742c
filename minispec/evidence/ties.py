"""Near ties: the only excuse for a greedy text that differs.

Greedy speculative decoding says what the target alone would say, token for token, in exact arithmetic. In
float32 a forward over n positions and n forwards over one may differ in the last bits, so two logits that
are almost equal may change places. Such a flip is allowed only with a certificate: the measured logits of
the two tokens, closer than a stated gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from minispec.decoding.prefill import device_of
from minispec.lm.model import LanguageModel

GAP = 1e-4  # logits closer than this may change places in float32


@dataclass(frozen=True)
class Flip:
    """The first place where two greedy texts part.

    Attributes:
        position: how many new tokens they share.
        tokens: what the one and the other say there; None where a text has ended.
        logits: the target's logits of both, from an uncached forward in the model's own type.
        gap: how far these are apart.
    """

    position: int
    tokens: tuple[int | None, int | None]
    logits: tuple[float, float]
    gap: float

    @property
    def is_near_tie(self) -> bool:
        """Whether rounding alone explains the flip."""
        return self.gap < GAP


@torch.inference_mode()
def first_flip(
    target: LanguageModel, prompt: Sequence[int], one: Sequence[int], other: Sequence[int]
) -> Flip | None:
    """Finds where two greedy continuations part and measures how close the call was.

    Args:
        target: the model that both claim to follow.
        prompt: token ids.
        one: new tokens of the first text.
        other: new tokens of the second.

    Returns:
        The flip, or None if the texts are equal. A text that merely ends earlier has an infinite gap.
    """
    if list(one) == list(other):
        return None
    shared = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
    if shared is None:
        short = min(len(one), len(other))
        ends = (one[short] if len(one) > short else None, other[short] if len(other) > short else None)
        return Flip(short, ends, (float("nan"), float("nan")), float("inf"))
    text = torch.tensor([[*prompt, *one[:shared]]], device=device_of(target))
    scores = target(text)[0, -1].double()
    a, b = float(scores[one[shared]]), float(scores[other[shared]])
    return Flip(shared, (one[shared], other[shared]), (a, b), abs(a - b))
