"""The key-value cache: what a model remembers of the tokens it has read.

Every layer keeps a key and a value for every token. Memory for them is taken once. A row's length says how
much of it counts, so forgetting is cheap: `truncate` sets the length and copies nothing. That is what makes
rolling back a rejected draft almost free.

Rows of one batch may have different lengths. New tokens come right-padded to one width; the caller
truncates each row to what was real.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad


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
        """Takes the memory: 2 · layers · B · kv_heads · capacity · head_dim numbers."""
        assert layers >= 1 and rows >= 1 and capacity >= 1
        self.rows = rows
        self.capacity = capacity
        shape = (layers, rows, kv_heads, capacity, head_dim)
        try:
            self._keys, self._values = (torch.zeros(shape, dtype=dtype, device=device) for _ in range(2))
        except RuntimeError as error:
            raise ValueError(f"there is no memory for a cache of {rows:,} rows; take fewer") from error
        # Plain integers: asking a GPU would make the loop wait. One list a layer: an early exit reads ahead.
        self._lengths = [[0] * rows] * layers
        self._layers = range(layers)  # within a forward: the layers that take part
        self._new = 0
        self._end = 0
        self._slots: tuple[Tensor, Tensor, Tensor] | None = None
        # Added to attention scores: row i is what the token in slot i may see, itself and all before it.
        self._bias = torch.full((capacity, capacity), float("-inf"), dtype=dtype, device=device).triu(1)

    @property
    def lengths(self) -> Tensor:
        """How many tokens each row holds in all layers: [B], int64, on the CPU."""
        return torch.tensor(self._lengths[-1])

    @property
    def row_lengths(self) -> tuple[int, ...]:
        """The same as plain integers."""
        return tuple(self._lengths[-1])

    @property
    def bytes(self) -> int:
        """Memory taken, in bytes."""
        return self._keys.nbytes + self._values.nbytes

    def begin(
        self, new: int, mask: Tensor | None = None, layers: slice = slice(None)
    ) -> tuple[slice | Tensor, Tensor | None]:
        """Prepares to append n tokens to every row.

        A row that is nearly full may be padded past its end, if another row has space: what lies
        past the end is not stored, and its outputs mean nothing.

        Args:
            new: n, the width of the block that comes.
            mask: [B, n, w] bool, what each new token sees of the new ones and of w − n before them; it sees
                all before these. By default itself and those before it.
            layers: which layers will append; `advance` then counts in these.

        Returns:
            Slots: a slice for rows of equal length, else [B, n]; past the end they stay at the last one.
            And what to add to attention scores, 0 where a new token may look and −∞ where not: [n, end] for
            rows of equal length, else [B, 1, n, end]; None where a single token sees all there is.

        Raises:
            ValueError: if no row has space for n more.
        """
        chosen = range(len(self._lengths))[layers]
        lengths = self._lengths[chosen[0]]
        self.check_space(new, chosen[0])
        self._layers = chosen
        self._new = new
        self._end = end = min(max(lengths) + new, self.capacity)
        if mask is None and min(lengths) == max(lengths):
            start = lengths[0]
            self._slots = None
            return slice(start, end), None if new == 1 else self._bias[start:end, :end]
        device = self._keys.device
        positions = torch.tensor(lengths, device=device)[:, None] + torch.arange(new, device=device)
        row, column = (positions < self.capacity).nonzero(as_tuple=True)
        self._slots = (row, column, positions[row, column])
        shown = positions.clamp(max=self.capacity - 1)
        bias = self._bias[shown]  # [B, n, capacity]
        if mask is not None:
            hidden = torch.zeros_like(mask, dtype=bias.dtype).masked_fill(~mask, float("-inf"))
            slots = positions[:, -1:] + torch.arange(1 - mask.shape[2], 1, device=device)  # [B, w]
            bias = pad(bias, (0, new)).scatter(2, slots.clamp(min=0)[:, None].expand_as(mask), hidden)
        return shown, bias[:, None, :, :end]

    def check_space(self, new: int, layer: int = -1) -> None:
        """Raises ValueError if not even the shortest row has space for n more tokens."""
        shortest = min(self._lengths[layer])
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
            start = self._lengths[layer][0]
            self._keys[layer, :, :, start:end] = keys
            self._values[layer, :, :, start:end] = values
        else:
            row, column, slot = self._slots
            self._keys[layer, row, :, slot] = keys[row, :, column]
            self._values[layer, row, :, slot] = values[row, :, column]
        return self._keys[layer, :, :, :end], self._values[layer, :, :, :end]

    def advance(self) -> None:
        """Counts what the layers have appended since `begin`."""
        grown = [min(n + self._new, self.capacity) for n in self._lengths[self._layers[0]]]
        for layer in self._layers:
            self._lengths[layer] = grown
        self._layers = range(len(self._lengths))
        self._new = 0

    def truncate(self, lengths: Sequence[int] | Tensor) -> None:
        """Forgets everything after the first lengths[b] tokens of row b, in O(1), copying nothing: [B].

        Raises:
            ValueError: if a length is negative or more than the row holds.
        """
        wanted = [int(n) for n in lengths]
        if len(wanted) != self.rows:
            raise ValueError(f"truncate needs {self.rows} lengths, one per row, not {len(wanted)}")
        for row, (old, new) in enumerate(zip(self._lengths[-1], wanted, strict=True)):
            if not 0 <= new <= old:
                raise ValueError(f"row {row} holds {old} tokens and cannot be truncated to {new}")
        self._lengths = [wanted] * len(self._lengths)

    def place(self, row: int, other: "KVCache", source: int) -> None:
        """Takes over, into one row, what another cache of the same model holds in its row `source`."""
        length = other.row_lengths[source]
        for ours, theirs in ((self._keys, other._keys), (self._values, other._values)):
            ours[:, row, :, :length] = theirs[:, source, :, :length]
        self._lengths = [[length if b == row else n for b, n in enumerate(each)] for each in self._lengths]

    def gather(self, indices: Sequence[Sequence[int]]) -> None:
        """Keeps some slots of each row, moved together in their order: the accepted path of a tree.

        Keys stay right where they are moved to, because they were rotated by position, not by slot.

        Args:
            indices: per row, the slots to keep, ascending.

        Raises:
            ValueError: if they do not ascend, or lie beyond what the row holds.
        """
        for row, (slots, length) in enumerate(zip(indices, self._lengths[-1], strict=True)):
            if list(slots) != sorted(set(slots) & set(range(length))):
                raise ValueError(f"row {row}: the slots to keep must ascend from 0 to at most {length - 1}")
        for row, slots in enumerate(indices):
            moved = [(to, slot) for to, slot in enumerate(slots) if to != slot]
            if moved:
                to = slice(moved[0][0], len(slots))
                where = [slot for _, slot in moved]
                for kept in (self._keys[:, row], self._values[:, row]):  # [layers, kv_heads, capacity, …]
                    kept[:, :, to] = kept[:, :, where]
        self._lengths = [[len(slots) for slots in indices]] * len(self._lengths)
