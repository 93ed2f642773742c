"""Random numbers for the native backend: those of `SeededRng` with the same seed, in the same order.

The library makes many decisions in one call. It gets the numbers that they may need beforehand, uses them in
the core's order, and the rest is given back.
"""

from __future__ import annotations

import ctypes
from typing import Unpack

import torch
from torch import Tensor

from minispec.core.rng import BlockRng, Rng, SeededRng, Which
from minispec.native.library import NAMES, native_functions

AHEAD = 256  # so many numbers are drawn at once


class NativeRng(SeededRng):
    """A `SeededRng` that draws ids in one call, and lends numbers."""

    def __init__(self, seed: int) -> None:
        """Starts a stream of its own.

        Args:
            seed: as for `SeededRng`.
        """
        super().__init__(seed)
        self._stream, self._next = torch.empty(0, dtype=torch.float64), 0

    def categorical(self, probs: Tensor, **which: Unpack[Which]) -> Tensor:
        """Draws ids by inverting the cumulative sum: probs [B, V] -> [B] ids (see `Rng`)."""
        batch, vocab = probs.shape
        if probs.dtype not in NAMES or not (probs.is_cpu and probs.is_contiguous()):
            return super().categorical(probs, **which)
        live = which.get("live")
        numbers, picked = self.lend(batch), torch.empty(batch, dtype=torch.long)
        is_live = (ctypes.c_int64 * batch)(*([1] * batch if live is None else live.tolist()))
        addresses = is_live, numbers.data_ptr(), picked.data_ptr()
        used = native_functions(probs.dtype).choose(probs.data_ptr(), batch, vocab, *addresses)
        self.give_back(batch - used)
        return picked

    def lend(self, count: int) -> Tensor:
        """Returns the numbers that the next decisions will be made by: [count] float64 in [0, 1)."""
        if self._next + count > len(self._stream):
            more = super()._numbers(max(AHEAD, count))
            self._stream, self._next = torch.cat([self._stream[self._next :], more]), 0
        first, self._next = self._next, self._next + count
        return self._stream[first : self._next]

    def give_back(self, count: int) -> None:
        """Takes back the last numbers that were lent, of which `count` have decided nothing."""
        self._next -= count

    def _numbers(self, count: int) -> Tensor:
        return self.lend(count)


def lender(rng: Rng) -> NativeRng | None:
    """Returns the generator whose numbers a round may borrow, or None if `rng` lends none."""
    return rng.rng if isinstance(rng, BlockRng) and isinstance(rng.rng, NativeRng) else None
