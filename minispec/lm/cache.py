"""The key-value cache: what a model remembers of the tokens it has read.

Every layer keeps a key and a value for every token. The room for them is taken once. A row's
length says how much of its room counts, so forgetting is cheap: `truncate` sets the length and
copies nothing. That is what makes rolling back a rejected draft almost free.

Rows of one batch may have different lengths. New tokens come right-padded to one width; the caller
truncates each row to what was real.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class KVCache:
    """Keys and values of all layers, for B rows of up to `capacity` tokens.

    Attributes:
        rows: B.
        capacity: the most tokens that a row can hold.
    """

    def __init__(
        self,
        layers: int,
        rows: int,
        kv_heads: int,
        capacity: int,
        head_dim: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        """Takes the room: 2 · layers · B · kv_heads · capacity · head_dim numbers."""
        assert rows >= 1 and capacity >= 1
        self.rows = rows
        self.capacity = capacity
        shape = (layers, rows, kv_heads, capacity, head_dim)
        self._keys = torch.zeros(shape, dtype=dtype, device=device)
        self._values = torch.zeros(shape, dtype=dtype, device=device)
        self._numbers = 2 * self._keys.numel()
        # Plain integers: the loop reads them after every forward, and asking a GPU would make it wait.
        self._lengths = [0] * rows
        self._new = 0
        self._end = 0
        self._slots: tuple[Tensor, Tensor, Tensor] | None = None
        # Added to attention scores: row i is what the token at place i may see, itself and all before it.
        self._bias = torch.full((capacity, capacity), float("-inf"), dtype=dtype, device=device).triu(1)

    @property
    def lengths(self) -> Tensor:
        """How many tokens each row holds: [B], int64, on the CPU."""
        return torch.tensor(self._lengths)

    @property
    def row_lengths(self) -> tuple[int, ...]:
        """The same as plain integers."""
        return tuple(self._lengths)

    @property
    def is_level(self) -> bool:
        """Whether all rows have the same length, so that plain slices will do."""
        return min(self._lengths) == max(self._lengths)

    @property
    def end(self) -> int:
        """Within a forward: how many slots the longest row will fill."""
        return self._end

    @property
    def bytes(self) -> int:
        """Memory taken, in bytes."""
        return self._numbers * self._keys.element_size()

    def begin(self, new: int) -> tuple[slice | Tensor, Tensor | None]:
        """Prepares to append `new` tokens to every row.

        A row that is nearly full may be padded past its end, if another row has the room: what lies
        past the end is not stored, and its outputs mean nothing.

        Args:
            new: n, the width of the block that comes.

        Returns:
            Positions, a slice for level rows, else [B, n]; past the end they stay at the last slot. And a
            mask, 0 where a new token may look and −∞ where not: [n, end] for level rows, else [B, 1, n, end];
            None where a single token sees all there is.

        Raises:
            ValueError: if no row has room for n more.
        """
        self.check_room(new)
        self._new = new
        self._end = end = min(max(self._lengths) + new, self.capacity)
        if self.is_level:
            start, self._slots = self._lengths[0], None
            return slice(start, end), None if new == 1 else self._bias[start:end, :end]
        device = self._keys.device
        positions = torch.tensor(self._lengths, device=device)[:, None] + torch.arange(new, device=device)
        row, column = (positions < self.capacity).nonzero(as_tuple=True)
        self._slots = (row, column, positions[row, column])
        positions = positions.clamp(max=self.capacity - 1)
        return positions, self._bias[positions][:, None, :, :end]

    def check_room(self, new: int) -> None:
        """Raises ValueError if not even the shortest row has room for n more tokens."""
        if min(self._lengths) + new > self.capacity:
            raise ValueError(
                f"the context is full: {min(self._lengths)} tokens and {new} more exceed {self.capacity}"
            )

    def append(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Writes one layer's new keys and values behind each row's old ones.

        Args:
            layer: which layer.
            keys: [B, kv_heads, n, head_dim].
            values: the same shape.

        Returns:
            All keys and all values so far, [B, kv_heads, end, head_dim] each. For ragged rows,
            slots behind a row's own end hold leftovers: the mask of `begin` hides them.
        """
        end = self._end
        if self._slots is None:
            start = self._lengths[0]
            self._keys[layer, :, :, start:end] = keys
            self._values[layer, :, :, start:end] = values
        else:
            row, column, slot = self._slots
            self._keys[layer, row, :, slot] = keys[row, :, column]
            self._values[layer, row, :, slot] = values[row, :, column]
        return self._keys[layer, :, :, :end], self._values[layer, :, :, :end]

    def commit(self) -> None:
        """Counts what the layers have appended since `begin`."""
        self._lengths = [min(length + self._new, self.capacity) for length in self._lengths]
        self._new = 0

    def truncate(self, lengths: Sequence[int] | Tensor) -> None:
        """Forgets everything behind the first `lengths[b]` tokens of row b, in O(1), copying nothing.

        Args:
            lengths: [B], each between 0 and the row's present length.

        Raises:
            ValueError: if a length is negative or more than the row holds.
        """
        wanted = [int(n) for n in lengths]
        if len(wanted) != self.rows:
            raise ValueError(f"truncate needs {self.rows} lengths, one per row, not {len(wanted)}")
        for row, (old, new) in enumerate(zip(self._lengths, wanted, strict=True)):
            if not 0 <= new <= old:
                raise ValueError(f"row {row} holds {old} tokens and cannot be truncated to {new}")
        self._lengths = wanted
