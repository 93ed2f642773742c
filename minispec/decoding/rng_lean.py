"""Lean chance: what `SeededRng` draws with the same seed, in NumPy, which starts its operations sooner.

It can also tell beforehand which numbers will decide the next picks. So a compiled draft step can make them.
`rng.py` is the one to read; a test holds the two to each other, draw by draw.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from minispec.decoding.rng import SeededRng


class LeanRng(SeededRng):
    """A `SeededRng` that makes the same draws with the same seed, in fewer operations."""

    def bernoulli(
        self,
        probs: Tensor,
        *,
        rows: Tensor | None = None,
        positions: Tensor | int | None = None,
        live: Tensor | None = None,
    ) -> Tensor:
        """Says yes with the given chances: probs [B] -> [B] bool (see `Rng`)."""
        if probs.device.type != "cpu":
            return super().bernoulli(probs, rows=rows, positions=positions, live=live)
        chance = probs.numpy()
        wanted = (chance > 0) & (chance < 1)
        if live is not None:
            wanted &= live.numpy()
        yes = self._numbers(wanted) < chance
        if live is not None:
            yes &= live.numpy()
        return torch.from_numpy(yes)

    def categorical(
        self,
        probs: Tensor,
        *,
        rows: Tensor | None = None,
        positions: Tensor | int | None = None,
        live: Tensor | None = None,
    ) -> Tensor:
        """Picks ids by inverting the cumulative sum: probs [B, V] -> [B] ids (see `Rng`)."""
        if probs.device.type != "cpu":
            return super().categorical(probs, rows=rows, positions=positions, live=live)
        law = probs.numpy()
        cumulative = law.cumsum(-1, dtype=np.float64)  # [B, V]
        total = cumulative[:, -1]
        wanted = law.max(-1) < total
        if live is not None:
            wanted &= live.numpy()
        threshold = np.minimum(self._numbers(wanted) * total, np.nextafter(total, 0))
        each = zip(cumulative, threshold, strict=True)
        picked = np.array([row.searchsorted(number, "right") for row, number in each])
        if live is not None:
            picked *= live.numpy()
        return torch.from_numpy(picked)

    def numbers(self, count: int) -> Tensor:
        """Returns what the next picks of one row will be decided by: [count] float64 in [0, 1)."""
        return torch.rand(count, generator=self._generator, dtype=torch.float64)

    def _numbers(self, wanted: np.ndarray) -> np.ndarray:
        """Returns [B] float64 in [0, 1): a fresh number where wanted, 0 elsewhere."""
        count = int(np.count_nonzero(wanted))
        drawn = torch.rand(count, generator=self._generator, dtype=torch.float64).numpy()
        if count == wanted.size:
            return drawn
        uniform = np.zeros(wanted.shape)
        uniform[wanted] = drawn
        return uniform
