"""Stream: text as it is decoded.

A token may end in the middle of a character: byte-level vocabularies cut UTF-8 where they like. Such a
token is held back until the rest has come.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from minispec.decoding.records import Round
from minispec.lm.tokenizer import Tokenizer

REPLACEMENT = "\ufffd"


class TextStream:
    """Turns tokens into text piece by piece.

    The pieces, joined, are the text of all tokens; only an incomplete character at the very end is left out
    until `flush`.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Starts an empty stream."""
        self._tokenizer = tokenizer
        self._held: list[int] = []

    def push(self, token: int) -> str:
        """Takes a token; returns the text that is complete now, or "" while a character is not."""
        self._held.append(token)
        text = self._tokenizer.decode(self._held)
        # A character has at most four bytes. What four tokens cannot complete is no UTF-8 at all.
        if text.endswith(REPLACEMENT) and len(self._held) < 4:
            return ""
        self._held.clear()
        return text

    def flush(self) -> str:
        """Returns what is held back, incomplete as it is."""
        text = self._tokenizer.decode(self._held)
        self._held.clear()
        return text


def stream(rounds: Iterable[Round], tokenizer: Tokenizer, row: int = 0) -> Iterator[str]:
    """Yields one row's text as rounds arrive.

    Args:
        rounds: from `speculate`, or a trace's.
        tokenizer: the pair's.
        row: which row.

    Yields:
        Pieces of text, none empty, none with half a character but perhaps the very last.
    """
    pieces = TextStream(tokenizer)
    for r in rounds:
        for token in r.emitted[row]:
            if text := pieces.push(token):
                yield text
    if rest := pieces.flush():
        yield rest
