"""Lean chance: what `SeededRng` draws with the same seed, in NumPy, which starts its operations sooner.

It can also tell beforehand which numbers will decide the next picks, so that a model can make them.
`rng.py` is the one to read; a test holds the two to each other, draw by draw.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from minispec.decoding.rng import SeededRng

AHEAD = 256  # so many numbers are drawn at once


class LeanRng(SeededRng):
    """A `SeededRng` that makes the same draws with the same seed, in fewer operations."""

    def __init__(self, seed: int) -> None:
        """Starts a stream of its own.

        Args:
            seed: as for `SeededRng`.
        """
        super().__init__(seed)
        self._stream, self._next = torch.empty(0, dtype=torch.float64), 0

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
        if self._next + count > len(self._stream):
            more = torch.rand(max(AHEAD, count), generator=self._generator, dtype=torch.float64)
            self._stream, self._next = torch.cat([self._stream[self._next :], more]), 0
        first, self._next = self._next, self._next + count
        return self._stream[first : self._next]

    def give_back(self, count: int) -> None:
        """Takes back the last numbers, of which `count` have decided nothing: they come again."""
        self._next -= count

    def _numbers(self, wanted: np.ndarray) -> np.ndarray:
        """Returns [B] float64 in [0, 1): a fresh number where wanted, 0 elsewhere."""
        count = int(np.count_nonzero(wanted))
        drawn = self.numbers(count).numpy()
        if count == wanted.size:
            return drawn
        uniform = np.zeros(wanted.shape)
        uniform[wanted] = drawn
        return uniform

    def _uniforms(self, wanted: Tensor) -> Tensor:
        """The same as a tensor, for a parent that draws on another device: [B] -> [B] float64."""
        return torch.from_numpy(self._numbers(wanted.cpu().numpy())).to(wanted.device)
