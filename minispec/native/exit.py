"""Early exit on the native backend: the target's first layers draft in C++, and the others go on from there.

`drafters/exit.py` is the one to read. Here a whole draft is one call: K tokens go through the first layers,
the exit and the head, each drawn after the one before, and the last one is read as well. The
streams stay, and verification is one call through the other layers.
"""

import weakref
from copy import deepcopy
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor

from minispec.core.model import GPT
from minispec.core.records import Draft
from minispec.core.rng import RoundRng
from minispec.core.warp import Warp
from minispec.drafters.exit import EarlyExitGPT, Exit, ExitCache
from minispec.native.checks import space_for
from minispec.native.drafter import native_draft
from minispec.native.model import TOLERANCE, NativeGPT
from minispec.native.pack import packed_gain


class NativeExitGPT(EarlyExitGPT):
    """An `EarlyExitGPT` whose layers are those of a native model."""

    def __init__(self, model: NativeGPT, exit: Exit) -> None:
        """Joins a native model and an exit of the type of its weights; ValueError if they do not fit."""
        super().__init__(cast(GPT, model), deepcopy(exit).to(model.dtype))
        proj = exit.proj.weight.t().contiguous()
        gain = packed_gain(exit.norm.weight).contiguous()
        if proj.dtype != model.weights_dtype or proj.device != model.device:
            raise ValueError(f"the exit must be of {model.weights_dtype} on a CPU, as the target is")
        self.native = model
        self._library = model._native
        self._exit: int = self._library.exit(exit.layers, len(gain), proj.data_ptr(), gain.data_ptr())
        # Not at the end of the process: another thread may be in a forward then.
        weakref.finalize(self, self._library.free_exit, self._exit).atexit = False
        self.check()

    __reduce__ = NativeGPT.__reduce__  # it refuses to be copied

    def can_draw(self, cache: ExitCache, k: int) -> bool:
        """Whether `draw` can take k steps: it reads one token more than a draft model does."""
        return self.native.can_draw(cache, k + 1)

    def propose(self, cache: ExitCache, pending: Tensor, k: int, warp: Warp, rng: RoundRng) -> Draft:
        """Guesses k tokens a row after the pending ones [B] (see `NativeDrafter`)."""
        core = partial(super().propose, cache, pending, k, warp, rng)
        return native_draft(self, cache, pending, k, warp, rng, core)

    def draw(self, tokens: Tensor, cache: ExitCache, k: int, *sampling: Any) -> tuple[Tensor, Tensor, int]:
        """Draws after tokens [B] as `NativeGPT.draw` does, by the first layers; all K+1 are read ahead.

        sampling: temperature, numbers, and budgets or none, as there.
        """
        if not cache.shared or not self.can_draw(cache, k):
            raise ValueError(f"an exit draws into the cache of its run, if it has space: not {k} more tokens")
        if cache.first.row_lengths != cache.row_lengths:  # a generator that enumerates drafts more than once
            cache.first.truncate(cache.row_lengths)
        streams = space_for(cache.rows, max(k, 0) + 1, self.hidden_size, dtype=self.native.dtype)
        drawn = self.native.draw(tokens, cache.first, k, *sampling, part=(self._exit, streams.data_ptr()))
        cache.streams = [streams]
        return drawn

    @torch.inference_mode()
    def check(self) -> None:
        """Compares distributions of a draft with the exit's own; ValueError if more than rounding differs."""
        tokens = torch.arange(self.vocab_size)[:8]
        cache = self.new_cache(len(tokens))
        self.share()
        _, drafted, _ = self.draw(tokens, cache, 1, 1.0, torch.full(tokens.shape, 0.5, dtype=torch.float64))
        expected = self.head(self.exit(cache.streams[0][:, :1])).softmax(-1)
        if not torch.allclose(drafted, expected, rtol=0, atol=TOLERANCE):
            raise ValueError("the native backend does not compute what the exit does")

    def first_layers(self, tokens: Tensor, cache: ExitCache) -> Tensor:
        """Takes tokens [B, n] through the first layers: the stream [B, n, D]."""
        return self.native.read(self._library.stream, tokens, cache.first, (self._exit, None))

    def later_layers(self, stream: Tensor, cache: ExitCache) -> Tensor:
        """Takes a stream through the other layers and the last norm: [B, n, D] -> [B, n, D]."""
        tokens = torch.zeros(stream.shape[:2], dtype=torch.long)  # have been read
        stream = stream.contiguous()
        return self.native.read(self._library.hidden, tokens, cache.later, (self._exit, stream.data_ptr()))
