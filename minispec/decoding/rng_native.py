"""Native chance: what `SeededRng` draws with the same seed, picked by the library of the native path."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from minispec.decoding.rng_lean import LeanRng
from minispec.lm.native_library import NAMES, native_functions


class NativeRng(LeanRng):
    """A `LeanRng` that picks ids in one call."""

    def categorical(
        self,
        probs: Tensor,
        *,
        rows: Tensor | None = None,
        positions: Tensor | int | None = None,
        live: Tensor | None = None,
    ) -> Tensor:
        """Picks ids by inverting the cumulative sum: probs [B, V] -> [B] ids (see `Rng`)."""
        batch, vocab = probs.shape
        if probs.dtype not in NAMES or not (probs.is_cpu and probs.is_contiguous()):
            return super().categorical(probs, rows=rows, positions=positions, live=live)
        numbers, picked = self.numbers(batch), torch.empty(batch, dtype=torch.long)
        is_live = (ctypes.c_int64 * batch)(*([1] * batch if live is None else live.tolist()))
        places = is_live, numbers.data_ptr(), picked.data_ptr()
        used = native_functions(probs.dtype).choose(probs.data_ptr(), batch, vocab, *places)
        self.give_back(batch - used)
        return picked
