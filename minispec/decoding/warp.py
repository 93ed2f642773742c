"""The warp: from logits to the distribution that tokens are drawn from.

Temperature, then top-k, then top-p. The drafter and the target go through the same kind of warp, and the
verifier compares what comes out. So speculative decoding is lossless with respect to the warped target:
the one that a person who sets a temperature asked for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from minispec.lm.model import DAMAGED

ROUNDING = 1e-9  # a set that reaches top-p up to this has reached it


@dataclass(frozen=True)
class Warp:
    """Turns logits into probabilities.

    Attributes:
        temperature: logits are divided by it; 0 puts all mass on the largest logit (lowest id on ties).
        top_k: keep the k most probable tokens; ties go to the lowest id.
        top_p: keep the smallest set of most probable tokens whose mass reaches this; ties to the lowest id.

    Raises:
        ValueError: if a setting is out of its range.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise ValueError(f"temperature must be a finite number of at least 0, not {self.temperature}")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top-k must be at least 1, not {self.top_k}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ValueError(f"top-p must be above 0 and at most 1, not {self.top_p}")

    @property
    def is_greedy(self) -> bool:
        """Whether the result is always one-hot."""
        return self.temperature == 0

    def __call__(self, logits: Tensor) -> Tensor:
        """Returns probabilities.

        Args:
            logits: [..., V], of any floating type.

        Returns:
            [..., V], float32, or float64 for float64 logits. Each row sums to 1.

        Raises:
            ValueError: if a row has NaN or plus infinity, or nothing but minus infinity.
        """
        wide = logits if logits.dtype == torch.float64 else logits.float()
        top = wide.amax(-1, keepdim=True)
        if not bool(top.isfinite().all()):
            raise ValueError(DAMAGED)
        if self.is_greedy:
            return one_hot(lowest_argmax(wide, top), wide.shape[-1], wide.dtype)
        # The maximum goes first: dividing by a small temperature must not overflow.
        lowered = wide - top
        if self.temperature < torch.finfo(wide.dtype).tiny:  # too small for float32: it would count as 0
            lowered = lowered.double()
        probs = torch.softmax(lowered / self.temperature, dim=-1).to(wide.dtype)
        if self.top_k is None and self.top_p is None:
            return probs
        return self._cut(probs)

    def _cut(self, probs: Tensor) -> Tensor:
        """Zeroes what top-k and top-p exclude and rescales the rest: [..., V] -> [..., V]."""
        ranked, order = torch.sort(probs, dim=-1, descending=True, stable=True)
        if self.top_k is not None:
            ranked = ranked.clone()
            ranked[..., self.top_k :] = 0
        if self.top_p is not None and self.top_p < 1:
            share = ranked.double() / ranked.double().sum(-1, keepdim=True)
            before = share.cumsum(-1) - share  # mass of everything ranked higher
            enough = before >= self.top_p - ROUNDING
            enough[..., 0] = False  # the most probable token always stays
            ranked = ranked.masked_fill(enough, 0)
        kept = torch.zeros_like(probs).scatter(-1, order, ranked)
        return kept / kept.sum(-1, keepdim=True)


def lowest_argmax(values: Tensor, top: Tensor | None = None) -> Tensor:
    """Returns the index of the largest value in the last dimension, the lowest on ties: [..., V] -> [...].

    Args:
        values: [..., V].
        top: [..., 1], the maximum, if it is known already.
    """
    top = values.amax(-1, keepdim=True) if top is None else top
    # torch.argmax leaves open which of several maxima it returns; of equal booleans as bytes, the first
    # nonzero position is found by a maximum over descending ranks.
    rank = torch.arange(values.shape[-1], 0, -1, device=values.device)
    return values.shape[-1] - ((values == top) * rank).amax(-1)


def one_hot(ids: Tensor, size: int, dtype: torch.dtype) -> Tensor:
    """Returns distributions with all mass on one id: [...] -> [..., size]."""
    return torch.zeros(*ids.shape, size, dtype=dtype, device=ids.device).scatter_(-1, ids[..., None], 1)
