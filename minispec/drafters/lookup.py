"""Look-up: draft what followed the same tokens earlier in the row's own text, prompt and output.

No model is asked, so a draft costs next to nothing. It is right where a text repeats itself: code, a summary
that quotes, an answer that changes a few words of the prompt (Saxena 2023, prompt look-up decoding).

Why it is lossless. A token that was looked up is certain: it was drawn from the distribution that has it
with probability 1. That one-hot q is what the draft reports. So rejection keeps it with probability p(x), and
after a rejection draws from what p has besides it; the greedy and the coupled rule do not ask for q at all.
Any way to look up is lossless, as long as it knows nothing but the committed text.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from minispec.core.prefill import pad
from minispec.core.records import Draft, Round
from minispec.core.rng import Rng
from minispec.core.warp import Warp, one_hot


class Index(Protocol):
    """The text of one row, and where its end occurred before."""

    def append(self, token: int) -> None:
        """Takes the next token of the text."""

    def propose(self, k: int) -> list[int]:
        """Returns up to k tokens to follow the text; none where its end never occurred before."""


def what_followed(text: Sequence[int], end: int, count: int) -> list[int]:
    """Returns what stands in a text after an earlier place.

    Args:
        text: token ids.
        end: the place: so many tokens stand before it. At least one stands after it.
        count: how many tokens. At the text's end the copy goes on with what it has copied, so the last
            len(text) − end tokens are repeated.
    """
    return [text[end + i % (len(text) - end)] for i in range(count)]


class LookupDrafter:
    """A drafter that looks each row's draft up in the row's own text; it has no model and no cache."""

    cache_lengths: tuple[int, ...] | None = None

    def __init__(
        self, vocab_size: int, index: Callable[[], Index], dtype: torch.dtype = torch.float64
    ) -> None:
        """Makes a drafter.

        Args:
            vocab_size: V, that of the target.
            index: makes an empty index; each row gets its own.
            dtype: of the distributions that are reported. The native rules are fastest where it is that of
                the target's; the numbers are 0 and 1 in every type.
        """
        self.vocab_size = vocab_size
        self._index = index
        self._dtype = dtype
        self._rows: list[Index] = []

    def start(self, prompts: Sequence[Sequence[int]], rows: Sequence[int] | None = None) -> None:
        """Forgets the last run, or the texts of some rows, and reads prompts, pending tokens included."""
        if rows is None:
            self._rows = [self._index() for _ in prompts]
        for row, prompt in zip(range(len(prompts)) if rows is None else rows, prompts, strict=True):
            self._rows[row] = self._index()
            for token in prompt:
                self._rows[row].append(token)

    def propose(self, pending: Tensor, k: int, warp: Warp, rng: Rng) -> Draft:
        """Looks up to k tokens a row up, to follow the pending ones [B], which stand in the texts already.

        The draft says how many were found for each row; of `warp` and `rng` it makes no use.
        """
        found = [row.propose(k) for row in self._rows]
        lengths = list(map(len, found))
        tokens = pad(found, max(lengths), pending.device).long()  # [B, n]
        return Draft(tokens, one_hot(tokens, self.vocab_size, self._dtype), torch.tensor(lengths))

    def commit(self, round: Round) -> None:
        """Appends what was emitted to each row's text; what was drafted is of no more interest."""
        for row, tokens in zip(self._rows, round.emitted, strict=True):
            for token in tokens:
                row.append(token)
