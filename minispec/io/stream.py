"""Stream: text as it is decoded.

A token may end in the middle of a character: byte-level vocabularies cut UTF-8 where they like. Such a
token is held back until the rest has come.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator

from minispec.core.records import Round
from minispec.io.tokenizer import Tokenizer


class TextStream:
    """Turns tokens into text piece by piece.

    The pieces, joined, are the text of all tokens. Bytes that are no UTF-8 become U+FFFD; those that may yet
    become a character are held back until the next token, or `flush`.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Starts an empty stream."""
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token: int) -> str:
        """Takes a token; returns the text that is complete now, perhaps none."""
        return self._decoder.decode(self._tokenizer.bytes_of(token))

    def flush(self) -> str:
        """Returns what is held back, incomplete as it is."""
        return self._decoder.decode(b"", final=True)


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
