"""Text as it is decoded, and where it stops.

A token may end in the middle of a character: byte-level vocabularies cut UTF-8 where they like. Such a
token is held back until the rest has come. A stop text ends a run where it appears, whatever tokens spell it.
"""

import codecs
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from minispec.core.records import Round
from minispec.io.tokenizer import Tokenizer
from minispec.io.trace import row_of

AnyRound = TypeVar("AnyRound", bound=Round)


class TextStream:
    """Turns tokens into text piece by piece.

    The pieces, joined, are the text of all tokens. Bytes that are no UTF-8 become U+FFFD; those that may yet
    become a character are held back until the next token, or `flush`.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Starts an empty stream."""
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._previous: int | None = None

    def push(self, token: int) -> str:
        """Takes a token; returns the text that is complete now, perhaps none."""
        data = self._tokenizer.bytes_after(self._previous, token)
        self._previous = token
        return self._decoder.decode(data)

    def flush(self) -> str:
        """Returns what is held back, incomplete as it is."""
        return self._decoder.decode(b"", final=True)


def stream(rounds: Iterable[Round], tokenizer: Tokenizer, prompt: int = 0) -> Iterator[str]:
    """Yields the text of one prompt as rounds arrive.

    Args:
        rounds: from `speculate`, or a trace's.
        tokenizer: the pair's.
        prompt: which prompt, in whatever row it is.

    Yields:
        Pieces of text, none empty, none with half a character but perhaps the very last.

    Raises:
        ValueError: for a negative number.
    """
    text_stream = TextStream(tokenizer)
    for r in rounds:
        for token in emitted_for(prompt, r):
            if text := text_stream.push(token):
                yield text
    if remaining_text := text_stream.flush():
        yield remaining_text


def until(
    rounds: Iterable[AnyRound], tokenizer: Tokenizer, stops: Sequence[str], prompt: int = 0
) -> Iterator[AnyRound]:
    """Yields rounds up to the one in which a stop text appears in the text of one prompt.

    The tokens of that round stay as they are: they were verified. It is the text that is cut.

    Raises:
        ValueError: for a negative number.
    """
    tokens: list[int] = []
    for r in rounds:
        tokens.extend(emitted_for(prompt, r))
        yield r
        if any(stop in tokenizer.decode(tokens) for stop in stops):
            return


def emitted_for(prompt: int, r: Round) -> tuple[int, ...]:
    """Returns what a round emits for a prompt: nothing where no row holds it."""
    row = row_of(r, prompt)
    return () if row is None else r.emitted[row]


def cut(text: str, stops: Sequence[str]) -> str:
    """Returns a text up to the first stop."""
    starts = [text.find(stop) for stop in stops if stop in text]
    return text[: min(starts)] if starts else text
