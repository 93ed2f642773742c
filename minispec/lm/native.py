"""The native path: a model whose forward, and whole draft steps, are `native.cpp`.

PyTorch starts some fifteen operations a layer even in `LeanGPT`; here a forward is one call. It reads every
weight once for up to nine new tokens, of all rows, so that checking a draft costs far less than writing it.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from minispec.lm.cache import KVCache
from minispec.lm.lean import LeanGPT
from minispec.lm.model import DAMAGED, GPT
from minispec.lm.native_library import NAMES, Native, load_native

CLOSE = 1e-3  # logits may differ from the readable forward's by rounding
OUTSIDE = "there is a token id outside 0 to {}"


class NativeCache(KVCache):
    """A cache whose keys and values lie as `native.cpp` wants them.

    Attributes:
        room: all of them, one number behind the other.
        address: of the first.
    """

    def __init__(self, model: NativeGPT, rows: int) -> None:
        """Takes the room for `rows` rows of a model's whole context."""
        super().__init__(0, rows, 0, model.max_length, 0, model.dtype)
        self.room = torch.zeros(rows * model.cache_numbers, dtype=model.dtype)
        self.address = self.room.data_ptr()
        self._numbers = self.room.numel()

    def extend(self, new: int) -> None:
        """Counts n more tokens in every row; those past the context's end are not stored.

        Raises:
            ValueError: if no row has room for n more.
        """
        self.check_room(new)
        self._new = new
        self.commit()


class NativeGPT:
    """A GPT in C++. Satisfies `LanguageModel`; for decoding on a CPU only, no gradients.

    Attributes:
        config: the sizes.
        vocab_size: V.
        max_length: the context.
        dtype: the weights' type, float32 or float64.
        device: the CPU.
        cache_numbers: how many numbers a cache holds for each row.
    """

    def __init__(self, model: GPT, folder: Path | None = None) -> None:
        """Packs a model's weights; the first time, the library is built, which takes some seconds.

        Args:
            model: a GPT on a CPU, in float32 or float64.
            folder: where the library is kept; by default `native` in the cache folder.

        Raises:
            ValueError: if the model is on another device or of another type, there is no C++ compiler, the
                build fails, or the library does not compute what the model does.
        """
        if model.device.type != "cpu" or model.dtype not in NAMES:
            raise ValueError(
                "the native path is for float32 or float64 on a CPU; elsewhere use the lean path"
            )
        self.config, self.dtype, self.device = model.config, model.dtype, model.device
        self.vocab_size, self.max_length = model.vocab_size, model.max_length
        self._native = load_native(self.dtype, folder)
        lean = LeanGPT(model)
        self._head = lean.weights()[-1]
        self._handle = pack(self._native, lean)
        weakref.finalize(self, self._native.free, self._handle)
        self.cache_numbers = self._native.cache(self._handle)
        self.check(model)

    def new_cache(self, rows: int) -> NativeCache:
        """Returns an empty cache for `rows` rows of up to `max_length` tokens."""
        return NativeCache(self, rows)

    def hidden(self, tokens: Tensor, cache: KVCache | None = None) -> Tensor:
        """Reads tokens and returns the stream behind the last norm, its gain left to `head`.

        Args:
            tokens: [B, n] ids.
            cache: what came before, from `new_cache`; it is extended by n tokens a row. None: nothing did.

        Returns:
            [B, n, D].

        Raises:
            ValueError: if the context has no room for n more tokens, or the cache is of another kind.
        """
        return self._read(self._native.hidden, tokens, cache, self.config.width)

    def head(self, hidden: Tensor) -> Tensor:
        """Maps the stream [B, n, D] to logits [B, n, V]."""
        return hidden @ self._head

    def __call__(self, tokens: Tensor, cache: KVCache | None = None) -> Tensor:
        """Returns head(hidden(tokens, cache)): logits [B, n, V]."""
        return self._read(self._native.logits, tokens, cache, self.vocab_size)

    def can_draw(self, cache: KVCache, k: int) -> bool:
        """Whether `draw` can take k steps: the longest row must have room for them."""
        return max(cache.row_lengths) + k <= self.max_length

    def draw(
        self, tokens: Tensor, cache: KVCache, temperature: float, numbers: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Reads a token in each row and draws the next, and so on, as often as there are numbers.

        Args:
            tokens: [B], the pending tokens.
            cache: extended by K tokens a row: the pending one and all drawn ones but the last.
            temperature: 0 puts all mass on the largest logit.
            numbers: [B, K] float64 in [0, 1), what each draw is decided by.

        Returns:
            The ids [B, K], and the laws that they were drawn from [B, K, V].

        Raises:
            ValueError: if the context has no room for K more tokens, a token is none, or a logit is not
                finite.
        """
        (rows, k), pending = numbers.shape, tokens.tolist()
        cache = self._usable(cache, rows)
        if not self.can_draw(cache, k):
            raise ValueError(f"the context is full: {max(cache.row_lengths)} tokens and {k} more exceed it")
        if not all(0 <= token < self.vocab_size for token in pending):
            raise ValueError(OUTSIDE.format(self.vocab_size - 1))
        array, numbers = ctypes.c_int64 * rows, numbers.contiguous()
        ids, laws = (
            torch.empty(rows, k, dtype=torch.long),
            torch.empty(rows, k, self.vocab_size, dtype=self.dtype),
        )
        starts = array(*cache.row_lengths)
        cache.extend(k)
        places = numbers.data_ptr(), cache.address, laws.data_ptr(), ids.data_ptr()
        if not self._native.draft(self._handle, array(*pending), rows, starts, k, temperature, *places):
            raise ValueError(DAMAGED)
        return ids, laws

    @torch.inference_mode()
    def check(self, model: GPT) -> None:
        """Compares logits with a model's own, in two blocks.

        Raises:
            ValueError: if they differ by more than rounding.
        """
        text = ((7 * torch.arange(min(8, self.max_length)) + 3) % self.vocab_size)[None]
        cache = self.new_cache(1)
        ours = torch.cat([self(block, cache) for block in text.split([1, text.shape[1] - 1], dim=1)], dim=1)
        off = float((ours - model(text)).abs().max())
        if not off < CLOSE:
            raise ValueError(
                f"the native path does not compute what the model does: logits differ by {off:.1e}"
            )

    def _read(self, run: Callable[..., int], tokens: Tensor, cache: KVCache | None, columns: int) -> Tensor:
        rows, new = tokens.shape
        cache = self._usable(cache, rows)
        starts = (ctypes.c_int64 * rows)(*cache.row_lengths)
        cache.extend(new)
        ids, to = tokens.contiguous(), torch.empty(rows, new, columns, dtype=self.dtype)
        if not run(self._handle, ids.data_ptr(), rows, new, starts, cache.address, to.data_ptr()):
            cache.truncate(list(starts))
            raise ValueError(OUTSIDE.format(self.vocab_size - 1))
        return to

    def _usable(self, cache: KVCache | None, rows: int) -> NativeCache:
        """Returns the cache to read into: an empty one if none was given."""
        if cache is None:
            return self.new_cache(rows)
        if not isinstance(cache, NativeCache):
            raise ValueError("a native model needs a cache of its own: take it from its new_cache")
        if cache.rows != rows:
            raise ValueError(f"the cache has {cache.rows} rows, the tokens {rows}")
        return cache


def pack(native: Native, lean: LeanGPT) -> int:
    """Hands a model's weights over; returns the address of the library's own copy.

    Args:
        native: the library.
        lean: the model, gains and scales folded into its matrices.
    """
    c, angles = lean.config, torch.view_as_real(lean.turns)
    weights = [w.contiguous() for w in (*lean.weights(), angles[..., 0], angles[..., 1])]
    places = (ctypes.c_void_p * len(weights))(*[w.data_ptr() for w in weights])
    sizes = (c.vocab_size, c.layers, c.width, c.heads, c.kv_heads, c.head_dim, c.ffn, c.max_length)
    return native.new((ctypes.c_int64 * len(sizes))(*sizes), c.width * c.norm_eps, places)
