"""The key-value cache: what a model remembers of the tokens it has read.

Every layer keeps a key and a value for every token. Memory for them grows in steps. A row's length says how
much of it counts, so forgetting is cheap: `truncate` sets the length and copies nothing. That is what makes
rolling back a rejected draft almost free.

Rows of one batch may have different lengths. New tokens come right-padded to one width; the caller
truncates each row to what was real.
"""

from collections.abc import Sequence
from operator import index

import torch
from torch import Tensor
from torch.nn.functional import pad

STEP = 256  # slots a row: no less memory is taken at a time


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
        """Makes an empty cache; a token takes 2 · layers · kv_heads · head_dim numbers in each row."""
        assert layers >= 1 and rows >= 1 and capacity >= 1
        self.rows = rows
        self.capacity = capacity
        self._keys = torch.zeros(layers, rows, kv_heads, 0, head_dim, dtype=dtype, device=device)
        self._values = self._keys
        self._lengths = [0] * rows  # plain integers: asking a GPU would make the loop wait
        self._new = 0
        self._end = 0
        self._slots: tuple[Tensor, Tensor, Tensor] | None = None

    @property
    def lengths(self) -> Tensor:
        """How many tokens each row holds in all layers: [B], int64, on the CPU."""
        return torch.tensor(self.row_lengths)

    @property
    def row_lengths(self) -> tuple[int, ...]:
        """The same as plain integers."""
        return tuple(self._lengths)

    @property
    def bytes(self) -> int:
        """Memory taken, in bytes."""
        return self._keys.nbytes + self._values.nbytes

    def begin(self, new: int, mask: Tensor | None = None) -> tuple[slice | Tensor, Tensor | None]:
        """Prepares to append n tokens to every row.

        A row that is nearly full may be padded past its end, if another row has space: what lies
        past the end is not stored, and its outputs mean nothing.

        Args:
            new: n, the width of the block that comes.
            mask: [B, n, w] bool, what each new token sees of the new ones and of w − n before them; it sees
                all before these. By default itself and those before it.

        Returns:
            Slots: a slice for rows of equal length, else [B, n]; past the end they stay at the last one.
            And what to add to attention scores, 0 where a new token may look and −∞ where not: [n, end] for
            rows of equal length, else [B, 1, n, end]; None where a single token sees all there is.

        Raises:
            ValueError: if no row has space for n more.
        """
        self.check_space(new)
        longest = max(self._lengths)
        self._new = new
        self._end = end = min(longest + new, self.capacity)
        self.reserve(end)
        device = self._keys.device
        dtype = self._keys.dtype
        if mask is None and min(self._lengths) == longest:
            self._slots = None
            if new == 1:
                return slice(longest, end), None
            bias = torch.full((new, end), -torch.inf, dtype=dtype, device=device)
            return slice(longest, end), bias.triu_(longest + 1)
        positions = torch.tensor(self._lengths, device=device)[:, None] + torch.arange(new, device=device)
        row, column = (positions < self.capacity).nonzero(as_tuple=True)
        self._slots = (row, column, positions[row, column])
        invisible = torch.arange(end, device=device) > positions[:, :, None]  # [B, n, end]
        if mask is not None:
            columns = positions[:, -1:] + torch.arange(1 - mask.shape[2], 1, device=device)  # [B, w]
            invisible = pad(invisible, (0, new)).scatter(
                2, columns.clamp(min=0)[:, None].expand_as(mask), ~mask
            )
        return positions.clamp(max=self.capacity - 1), minus_infinity(invisible[:, None, :, :end], dtype)

    def reserve(self, end: int) -> None:
        """Takes memory for `end` tokens a row; twice as much as before at least, so that copying is rare.

        Raises:
            ValueError: if there is not so much.
        """
        allocated = self._keys.shape[3]
        if end <= allocated:
            return
        slots = min(max(2 * allocated, -(-end // STEP) * STEP), self.capacity)
        try:
            self._keys = grown(self._keys, slots)
            self._values = grown(self._values, slots)
        except RuntimeError as error:
            raise ValueError(f"there is no memory for a cache of {self.rows:,} rows; take fewer") from error

    def check_space(self, new: int) -> None:
        """Raises ValueError if not even the shortest row has space for n more tokens."""
        shortest = min(self._lengths)
        if shortest + new > self.capacity:
            raise ValueError(f"the context is full: {shortest} tokens and {new} more exceed {self.capacity}")

    def append(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Writes a layer's new keys and values, [B, kv_heads, n, head_dim] each, after each row's old ones.

        Returns:
            All keys and all values so far, [B, kv_heads, end, head_dim] each. For ragged rows,
            slots after a row's own end hold leftovers, which `begin` hides.
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

    def advance(self) -> None:
        """Counts what the layers have appended since `begin`."""
        self._lengths = [min(n + self._new, self.capacity) for n in self._lengths]
        self._new = 0

    def truncate(self, lengths: Sequence[int] | Tensor) -> None:
        """Forgets everything after the first lengths[b] tokens of row b, in O(1), copying nothing: [B].

        Raises:
            ValueError: if a length is negative or more than the row holds.
            TypeError: if it is no integer.
        """
        new_lengths = [index(n) for n in lengths]
        if len(new_lengths) != self.rows:
            raise ValueError(f"truncate needs {self.rows} lengths, one per row, not {len(new_lengths)}")
        for row, (old, new) in enumerate(zip(self._lengths, new_lengths, strict=True)):
            if not 0 <= new <= old:
                raise ValueError(f"row {row} holds {old} tokens and cannot be truncated to {new}")
        self._lengths = new_lengths

    def place(self, row: int, other: "KVCache", source: int) -> None:
        """Takes over, into one row, what another cache of the same model holds in its row `source`."""
        length = other.row_lengths[source]
        self.reserve(length)
        self._keys[:, row, :, :length] = other._keys[:, source, :, :length]
        self._values[:, row, :, :length] = other._values[:, source, :, :length]
        self._lengths[row] = length

    def gather(self, indices: Sequence[Sequence[int]]) -> None:
        """Keeps some slots of each row, moved together in their order: the accepted path of a tree.

        Keys stay right where they are moved to, because they were rotated by position, not by slot.

        Args:
            indices: per row, the slots to keep, ascending.

        Raises:
            ValueError: if they do not ascend, or lie beyond what the row holds.
            TypeError: if one is no integer.
        """
        kept = self.checked_slots(indices)
        for row, slots in enumerate(kept):
            unmoved = sum(
                position == slot for position, slot in enumerate(slots)
            )  # once one moves, so do all after it
            moved = slots[unmoved:]
            if moved:
                self._keys[:, row, :, unmoved : len(slots)] = self._keys[:, row, :, moved]
                self._values[:, row, :, unmoved : len(slots)] = self._values[:, row, :, moved]
        self._lengths = [len(slots) for slots in kept]

    def checked_slots(self, indices: Sequence[Sequence[int]]) -> list[list[int]]:
        """Returns the slots to keep of each row as plain integers; what `gather` raises if they are wrong."""
        kept = [[index(slot) for slot in slots] for slots in indices]
        for row, (slots, length) in enumerate(zip(kept, self._lengths, strict=True)):
            if slots != sorted(set(slots) & set(range(length))):
                raise ValueError(f"row {row}: the slots to keep must ascend from 0 to at most {length - 1}")
        return kept


def minus_infinity(invisible: Tensor, dtype: torch.dtype) -> Tensor:
    """Returns what to add to attention scores: −∞ where a slot is hidden [...], 0 elsewhere."""
    return torch.zeros(invisible.shape, dtype=dtype, device=invisible.device).masked_fill_(
        invisible, -torch.inf
    )


@torch.inference_mode(False)  # made while decoding, it must still serve training
def grown(stored: Tensor, slots: int) -> Tensor:
    """Returns keys or values [layers, B, kv_heads, held, head_dim] with more slots; the new ones are 0."""
    layers, rows, kv_heads, allocated, head_dim = stored.shape
    larger = stored.new_zeros(layers, rows, kv_heads, slots, head_dim)
    larger[:, :, :, :allocated] = stored
    return larger
