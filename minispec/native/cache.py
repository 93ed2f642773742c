"""The native backend's cache: keys and values as the library wants them."""

from collections.abc import Sequence
from math import prod
from operator import index
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np
import torch

from minispec.core.cache import STEP, KVCache
from minispec.native.checks import check_memory

if TYPE_CHECKING:
    from minispec.native.model import NativeLayers

Numbers = np.ndarray[Any, Any]

UNIT = 16  # so many numbers are whole vectors on every processor


class NativeCache(KVCache):
    """A cache whose keys and values lie as the library wants them; memory for them grows in steps.

    Attributes:
        owner: a weak reference to the model that it is for: an address may be another model's later.
    """

    def __init__(self, model: "NativeLayers", rows: int, layers: int) -> None:
        """Takes the memory for the first tokens of `rows` rows.

        Raises:
            TypeError: if `rows` is no integer.
            ValueError: if it is below 1, or more than this machine can hold.
            MemoryError: if the system refuses the memory.
        """
        if index(rows) < 1:
            raise ValueError(f"a cache has at least 1 row, not {rows}")
        c = model.config
        self._sizes = c.head_dim, -(-c.head_dim // UNIT) * UNIT  # of a key, of a value
        least = layers * rows * c.kv_heads * sum(self._sizes) * UNIT * model.dtype.itemsize
        check_memory(least, f"a cache of {rows:,} rows")
        super().__init__(layers, rows, c.kv_heads, c.max_length, c.head_dim, model.dtype)
        self._memory = torch.zeros(layers, rows, c.kv_heads, 0, dtype=model.dtype, device="cpu")
        self.owner = ref(model)
        self.reserve(1)

    @property
    def bytes(self) -> int:
        """Memory taken, in bytes."""
        return self._memory.nbytes

    @property
    def slots(self) -> int:
        """For how many tokens of each row there is memory."""
        return self._memory.shape[3] // sum(self._sizes)

    @property
    def address(self) -> int:
        """The address of its first number: a copy of a cache has its own."""
        return self._memory.data_ptr()

    @property
    def shape(self) -> tuple[int, int]:
        """For how many layers and rows there is memory."""
        return self._memory.shape[0], self._memory.shape[1]

    def make_space(self, new: int) -> None:
        """Takes memory for n more tokens in every row, as far as the context goes (see `reserve`)."""
        self.reserve(min(max(self._lengths) + new, self.capacity))

    def reserve(self, end: int) -> None:
        """Takes memory for `end` tokens a row; twice as much as before at least, so that copying is rare.

        Raises:
            ValueError: if it is more than this machine can hold.
            MemoryError: if the system refuses the memory; the cache is as before.
        """
        before = self.slots
        if end <= before:
            return
        slots = min(max(2 * before, -(-end // STEP) * STEP), self.capacity)
        # An odd number of units: slots apart by a power of two would share few places in a processor's cache.
        slots = (-(-slots // UNIT) | 1) * UNIT
        layers, rows, heads, _ = self._memory.shape
        shape = layers, rows, heads, slots * sum(self._sizes)
        check_memory(prod(shape) * self._memory.itemsize, f"a cache of {rows:,} rows")
        held = self._parts()
        # By numpy: for so many zeros torch starts threads of its own, which then keep the cores from ours.
        self._memory = torch.from_numpy(np.zeros(shape, held[0].dtype))
        for part, old in zip(self._parts(), held, strict=True):
            part[:, :, :, :before] = old

    def _parts(self) -> tuple[Numbers, Numbers]:
        """Returns keys and values, [layers, B, kv_heads, slots, size] each."""
        numbers = self._memory.numpy()
        slots = self.slots
        key, value = self._sizes
        keys, values = numbers[..., : slots * key], numbers[..., slots * key :]
        first = numbers.shape[:3]
        return keys.reshape(*first, key, slots).swapaxes(3, 4), values.reshape(*first, slots, value)

    def extend(self, new: int) -> None:
        """Counts n more tokens in every row; those past the context's end are not stored."""
        self._lengths = [min(n + new, self.capacity) for n in self._lengths]

    def hold(self, lengths: Sequence[int]) -> None:
        """Counts so many tokens in each row, [B]: no more than the library has read."""
        self._lengths = list(lengths)

    def gather(self, indices: Sequence[Sequence[int]]) -> None:
        """Keeps some slots of each row, moved together in their order (see `KVCache.gather`).

        Raises:
            ValueError: if they do not ascend, or lie beyond what the row holds.
            TypeError: if one is no integer.
        """
        kept = self.checked_slots(indices)
        model = self.owner()
        if model is None or self.capacity != model.max_length:
            raise ValueError("the cache is for a model that is gone, or another")
        for row, slots in enumerate(kept):
            unmoved = sum(position == slot for position, slot in enumerate(slots))
            for part in self._parts():
                of_row = part[:, row]
                of_row[:, :, unmoved : len(slots)] = of_row[:, :, slots[unmoved:]]
        self._lengths = list(map(len, kept))

    def place(self, row: int, other: KVCache, source: int) -> None:
        """Takes over, into one row, what another cache of the same model holds in its row `source`.

        Raises:
            ValueError: if the other cache is another model's, or there is no such row.
        """
        layers, rows = self.shape
        if not isinstance(other, NativeCache) or other.owner is not self.owner or other.shape[0] != layers:
            raise ValueError("a row can be taken over from a cache of the same native model only")
        if not (0 <= index(row) < rows and 0 <= index(source) < other.shape[1]):
            raise ValueError(f"there is no row {row}, or no row {source} to take over")
        length = other._lengths[source]
        self.reserve(length)
        for part, from_part in zip(self._parts(), other._parts(), strict=True):
            part[:, row, :, :length] = from_part[:, source, :, :length]
        self._lengths[row] = length

    def begin(self, *_: Any, **__: Any) -> Any:
        """Refuses, with a ValueError: only its model writes into it."""
        raise ValueError("a native cache is for native models; take one from the other model's new_cache")
