"""The native backend's cache: keys and values as the library wants them."""

from collections.abc import Sequence
from operator import index
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np
import torch

from minispec.core.cache import KVCache
from minispec.native.checks import check_memory
from minispec.native.structs import INT

if TYPE_CHECKING:
    from minispec.native.model import NativeLayers


class NativeCache(KVCache):
    """A cache whose keys and values lie as the library wants them.

    Attributes:
        owner: a weak reference to the model that it is for: an address may be another model's later.
        layers: of how many of its layers.
    """

    def __init__(self, model: "NativeLayers", rows: int, layers: int) -> None:
        """Takes the memory for `rows` rows of a model's whole context.

        Raises:
            TypeError: if `rows` is no integer.
            ValueError: if it is below 1, or more than this machine can hold.
            MemoryError: if the system refuses the memory.
        """
        if index(rows) < 1:
            raise ValueError(f"a cache has at least 1 row, not {rows}")
        numbers = rows * layers * model.numbers_per_layer
        check_memory(model.dtype.itemsize * numbers, f"a cache of {rows:,} rows")
        c = model.config
        super().__init__(layers, rows, c.kv_heads, c.max_length, c.head_dim, model.dtype)
        # By numpy: for so many zeros torch starts threads of its own, which then keep the cores from ours.
        kind = np.float64 if model.dtype == torch.float64 else np.float32
        self._memory = torch.from_numpy(np.zeros(numbers, kind))
        self._by_row = self._memory.view(layers, rows, -1)
        self.layers = layers
        self.owner = ref(model)

    @property
    def bytes(self) -> int:
        """Memory taken, in bytes."""
        return self._memory.nbytes

    @property
    def numbers(self) -> int:
        """How many numbers it can hold."""
        return self._memory.numel()

    @property
    def address(self) -> int:
        """The address of its first number: a copy of a cache has its own."""
        return self._memory.data_ptr()

    @property
    def shape(self) -> tuple[int, int]:
        """For how many layers and rows there is memory."""
        return self._by_row.shape[0], self._by_row.shape[1]

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
        """
        self.check_slots(indices)
        indices = [list(map(index, slots)) for slots in indices]
        model = self.owner()
        if model is None or self.capacity != model.max_length:
            raise ValueError("the cache is for a model that is gone, or another")
        for row, slots in enumerate(indices):
            unmoved = sum(position == slot for position, slot in enumerate(slots))
            moved = (INT * (len(slots) - unmoved))(*slots[unmoved:])
            if moved:
                model.gather(self, row, unmoved, moved)
        self._lengths = [len(slots) for slots in indices]

    def place(self, row: int, other: KVCache, source: int) -> None:
        """Takes over, into one row, what another cache of the same model holds in its row `source`.

        Raises:
            ValueError: if the other cache is another model's, or there is no such row.
        """
        if not isinstance(other, NativeCache) or other.owner is not self.owner or other.layers != self.layers:
            raise ValueError("a row can be taken over from a cache of the same native model only")
        if not (0 <= index(row) < self._by_row.shape[1] and 0 <= index(source) < other._by_row.shape[1]):
            raise ValueError(f"there is no row {row}, or no row {source} to take over")
        self._by_row[:, row] = other._by_row[:, source]
        self._lengths[row] = other._lengths[source]

    def begin(self, *_: Any, **__: Any) -> Any:
        """Refuses, with a ValueError: only its model writes into it."""
        raise ValueError("a native cache is for native models; take one from the other model's new_cache")
