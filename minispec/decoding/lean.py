"""Lean versions of the warp and the rules: the same decisions in fewer operations.

Without the readable forward's overhead a round takes less than a millisecond. Then it counts that a tensor
operation takes microseconds to start, whatever its size. NumPy starts its operations several times faster,
so decisions over a few numbers on a CPU are made in NumPy here. On a GPU these classes do what the plain
ones do.

`warp.py` and `verify.py` are the ones to read; `rng_lean.py` does the same for chance. Tests hold the two to
each other: the same laws and draws bit for bit, and the same law of the output by exact enumeration.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from minispec.decoding.records import Draft, Verdict
from minispec.decoding.rng import Rng
from minispec.decoding.verify import verify_rejection
from minispec.decoding.warp import Warp
from minispec.lm.model import DAMAGED

TINY = np.finfo(np.float64).tiny


class LeanWarp(Warp):
    """A `Warp` that is quick at temperature 0 and 1; everything else it leaves to its parent."""

    def __call__(self, logits: Tensor) -> Tensor:
        """Returns probabilities, [..., V] -> [..., V], bit for bit those of `Warp`.

        Args:
            logits: [..., V], of any floating type.

        Raises:
            ValueError: if a row has NaN or plus infinity, or nothing but minus infinity.
        """
        plain = self.top_k is None and self.top_p is None
        if logits.device.type != "cpu" or logits.dtype == torch.bfloat16 or not plain:
            return super().__call__(logits)
        if self.is_greedy:
            return self._one_hot(logits)
        if self.temperature != 1:
            return super().__call__(logits)
        probs = torch.softmax(logits, dim=-1)  # subtracts the maximum itself
        if np.isnan(probs.numpy()[..., 0]).any():  # a damaged row is NaN everywhere
            raise ValueError(DAMAGED)
        return probs

    def _one_hot(self, logits: Tensor) -> Tensor:
        values = logits.numpy().reshape(-1, logits.shape[-1])
        best = values.argmax(-1)  # the lowest id on ties; NaN counts as largest
        rows = np.arange(len(best))
        if not np.isfinite(values[rows, best]).all():
            raise ValueError(DAMAGED)
        probs = np.zeros_like(values)
        probs[rows, best] = 1
        return torch.from_numpy(probs).view(logits.shape)


def lean_greedy(draft: Draft, target_probs: Tensor, rng: Rng) -> Verdict:
    """Decides as `verify_greedy` does (Leviathan et al. 2023, section 2.2).

    Args:
        draft: as in `Verifier`; its probabilities are not read.
        target_probs: [B, K+1, V].
        rng: not used.

    Returns:
        As in `Verifier`.
    """
    best = target_probs.cpu().numpy().argmax(-1)  # [B, K+1], the lowest id on ties
    agrees = draft.tokens.cpu().numpy() == best[:, : draft.k]
    agrees &= np.arange(draft.k) < draft.lengths.numpy()[:, None]
    accepted = np.logical_and.accumulate(agrees, axis=1).sum(1)  # length of the leading run
    token = best[np.arange(len(best)), accepted]
    device = target_probs.device
    return Verdict(torch.from_numpy(accepted).to(device), torch.from_numpy(token).to(device))


def lean_rejection(draft: Draft, target_probs: Tensor, rng: Rng) -> Verdict:
    """Decides as `verify_rejection` does (Leviathan et al. 2023, algorithm 1), with the same draws.

    The chances of all K tests are computed at once. Where every row's is 1 there is nothing to ask `rng`.

    Args:
        draft: as in `Verifier`.
        target_probs: [B, K+1, V].
        rng: decides each test, and draws the correction or the bonus.

    Returns:
        As in `Verifier`.
    """
    if target_probs.device.type != "cpu":
        return verify_rejection(draft, target_probs, rng)
    p, q = target_probs.numpy(), draft.probs.numpy()
    lengths, each = draft.lengths.numpy(), np.arange(len(p))
    chances = chances_of(p, q, draft.tokens.numpy())  # [B, K]
    certain = [bool(column.all()) for column in (chances >= 1).T]
    accepted = np.zeros(len(p), dtype=np.int64)
    testing = np.greater(lengths, 0)  # rows that have rejected nothing so far, and have a token to test
    for i in range(draft.k):
        if not testing.any():
            break
        if not certain[i]:
            chance, live = torch.from_numpy(chances[:, i]), torch.from_numpy(testing)
            testing = testing & rng.bernoulli(chance, positions=i, live=live).numpy()
        accepted += testing
        testing = testing & (i + 1 < lengths)
    law = p[each, accepted].astype(np.float64)  # [B, V]
    rejected = np.less(accepted, lengths)
    if rejected.any():
        short = np.maximum(law - q[each, np.minimum(accepted, draft.k - 1)], 0)
        mass = short.sum(-1, keepdims=True)
        law = np.where(rejected[:, None] & (mass > 0), short / np.maximum(mass, TINY), law)
    kept = torch.from_numpy(accepted)
    return Verdict(kept, rng.categorical(torch.from_numpy(law), positions=kept))


def chances_of(p: np.ndarray, q: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """Returns min(1, p(x)/q(x)) for every drafted token x: Leviathan et al. 2023, algorithm 1.

    Args:
        p: [B, K+1, V], the target's laws.
        q: [B, K, V], the draft's.
        tokens: [B, K].

    Returns:
        [B, K] float64; 0 where p and q are both 0.
    """
    row, place = np.arange(tokens.shape[0])[:, None], np.arange(tokens.shape[1])
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = p[row, place, tokens].astype(np.float64) / q[row, place, tokens]
    return np.where(ratio > 0, np.minimum(ratio, 1), 0)
