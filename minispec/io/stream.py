"""Text as it is decoded, and where it stops.

A token may end in the middle of a character: byte-level vocabularies cut UTF-8 where they like. Such a
token is held back until the rest has come. A stop text ends a text where it appears, whatever tokens spell
it, and so text that may be the beginning of one is held back as well.
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

    @property
    def is_incomplete(self) -> bool:
        """Whether the last token ended inside a character."""
        return bool(self._decoder.getstate()[0])


class StopSearch:
    """Looks for stop texts in a text that comes piece by piece.

    The first one counts: the one that is complete first and, of several that end together, the longest. So it
    does not depend on how the text was cut into pieces.

    Attributes:
        found: whether there is one; the pieces that `push` has returned, joined, are the text before it.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        """Starts a search; ValueError for an empty stop text."""
        if "" in stops:
            raise ValueError("a stop text must not be empty")
        self._stops = stops
        self._held = ""
        self.found = False

    def push(self, text: str) -> str:
        """Takes the next piece; returns the text that no stop text can begin in any more, perhaps none."""
        held = self._held + text
        starts = {stop: held.find(stop) for stop in self._stops if stop in held}
        self.found = bool(starts)
        if self.found:
            size = min((start + len(stop), start) for stop, start in starts.items())[1]
        else:
            size = len(held) - max((overlap(held, stop) for stop in self._stops), default=0)
        self._held = held[size:]
        return held[:size]

    def flush(self) -> str:
        """Returns what is held back at the end of a text; nothing after a stop text."""
        return "" if self.found else self._held


def overlap(text: str, stop: str) -> int:
    """Returns how many of a text's last characters are the beginning of a stop text."""
    return next((n for n in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:n])), 0)


def stream(
    rounds: Iterable[Round], tokenizer: Tokenizer, prompt: int = 0, stops: Sequence[str] = ()
) -> Iterator[str]:
    """Yields the text of one prompt as rounds arrive, up to the first stop text.

    Args:
        rounds: from `speculate`, or a trace's.
        tokenizer: the pair's.
        prompt: which prompt, in whatever row it is.
        stops: texts that end it. What may yet become one is held back.

    Yields:
        Pieces of text, none empty, none with half a character but perhaps the very last.

    Raises:
        ValueError: for a negative number, or an empty stop text.
    """
    text_stream = TextStream(tokenizer)
    search = StopSearch(stops)
    for r in rounds:
        for token in emitted_for(prompt, r):
            if text := search.push(text_stream.push(token)):
                yield text
            if search.found:
                return
    if remaining_text := search.push(text_stream.flush()) + search.flush():
        yield remaining_text


def until(
    rounds: Iterable[AnyRound], tokenizer: Tokenizer, stops: Sequence[str], prompt: int = 0
) -> Iterator[AnyRound]:
    """Yields rounds up to the one in which a stop text appears in the text of one prompt.

    The tokens of that round stay as they are, because they were verified together. `before_stop` says which
    tokens of the prompt remain, and `stream` with the same stop texts shows nothing beyond them.

    Raises:
        ValueError: for a negative number, or an empty stop text.
    """
    text_stream = TextStream(tokenizer)
    search = StopSearch(stops)
    for r in rounds:
        for token in emitted_for(prompt, r):
            if not search.found:
                search.push(text_stream.push(token))
        yield r
        if search.found:
            return


def before_stop(
    tokens: Sequence[int], tokenizer: Tokenizer, stops: Sequence[str]
) -> tuple[list[int], str, bool]:
    """Cuts what was emitted for a prompt before the first stop text.

    Returns:
        The tokens that are wholly before it, the text before it, and whether there is one. The text goes on
        beyond the tokens where the stop text begins inside a token.

    Raises:
        ValueError: for an empty stop text.
    """
    text_stream = TextStream(tokenizer)
    search = StopSearch(stops)
    text = ""
    length = 0  # of the text of all tokens so far
    ends = []  # where each token ends in it
    for token in tokens:
        piece = text_stream.push(token)
        length += len(piece)
        ends.append(length + text_stream.is_incomplete)
        text += search.push(piece)
        if search.found:
            break
    else:
        text += search.push(text_stream.flush()) + search.flush()
    if search.found:
        tokens = tokens[: sum(end <= len(text) for end in ends)]
    return [*tokens], text, search.found


def emitted_for(prompt: int, r: Round) -> tuple[int, ...]:
    """Returns what a round emits for a prompt: nothing where no row holds it."""
    row = row_of(r, prompt)
    return () if row is None else r.emitted[row]
