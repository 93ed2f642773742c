"""Look-up: draft what followed the same tokens earlier in the row's own text, prompt and output.

No model is asked, so a draft costs next to nothing. It is right where a text repeats itself: code, a summary
that quotes, an answer that changes a few words of the prompt (Saxena 2023, prompt look-up decoding).

Why it is lossless. A token that was looked up is certain: it was drawn from the distribution that has it
with probability 1. That one-hot q is what the draft reports. So rejection keeps it with probability p(x), and
after a rejection draws from what p has besides it; the greedy and the coupled rule do not ask for q at all.
Any way to look up is lossless, as long as it knows nothing but the committed text.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from minispec.core.batch import Prompts
from minispec.core.model import GPT
from minispec.core.prefill import pad
from minispec.core.records import Draft, Round
from minispec.core.rng import RoundRng
from minispec.core.warp import Warp, one_hot


class Index(Protocol):
    """The text of one row, and where its end occurred before."""

    @property
    def match(self) -> int:
        """How many tokens the end of the text has that is found to have occurred before; 0: none is."""

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


def certain(matches: Prompts, vocab_size: int, dtype: torch.dtype, device: torch.device) -> Draft:
    """Returns tokens of each row as a draft that has them with probability 1."""
    lengths = [len(match) for match in matches]
    tokens = pad(matches, max(lengths), device).long()  # [B, n]
    return Draft(tokens, one_hot(tokens, vocab_size, dtype), torch.tensor(lengths))


class LooksUp(ABC):
    """A drafter whose drafts can be certain: for these, q need not be written out."""

    @abstractmethod
    def look_up(self, k: int) -> list[list[int]] | None:
        """Returns up to k tokens for each row, to follow its text; None: the next draft is not looked up."""


class LookupDrafter(LooksUp):
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
        self.max_length = sys.maxsize
        self._index = index
        self.dtype = dtype
        self._rows: list[Index] = []

    def start(self, prompts: Prompts, hidden: Tensor) -> None:
        """Reads prompts, pending tokens included; hidden [B, n, D] is not used."""
        self._rows = [self._index() for _ in prompts]
        self._extend(prompts)

    def admit(self, rows: Sequence[int], prompts: Prompts, hidden: Tensor) -> None:
        """Reads prompts in some rows, in the place of the texts there; hidden [M, n, D] is not used."""
        for row, prompt in zip(rows, prompts, strict=True):
            self._rows[row] = index = self._index()
            for token in prompt:
                index.append(token)

    def propose(self, pending: Tensor, k: int, warp: Warp, rng: RoundRng) -> Draft:
        """Proposes up to k tokens a row after the pending ones [B], which stand in the texts already.

        The draft's lengths are how many each row has; `warp` and `rng` are not used.
        """
        return certain(self.look_up(k), self.vocab_size, self.dtype, pending.device)

    def look_up(self, k: int) -> list[list[int]]:
        """Returns up to k tokens for each row, to follow its text."""
        return [row.propose(k) for row in self._rows]

    def matches(self) -> list[int]:
        """Returns how many tokens the end of each row's text has that was looked up; 0: none was found."""
        return [row.match for row in self._rows]

    def commit(self, round: Round) -> None:
        """Appends what was emitted to each row's text; what was drafted is of no more interest."""
        self._extend(round.emitted)

    def _extend(self, texts: Prompts) -> None:
        """Appends tokens to the text of each row."""
        for row, tokens in zip(self._rows, texts, strict=True):
            for token in tokens:
                row.append(token)


def for_target(make: Callable[..., LookupDrafter], target: GPT) -> LookupDrafter:
    """Returns a look-up drafter whose distributions have the type of the target's, at least float32."""
    return make(target.vocab_size, dtype=torch.promote_types(target.dtype, torch.float32))
