"""The native backend's model: its forward, and whole draft steps, are `native.cpp`.

PyTorch starts some fifty operations a layer; here a forward is one call. It reads every weight once for up to
nine new tokens, of all rows, so that checking a draft costs far less than writing it. Threads share it, as
many as torch may use, where the model is large enough for that to be faster.
"""

import copy
import ctypes
import os
import weakref
from collections.abc import Callable, Sequence
from operator import index
from typing import NoReturn

import torch
from torch import Tensor

from minispec.core.cache import KVCache
from minispec.core.model import GPT, Tree
from minispec.core.warp import DAMAGED
from minispec.native.cache import NativeCache
from minispec.native.checks import (
    check_budgets,
    check_ids,
    check_memory,
    check_temperature,
    checked,
    granted,
    memory_errors,
    space_for,
)
from minispec.native.library import COMPUTES_IN, load_native
from minispec.native.pack import hand_over, packed_weights

MOST_THREADS = 62  # that `Team` in threads.h can count
WEIGHTS_PER_THREAD = 250_000  # a forward is worth one more thread for so many weights
TOLERANCE = 1e-3  # logits may differ from those of the torch backend by rounding
BAD_TOKEN = "there is a token id outside 0 to {}"
Part = tuple[int | None, int | None]  # the addresses of an exit, and of streams [B, n, D] after its layers
ALL_LAYERS: Part = (None, None)  # of a forward


class NativeGPT:
    """A GPT in C++. Satisfies `LanguageModel`; for decoding on a CPU only, no gradients.

    Attributes:
        config: the sizes.
        vocab_size: V.
        max_length: the context.
        weights_dtype: the type of its weights.
        dtype: the type that it computes in, that of its logits and caches: float32 or float64.
        device: the CPU.
        cache_numbers: how many numbers a cache holds for each row.
        threads: how many share a forward, if torch may use as many.
    """

    def __init__(self, model: GPT, threads: int | None = None) -> None:
        """Packs a model's weights; the first time, the library is built, which takes some seconds.

        Args:
            model: a GPT on a CPU, in float32, float64 or bfloat16. Weights in bfloat16 stay as they are, and
                all sums are in float32.
            threads: how many share a forward, 62 at most; by default what `threads_for` says.

        Raises:
            TypeError: if the model is no GPT, or `threads` no integer.
            ValueError: if the model is on another device or of another type, `threads` is below 1, there is
                no C++ compiler, the build fails, or the library does not compute what the model does.
            MemoryError: if the system refuses the memory.
        """
        if not isinstance(model, GPT):
            raise TypeError(f"the native backend computes a GPT, not a {type(model).__name__}")
        if threads is not None and index(threads) < 1:
            raise ValueError(f"a forward needs at least 1 thread, not {threads}")
        if model.device.type != "cpu" or model.dtype not in COMPUTES_IN:
            raise ValueError(
                "the native backend is for float32, float64 or bfloat16 on a CPU; elsewhere use "
                "--backend torch"
            )
        self.config = model.config
        self.weights_dtype = model.dtype
        self.dtype = COMPUTES_IN[model.dtype]
        self.device = model.device
        self.vocab_size = model.vocab_size
        self.hidden_size = model.hidden_size
        self.max_length = model.max_length
        self.threads = min(threads or threads_for(model.parameters_count), MOST_THREADS)
        with memory_errors(), torch.device("cpu"):  # whatever the default device is
            self._native = load_native(model.dtype)
            weights = packed_weights(model)
        self._handle = hand_over(self._native, self.config, self.threads, weights)
        # Not at the end of the process: another thread may be in a forward then.
        weakref.finalize(self, self._native.free, self._handle).atexit = False
        self.cache_numbers = self._native.cache(self._handle)
        c = self.config  # what a forward takes for a token, in bytes: its vectors, scores and logits, about
        numbers = (
            3 * c.width + 2 * c.heads * c.head_dim + 2 * c.ffn + c.heads * c.max_length + 3 * c.vocab_size
        )
        self._bytes_per_token = self.dtype.itemsize * numbers
        with memory_errors(), torch.device("cpu"):
            self.check(model)

    def __reduce__(self) -> NoReturn:
        """Refuses to be copied: two would share memory of which neither knows when the other frees it."""
        raise TypeError("a native model cannot be copied or pickled; make another one of its GPT")

    def new_cache(self, rows: int) -> NativeCache:
        """Returns an empty cache for `rows` rows of up to `max_length` tokens."""
        return NativeCache(self, rows)

    def cache_of(self, layers: int, rows: int) -> NativeCache:
        """Returns an empty cache for some of the layers; memory of the others is never touched."""
        return NativeCache(self, rows)

    def hidden(self, tokens: Tensor, cache: KVCache | None = None, tree: Tree | None = None) -> Tensor:
        """Reads tokens [B, n] after what the cache holds; returns [B, n, D] and extends the cache.

        Raises:
            ValueError: if the context has no space for n more tokens, the cache is of another kind, or a tree
                is given: the library reads chains only.
            MemoryError: if the system refuses the memory; the cache is as before.
        """
        if tree is not None:
            raise ValueError("NativeGPT reads no trees; a GPT on the torch backend does")
        return self.read(self._native.hidden, tokens, cache)

    def head(self, hidden: Tensor) -> Tensor:
        """Maps the residual stream [B, n, D] to logits [B, n, V].

        Raises:
            TypeError: if it is no tensor of the model's type.
            ValueError: if it has another shape.
            MemoryError: if the system refuses the memory.
        """
        states = checked("hidden", hidden, (None, None, self.hidden_size), self.dtype)
        rows, new, _ = states.shape
        logits = space_for(rows, new, self.vocab_size, dtype=self.dtype)
        inputs = self._threads_now(), states.data_ptr(), rows * new
        granted(self._native.head(self._handle, *inputs, logits.data_ptr()))
        return logits

    def __call__(self, tokens: Tensor, cache: KVCache | None = None) -> Tensor:
        """Returns head(hidden(tokens, cache)): logits [B, n, V]."""
        return self.head(self.hidden(tokens, cache))

    def can_draw(self, cache: KVCache, k: int) -> bool:
        """Whether `draw` can take k steps: the longest row must have space for them."""
        return max(cache.row_lengths) + k <= self.max_length

    def draw(
        self,
        tokens: Tensor,
        cache: KVCache,
        k: int,
        temperature: float,
        numbers: Tensor,
        budgets: Sequence[int] | None = None,
        *,
        part: Part = ALL_LAYERS,
    ) -> tuple[Tensor, Tensor, int]:
        """Reads a token in each row and draws the next, and so on, K times.

        Numbers are used as `SeededRng` would: step by step, row by row at each, none where the outcome is
        certain or a row's budget has ended; there id 0 is drawn.

        Args:
            tokens: [B], the pending tokens.
            cache: extended by K tokens a row: the pending one and all drawn ones but the last.
            k: K.
            temperature: 0 puts all mass on the largest logit.
            numbers: [n] float64 in [0, 1), enough for all draws: B · K, or none at temperature 0.
            budgets: [B], how many draws each row may make; None: K.
            part: with an exit the first layers draft, and read the last token too; what they make of all is
                written to the streams [B, K+1, D].

        Returns:
            The ids [B, K], the distributions that they were drawn from [B, K, V], and how many numbers were
            used.

        Raises:
            TypeError: if an argument is of a wrong type.
            ValueError: if the context has no space for K more tokens, there are too few numbers or one is
                outside [0, 1), a token is out of range, or a logit is not finite.
            MemoryError: if the system refuses the memory; the cache is as before.
        """
        pending: list[int] = check_ids(tokens, 1).tolist()
        rows = len(pending)
        cache = self._usable(cache, rows)
        before = cache.row_lengths
        check_temperature(temperature)
        if index(k) < 1:
            raise ValueError(f"K must be at least 1, not {k}")
        new = k if part == ALL_LAYERS else k + 1
        if max(before) + new > self.max_length:
            raise ValueError(f"the context is full: {max(before)} tokens and {new} more exceed it")
        numbers = checked("the tensor of numbers", numbers, (None,), torch.float64)
        needed = rows * k
        if temperature > 0 and len(numbers) < needed:
            raise ValueError(f"{needed} numbers are needed, not {len(numbers)}")
        limits = [k] * rows if budgets is None else check_budgets(budgets, rows)
        ids = space_for(rows, k, dtype=torch.long)
        probs = space_for(rows, k, self.vocab_size, dtype=self.dtype)
        # One array is made sooner than three.
        integers = (ctypes.c_int64 * (3 * rows))(*pending, *before, *limits)
        first = ctypes.addressof(integers)
        size = 8 * rows
        inputs = first + 2 * size, numbers.data_ptr(), cache.address
        sizes = first, rows, first + size, k, temperature
        outputs = probs.data_ptr(), ids.data_ptr()
        used: int = self._native.draft(self._handle, self._threads_now(), *sizes, *inputs, *outputs, *part)
        if granted(used) < 0:
            raise ValueError(self._refusal(used, pending))
        cache.extend(new)
        return ids, probs, used

    @torch.inference_mode()
    def check(self, model: GPT) -> None:
        """Compares logits with a model's own, in two blocks; ValueError if more than rounding differs."""
        text = ((7 * torch.arange(min(8, self.max_length)) + 3) % self.vocab_size)[None]
        cache = self.new_cache(1)
        blocks = (text[:, :1], text[:, 1:])
        # The second is empty where the context holds one token.
        logits = torch.cat([self(block, cache) for block in blocks if block.numel()], dim=1)
        if model.dtype != self.dtype:
            model = copy.deepcopy(model).to(self.dtype)
        # A damaged model gives NaN; that is for the warp to report.
        logits, expected = (x.where(x.isfinite(), torch.nan) for x in (logits, model(text)))
        if not torch.allclose(logits, expected, rtol=0, atol=TOLERANCE, equal_nan=True):
            difference = float((logits - expected).abs().max())
            raise ValueError(
                f"the native backend does not compute what the model does: logits differ by {difference:.1e}"
            )

    def read(
        self, function: Callable[..., int], tokens: Tensor, cache: KVCache | None, part: Part = ALL_LAYERS
    ) -> Tensor:
        """Has a function of the library read tokens [B, n], and extends the cache: [B, n, D] (see `hidden`).

        part: with an exit, which layers read them: the first ones, or with streams [B, n, D] the others.
        """
        ids = check_ids(tokens, 2)
        rows, new = ids.shape
        cache = self._usable(cache, rows)
        check_memory(rows * new * self._bytes_per_token, "this forward")
        cache.check_space(new)
        starts = (ctypes.c_int64 * rows)(*cache.row_lengths)
        states = space_for(rows, new, self.hidden_size, dtype=self.dtype)
        inputs = ids.data_ptr(), rows, new, starts, cache.address
        if not granted(function(self._handle, self._threads_now(), *inputs, states.data_ptr(), *part)):
            raise ValueError(BAD_TOKEN.format(self.vocab_size - 1))
        cache.extend(new)
        return states

    def _refusal(self, code: int, pending: Sequence[int]) -> str:
        """Returns why the library has drawn nothing: what it looks at itself is not looked at before."""
        if code == -2:
            return "the numbers to draw by must lie in [0, 1)"
        all_valid = all(0 <= token < self.vocab_size for token in pending)
        return DAMAGED if all_valid else BAD_TOKEN.format(self.vocab_size - 1)

    def _threads_now(self) -> int:
        """Returns how many threads are to share a forward."""
        return max(1, min(self.threads, torch.get_num_threads()))

    def _usable(self, cache: KVCache | None, rows: int) -> NativeCache:
        """Returns the cache to read into: an empty one if none was given."""
        if cache is None:
            return self.new_cache(rows)
        if not isinstance(cache, NativeCache):
            raise ValueError("a native model needs a cache of its own: take it from its new_cache")
        if cache.owner() is not self or cache.capacity != self.max_length:
            raise ValueError("the cache is another model's: take it from this model's new_cache")
        if cache.rows != rows or cache._memory.numel() != rows * self.cache_numbers:
            raise ValueError(f"the cache has {cache.rows} rows, the tokens {rows}")
        return cache


def threads_for(parameters: int) -> int:
    """Returns how many threads are to share a forward of a model of so many parameters; at least 1.

    No more than there are cores for this process: to wait for a thread that cannot run takes too long.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    return max(1, min(cores, parameters // WEIGHTS_PER_THREAD))
