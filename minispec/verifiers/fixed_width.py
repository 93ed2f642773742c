"""Exact mode: logits that are equal to the last bit, whatever was asked for at once.

The sum of many rounded numbers depends on the order in which they are added, and a kernel picks that order
by the shape of what it is given. So one forward over five tokens and five forwards over one token differ in
the last bits. At a near tie that is enough to change a greedy text.

`FixedWidth` leaves the kernels no choice. Each forward reads a block of exactly `width` columns, padded where
fewer tokens are wanted, and looks at all slots of the cache under a mask. The token at position p of a text
always stands in column p mod `width` of the block, and its key always in slot p of the cache. So its numbers
always meet the same instructions in the same order. What fills the other columns never mixes with them.
A block may begin at any position: its tokens go on from its last column to its first.

The number of rows is part of the shape too. Compare runs of equally many rows, on one machine, with one
number of threads.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from minispec.core.cache import KVCache, minus_infinity
from minispec.core.model import GPT, Tree


class FixedCache(KVCache):
    """A cache for blocks of one width, whose tokens stand at their positions.

    Attributes:
        width: how many columns a block has.
    """

    def __init__(self, model: GPT, rows: int, width: int) -> None:
        """Takes the memory for `rows` rows of a model's whole context."""
        c = model.config
        super().__init__(c.layers, rows, c.kv_heads, c.max_length, c.head_dim, model.dtype, model.device)
        self.reserve(self.capacity)
        self.width = width
        self._order: Tensor | None = None

    def arrange(self, new: int) -> Tensor:
        """Says where the next n tokens, at most the width, will stand in the block.

        Returns:
            [B, width]: which of the tokens, counted from 0, stands in each column; n or more is padding.
        """
        columns = torch.arange(self.width, device=self._keys.device)
        self._order = (columns - self.lengths.to(columns.device)[:, None]) % self.width
        self._new = new
        return self._order

    def begin(self, new: int, mask: Tensor | None = None) -> tuple[slice | Tensor, Tensor | None]:
        """Prepares to append, as `KVCache.begin`, what `arrange` was told of; padding is not stored.

        Returns positions [B, width], where padding and what lies past the context's end count as 0, and a
        mask [B, 1, width, capacity], 0 where a token may look and −∞ where not.

        Raises:
            ValueError: if `arrange` was not called, or the block has another width, or a mask: of a tree.
        """
        if self._order is None or new != self.width or mask is not None:
            raise ValueError("a fixed-width cache can be read by its fixed-width model only")
        positions = self.lengths.to(self._order.device)[:, None] + self._order
        stored = (self._order < self._new) & (positions < self.capacity)
        row, column = stored.nonzero(as_tuple=True)
        self._slots = (row, column, positions[row, column])
        self._end = self.capacity
        self._order = None
        positions = positions.where(stored, 0)
        hidden = torch.arange(self.capacity, device=positions.device) > positions[:, :, None]
        return positions, minus_infinity(hidden[:, None], self._keys.dtype)


class FixedWidth(GPT):
    """A GPT in exact mode. For decoding only: no gradients.

    Attributes:
        width: how many columns each of its forward passes has.
    """

    def __init__(self, model: GPT, width: int = 17) -> None:
        """Takes the weights of a model and tests that logits are exact on this machine.

        Args:
            model: a GPT, on its device and in its type already. Its weights are shared, not copied.
            width: how many tokens one forward reads. Verification reads K+1 at once, so 17 serves all K up to
                16. Longer blocks, as in prefill, are read in several forward passes.

        Raises:
            ValueError: if the width is below 1, or the self-test fails (see `check`).
        """
        if width < 1:
            raise ValueError(f"width must be at least 1, not {width}")
        with torch.device("meta"):  # without memory: the weights are the model's
            super().__init__(model.config)
        self.load_state_dict(model.state_dict(), assign=True)
        if self.config.tied:
            self.lm_head.weight = self.embed_tokens.weight
        self.requires_grad_(False).eval()
        self.width = width
        self.check()

    def new_cache(self, rows: int) -> FixedCache:
        """Returns an empty cache for `rows` rows of up to `max_length` tokens."""
        return FixedCache(self, rows, self.width)

    def hidden(self, tokens: Tensor, cache: KVCache | None = None, tree: Tree | None = None) -> Tensor:
        """Reads tokens [B, n], `width` at a time; returns the residual stream after the last norm, [B, n, D].

        The cache, from `new_cache`, holds what came before, and is extended; None: nothing did.

        Raises:
            ValueError: if the context has no space for n more tokens, the cache is of another kind, or there
                is a tree: exact mode reads chains only.
        """
        if tree is not None:
            raise ValueError("FixedWidth reads no trees; a GPT on the torch backend does")
        cache = self._usable(cache, *tokens.shape)
        return torch.cat([self._read(block, cache) for block in tokens.split(self.width, dim=1)], dim=1)

    def head(self, hidden: Tensor) -> Tensor:
        """Maps the residual stream [B, n, D] to logits [B, n, V], always one token a row at a time.

        Each token's numbers are copied first: kernels may also look at where in memory their input begins.
        """
        columns = (state.clone(memory_format=torch.contiguous_format) for state in hidden.split(1, dim=1))
        return torch.cat([self.lm_head(state) for state in columns], dim=1)

    @torch.inference_mode()
    def check(self, rows: int = 2) -> None:
        """Tests on this machine that logits are equal to the last bit; call it again after `to(...)`.

        A text is read at once, token by token, and as a verifier reads it: two right tokens and some wrong
        ones after them, which are then forgotten. All that with so many rows.

        Raises:
            ValueError: if any logit differs.
        """
        length = min(2 * self.width + 3, self.max_length)
        text = (7 * torch.arange(rows * length, device=self.device) + 3) % self.vocab_size
        text = text.view(rows, length)
        at_once = self(text)
        for correct, rejected in ((1, 0), (2, 3)):
            pieces = self._in_pieces(text, correct, rejected)
            # A damaged model gives NaN everywhere; that is for others to report.
            if not torch.allclose(pieces, at_once, rtol=0, atol=0, equal_nan=True):
                difference = float((pieces - at_once).abs().max())
                raise ValueError(
                    f"exact mode does not work on this machine: at a fixed width of {self.width} in "
                    f"{str(self.dtype).removeprefix('torch.')} the same logits differ by up to "
                    f"{difference:.1e}"
                )

    def _in_pieces(self, text: Tensor, correct: int, rejected: int) -> Tensor:
        """Reads a text [B, n], `correct` tokens at a time, then up to `rejected` others; returns logits."""
        cache = self.new_cache(text.shape[0])
        pieces = []
        for start in range(0, text.shape[1], correct):
            block = text[:, start : start + correct + rejected].clone()
            block[:, correct:] = (block[:, correct:] + 1) % self.vocab_size
            logits = self(block, cache)[:, :correct]
            pieces.append(logits)
            cache.truncate([start + logits.shape[1]] * text.shape[0])
        return torch.cat(pieces, dim=1)

    def _usable(self, cache: KVCache | None, rows: int, new: int) -> FixedCache:
        """Returns the cache to read into: an empty one if none was given."""
        usable = self.new_cache(rows) if cache is None else cache
        if not isinstance(usable, FixedCache) or usable.width != self.width:
            raise ValueError("a fixed-width model needs a cache of its own: take it from its new_cache")
        usable.check_space(new)  # for all blocks at once, so that an error leaves the cache as it was
        return usable

    def _read(self, tokens: Tensor, cache: FixedCache) -> Tensor:
        """Reads a block of at most `width` tokens: [B, n] -> [B, n, D]."""
        new = tokens.shape[1]
        order = cache.arrange(new)  # [B, width]
        block = F.pad(tokens, (0, self.width - new)).gather(1, order)
        hidden = super().hidden(block, cache)  # [B, width, D]
        columns = order.argsort(dim=1)[:, :new]  # where each token stands
        return hidden.take_along_dim(columns[..., None], dim=1)
