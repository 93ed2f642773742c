"""The n-gram drafter: find the last tokens earlier in the text, and propose what followed them there."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from minispec.drafters.lookup import LookupDrafter, what_followed


class NgramIndex:
    """A text, and where each n-gram in it ended last: a dict, with a few entries for each token."""

    def __init__(self, longest: int, shortest: int) -> None:
        """Starts an empty text with the largest and the smallest n."""
        self._sizes = range(longest, shortest - 1, -1)
        self._text: list[int] = []
        self._ends: dict[tuple[int, ...], int] = {}

    def append(self, token: int) -> None:
        """Takes the next token. Now something follows the n-grams that ended the text: they are entered."""
        for gram in self._last_grams():
            self._ends[gram] = len(self._text)
        self._text.append(token)

    def propose(self, k: int) -> list[int]:
        """Returns k tokens from after the most recent earlier place of the longest n-gram; none without."""
        for gram in self._last_grams():
            if gram in self._ends:
                return what_followed(self._text, self._ends[gram], k)
        return []

    def _last_grams(self) -> Iterator[tuple[int, ...]]:
        """Yields the n-grams that end the text, the longest first."""
        return (tuple(self._text[-n:]) for n in self._sizes if n <= len(self._text))


class NgramDrafter(LookupDrafter):
    """Proposes what followed the longest n-gram that ends the text where it last occurred before.

    This is prompt look-up decoding (Saxena 2023), with the output as well as the prompt to look in. Whatever
    is found, K tokens are proposed.
    """

    def __init__(
        self, vocab_size: int, longest: int = 3, shortest: int = 1, dtype: torch.dtype = torch.float64
    ) -> None:
        """Makes a drafter.

        Args:
            vocab_size: V, that of the target.
            longest: the largest n that is looked up, and the first.
            shortest: the smallest.
            dtype: of the one-hot distributions (see `LookupDrafter`).

        Raises:
            ValueError: if shortest is below 1, or above longest.
        """
        if not 1 <= shortest <= longest:
            raise ValueError(f"n-grams have from 1 to n tokens, not from {shortest} to {longest}")
        super().__init__(vocab_size, lambda: NgramIndex(longest, shortest), dtype)
