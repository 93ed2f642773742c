"""Stop texts: end where a certain text appears, whatever tokens spell it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from minispec.core.records import Round
from minispec.io.tokenizer import Tokenizer

AnyRound = TypeVar("AnyRound", bound=Round)


class StopText:
    """Watches one row's text for certain strings.

    Attributes:
        found: whether one has come up.
    """

    def __init__(self, tokenizer: Tokenizer, stops: Sequence[str]) -> None:
        """Watches for `stops`.

        Raises:
            ValueError: if one of them is empty.
        """
        if "" in stops:
            raise ValueError("a stop text must not be empty")
        self._tokenizer = tokenizer
        self._stops = tuple(stops)
        self._tokens: list[int] = []
        self.found = False

    def push(self, tokens: Sequence[int]) -> None:
        """Takes new tokens."""
        self._tokens.extend(tokens)
        if self._stops:
            text = self._tokenizer.decode(self._tokens)
            self.found = any(stop in text for stop in self._stops)

    def cut(self, text: str) -> str:
        """Returns a text up to the first stop."""
        starts = [text.find(stop) for stop in self._stops if stop in text]
        return text[: min(starts)] if starts else text


def until(rounds: Iterable[AnyRound], stopper: StopText, row: int = 0) -> Iterator[AnyRound]:
    """Yields rounds up to the one in which a stop text appears in a row.

    The tokens of that round stay as they are: they were verified. It is the text that is cut.

    Args:
        rounds: from `speculate`.
        stopper: watches.
        row: which row.
    """
    for r in rounds:
        stopper.push(r.emitted[row])
        yield r
        if stopper.found:
            return
