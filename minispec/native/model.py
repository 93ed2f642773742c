"""The native backend's model: its forward is in `cpp/forward.h`, and whole drafts in `cpp/drafts.h`.

PyTorch starts some fifty operations a layer; here a forward is one call. It reads every weight once for up to
nine new tokens, of all rows, so that checking a draft costs far less than writing it. Threads share it, as
many as torch may use, where the model is large enough for that to be faster.
"""

import ctypes
import os
from collections.abc import Mapping, Sequence
from operator import index
from time import perf_counter
from types import SimpleNamespace
from typing import Any, NoReturn

import torch
from torch import Tensor

from minispec.core.cache import KVCache
from minispec.core.model import GPT, GPTConfig, Tree
from minispec.native.cache import NativeCache
from minispec.native.checks import check, check_ids, check_memory, checked, memory_errors, space_for
from minispec.native.library import load_native
from minispec.native.pack import Packed, PackedMatrix, kept_logits, pack_model
from minispec.native.structs import COMPUTES_IN, BlockRecord, integers

READ_AT_ONCE = 72  # tokens, a multiple of the rows of a tile: scores take memory for each and all before it
READ_AT_LEAST = 24  # tokens of each row: a draft with its pending token is read at once in a batch, too
MOST_THREADS = 62  # that `Team` in threads.h can count
WEIGHTS_PER_THREAD = 250_000  # a forward is worth one more thread for so many weights
TOLERANCE = 1e-3  # logits may differ from those of the torch backend by rounding


class NativeLayers:
    """Layers in C++, and a norm after them: those of a model, or of a drafter that has no more.

    Attributes:
        config: the sizes.
        packed_layers: how many there are.
        hidden_size: D.
        max_length: the context.
        weights_dtype: the type of the weights that they were made of.
        dtype: the type that they compute in, that of their states and caches: float32 or float64.
        device: the CPU.
        threads: how many share a forward, if torch may use as many.
        embeds: whether they have an embedding before them.
        seconds: that its forwards have taken, those within drafts and rounds left out.
    """

    device = torch.device("cpu")

    def __init__(
        self,
        native: SimpleNamespace,
        packed: Packed,
        config: GPTConfig,
        layers: int,
        dtype: torch.dtype,
        threads: int,
    ) -> None:
        """Takes what the library has packed: so many layers, made of weights of a type."""
        self.native = native
        self.packed = packed
        self.config = config
        self.packed_layers = layers
        self.embeds = False
        self.weights_dtype = dtype
        self.dtype = COMPUTES_IN[native.dtype]
        self.hidden_size = config.width
        self.max_length = config.max_length
        self.threads = threads
        self.seconds = 0.0
        c = config
        self._columns = (c.heads + 2 * c.kv_heads) * c.head_dim  # of queries, keys and values
        # What a forward takes for a token, in bytes: its vectors.
        self._bytes_per_token = self.dtype.itemsize * (3 * c.width + 2 * c.heads * c.head_dim + 2 * c.ffn)

    def __reduce__(self) -> NoReturn:
        """Refuses to be copied: two would share memory of which neither knows when the other frees it."""
        raise TypeError("a native model cannot be copied or pickled; make another one of its GPT")

    @property
    def threads_now(self) -> int:
        """How many threads are to share a forward."""
        return max(1, min(self.threads, torch.get_num_threads()))

    def new_cache(self, rows: int) -> NativeCache:
        """Returns an empty cache for `rows` rows of up to `max_length` tokens."""
        return NativeCache(self, rows, self.packed_layers)

    def cache_of(self, layers: int, rows: int) -> NativeCache:
        """Returns an empty cache for so many layers and rows."""
        return NativeCache(self, rows, layers)

    def read(
        self,
        tokens: Tensor,
        cache: KVCache,
        layers: tuple[int, int],
        *,
        states: Tensor | None = None,
        normed: bool = True,
        tree: Tree | None = None,
        taps: Sequence[int] = (),
        qkv: Tensor | None = None,
    ) -> Tensor:
        """Reads tokens [B, n] after what a cache of these layers holds, and extends it.

        Args:
            tokens: ids.
            cache: as `cache_of` makes them.
            layers: the first of them, and the one after the last.
            states: [B, n, D], what goes into the first layer; None: the embeddings of the tokens.
            normed: whether the norm follows.
            tree: where the tokens stand, if not one after the other.
            taps: after how many layers the stream is wanted, too.
            qkv: [B, n, columns], queries, keys and values of the first layer, in the order in which they are
                packed; None: it makes them itself.

        Returns:
            What the layers make of them, after the streams at the taps: [B, n, (taps + 1) · D].

        Raises:
            TypeError: if something is of a wrong type.
            ValueError: if the context has no space, the cache is another model's, or an id is none.
            MemoryError: if the system refuses the memory; the cache is as before.
        """
        ids = check_ids(tokens, 2)
        rows, new = ids.shape
        width = max(READ_AT_ONCE // rows, READ_AT_LEAST)
        if tree is None and new > width:
            given = {name: x for name, x in (("states", states), ("qkv", qkv)) if x is not None}
            return self._read_in_parts(ids, cache, layers, given, {"normed": normed, "taps": taps}, width)
        if not 0 <= index(layers[0]) <= index(layers[1]) <= self.packed_layers:
            raise ValueError(f"there are no layers from {layers[0]} to {layers[1]} of {self.packed_layers}")
        if not all(layers[0] < index(tap) <= layers[1] for tap in taps):
            raise ValueError(f"taps {[*taps]} do not lie in layers {layers[0] + 1} to {layers[1]}")
        held = self.usable(cache, rows, layers)
        check_memory(rows * new * self._bytes_per_token, "this forward")
        held.check_space(new)
        held.make_space(new)
        if states is None and not self.embeds:
            raise ValueError("layers that draft for a target have no embedding: give states")
        if states is not None:
            states = checked("states", states, (rows, new, self.hidden_size), self.dtype)
        made = space_for(rows, new, (len(taps) + 1) * self.hidden_size, dtype=self.dtype)
        after = integers(taps)
        starts = integers(held.row_lengths)
        block = BlockRecord(
            *(rows, new, ids.data_ptr(), None if states is None else states.data_ptr()),
            *(ctypes.addressof(starts), held.address, held.slots, *layers),
        )
        if tree is not None:
            tree = checked_tree(tree, rows, new)  # it is kept until it has been read
            block.positions, block.mask, block.window = *(x.data_ptr() for x in tree), tree.mask.shape[2]
        block.taps, block.tap_count = ctypes.addressof(after), len(taps)
        if qkv is not None:
            qkv = checked("qkv", qkv, (rows, new, self._columns), self.dtype)
            block.qkv = qkv.data_ptr()
        block.hidden = made.data_ptr()
        started = perf_counter()
        status = self.native.read(
            self.native.type, self.packed.address, self.threads_now, ctypes.byref(block), normed
        )
        self.seconds += perf_counter() - started
        check(status, self.config.vocab_size)
        held.extend(new)
        return made

    def _read_in_parts(
        self,
        ids: Tensor,
        cache: KVCache,
        layers: tuple[int, int],
        given: Mapping[str, Tensor],
        settings: Mapping[str, Any],
        width: int,
    ) -> Tensor:
        """Reads ids [B, n], and what is given for each, as `read` does: so many of each row at a time."""
        held = self.usable(cache, len(ids), layers)
        before = held.row_lengths
        held.check_space(ids.shape[1])
        for name, numbers in given.items():
            checked(name, numbers, (*ids.shape, None), self.dtype)
        made = []
        try:
            for first in range(0, ids.shape[1], width):
                part = slice(first, first + width)
                of_part: dict[str, Any] = {name: numbers[:, part] for name, numbers in given.items()}
                made.append(self.read(ids[:, part], held, layers, **of_part, **settings))
        except (ValueError, MemoryError):
            held.hold(before)
            raise
        return torch.cat(made, dim=1)

    def multiply(self, matrix: PackedMatrix, states: Tensor) -> Tensor:
        """Multiplies states [..., depth] with a matrix: [..., columns]; ValueError if they do not fit."""
        depth = matrix.sizes[0]
        states = checked("states", states, None, self.dtype)
        if states.shape[-1:] != (depth,):
            raise ValueError(f"states must be of {depth} numbers, not {list(states.shape)}")
        return self._multiply(matrix, states)

    def _multiply(self, matrix: PackedMatrix, states: Tensor) -> Tensor:
        """Does so with states [..., depth] that have been checked."""
        depth, columns = matrix.sizes
        made = space_for(*states.shape[:-1], columns, dtype=self.dtype)
        rows = states.numel() // depth
        inputs = matrix.address, self.threads_now, states.data_ptr(), rows, made.data_ptr()
        started = perf_counter()
        status = self.native.multiply(self.native.type, *inputs)
        self.seconds += perf_counter() - started
        check(status, columns)
        return made

    def usable(self, cache: KVCache | None, rows: int, layers: tuple[int, int]) -> NativeCache:
        """Returns a cache of this model, for these rows and layers; ValueError if it is another."""
        if not isinstance(cache, NativeCache):
            raise ValueError("a native model needs a cache of its own: take it from its new_cache")
        if cache.owner() is not self or cache.capacity != self.max_length:
            raise ValueError("the cache is another model's: take it from this model's new_cache")
        if cache.rows != rows:
            raise ValueError(f"the cache has {cache.rows} rows, the tokens {rows}")
        if cache.shape != (layers[1] - layers[0], rows):
            raise ValueError("the cache is for other layers of this model")
        return cache


def checked_tree(tree: Tree, rows: int, new: int) -> Tree:
    """Returns a tree of n tokens in each row as the library reads it; ValueError if it is none."""
    positions = checked("the tree's positions", tree.positions, (rows, new), torch.int64)
    mask = checked("the tree's mask", tree.mask, (rows, new, None), torch.bool)
    if bool((positions < 0).any()) or mask.shape[2] < new:
        raise ValueError("a tree's positions are at least 0, and its mask is as wide as it has tokens")
    return Tree(positions, mask)


class NativeGPT(NativeLayers):
    """A GPT in C++. Satisfies `LanguageModel`; for decoding on a CPU only, no gradients.

    Attributes:
        vocab_size: V.
        packed_head: what the head multiplies with, [D, V].
    """

    def __init__(self, model: GPT, threads: int | None = None, kept: torch.dtype | None = None) -> None:
        """Packs a model's weights; the first time, the library is built, which takes some seconds.

        Args:
            model: a GPT on a CPU. Its layers are packed one by one, so only one is in memory twice.
            threads: how many share a forward, 62 at most; by default what `threads_for` says.
            kept: the type that weights are kept in, by default as they are: float32, float64, or bfloat16,
                whose sums are in float32; int8 rounds matrices to 8 bits (see `pack.py`), and all else is in
                float32.

        Raises:
            TypeError: if the model is no GPT, or `threads` no integer.
            ValueError: if the model is on another device, the type is another, `threads` is below 1, there is
                no C++ compiler, the build fails, or the library does not compute what the model does.
            MemoryError: if the system refuses the memory.
        """
        if not isinstance(model, GPT):
            raise TypeError(f"the native backend computes a GPT, not a {type(model).__name__}")
        if threads is not None and index(threads) < 1:
            raise ValueError(f"a forward needs at least 1 thread, not {threads}")
        kept = kept or model.dtype
        if model.device.type != "cpu" or kept not in COMPUTES_IN:
            raise ValueError(
                f"the native backend keeps weights in float32, float64, bfloat16 or int8, on a CPU: for "
                f"{kept} on {model.device} use --backend torch"
            )
        threads = min(threads or threads_for(model.parameters_count), MOST_THREADS)
        with memory_errors(), torch.device("cpu"):  # whatever the default device is
            native = load_native(kept)
            packed, self.packed_head = pack_model(native, model, threads)
        super().__init__(native, packed, model.config, model.config.layers, model.dtype, threads)
        self.vocab_size = model.vocab_size
        self.embeds = True
        with memory_errors(), torch.device("cpu"):
            self.check(model)

    def hidden(self, tokens: Tensor, cache: KVCache | None = None, tree: Tree | None = None) -> Tensor:
        """Reads tokens [B, n] after what the cache holds; returns [B, n, D] and extends the cache.

        Raises:
            ValueError: if the context has no space for n more tokens, the cache is of another kind, or a tree
                comes without a cache.
            MemoryError: if the system refuses the memory; the cache is as before.
        """
        if cache is None:
            if tree is not None:
                raise ValueError("a tree needs a cache: take one from new_cache")
            cache = self.new_cache(len(check_ids(tokens, 2)))
        return self.read(tokens, cache, (0, self.packed_layers), tree=tree)

    def head(self, hidden: Tensor) -> Tensor:
        """Maps the residual stream [B, n, D] to logits [B, n, V].

        Raises:
            TypeError: if it is no tensor of the model's type.
            ValueError: if it has another shape.
            MemoryError: if the system refuses the memory.
        """
        states = checked("hidden", hidden, (None, None, self.hidden_size), self.dtype)
        return self._multiply(self.packed_head, states)

    def __call__(self, tokens: Tensor, cache: KVCache | None = None) -> Tensor:
        """Returns head(hidden(tokens, cache)): logits [B, n, V]."""
        return self.head(self.hidden(tokens, cache))

    @torch.inference_mode()
    def check(self, model: GPT) -> None:
        """Compares logits with a model's own, in two blocks; ValueError if more than rounding differs."""
        text = ((7 * torch.arange(min(8, self.max_length)) + 3) % self.vocab_size)[None]
        cache = self.new_cache(1)
        blocks = (text[:, :1], text[:, 1:])
        # The second is empty where the context holds one token.
        logits = torch.cat([self(block, cache) for block in blocks if block.numel()], dim=1)
        expected = kept_logits(model, text, self.native.dtype)
        # A damaged model gives NaN; that is for the warp to report.
        logits, expected = (x.where(x.isfinite(), torch.nan) for x in (logits, expected))
        if not torch.allclose(logits, expected, rtol=0, atol=TOLERANCE, equal_nan=True):
            difference = float((logits - expected).abs().max())
            raise ValueError(
                f"the native backend does not compute what the model does: logits differ by {difference:.1e}"
            )


def threads_for(parameters: int) -> int:
    """Returns how many threads are to share a forward of a model of so many parameters; at least 1.

    No more than there are cores for this process: to wait for a thread that cannot run takes too long.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    return max(1, min(cores, parameters // WEIGHTS_PER_THREAD))
