"""Models that note what their caches hold, so that a loop is judged by its caches too."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from minispec.classroom.parts import limited
from minispec.classroom.running import Malformed
from minispec.core.cache import KVCache
from minispec.core.model import LanguageModel


@dataclass(frozen=True)
class Forward:
    """One forward of a watched model."""

    model: str  #: the model's name
    held: tuple[int, ...]  #: the tokens in its cache before
    read: tuple[int, ...]  #: the tokens that it has read

    @property
    def after(self) -> tuple[int, ...]:
        """The tokens in its cache afterwards."""
        return self.held + self.read


class Watched:
    """A language model for one row that writes each of its forwards into a log, with the cache's tokens."""

    def __init__(self, name: str, model: LanguageModel, log: list[Forward], most: int) -> None:
        """Takes a model, the log that it shares with others, and how many forwards it may make."""
        self._name = name
        self._model = limited(model, most)
        self._log = log
        self._caches: list[tuple[KVCache, list[int]]] = []
        self.vocab_size = model.vocab_size
        self.max_length = model.max_length

    def new_cache(self, rows: int) -> KVCache:
        """Returns an empty cache for `rows` rows."""
        cache = self._model.new_cache(rows)
        self._caches.append((cache, []))
        return cache

    def hidden(self, tokens: Tensor, cache: KVCache | None = None) -> Tensor:
        """Reads tokens [1, n] after what the cache holds; returns hidden states [1, n, width].

        Raises:
            Malformed: if it gets no cache, one of another model, or another shape.
        """
        contents = self._contents(cache)
        if tokens.dim() != 2 or tokens.shape[0] != 1 or tokens.shape[1] == 0:
            raise Malformed(f"the {self._name} was called with tokens {list(tokens.shape)}: [1, n] is wanted")
        held = contents[: cache.row_lengths[0]] if cache else []
        read = tokens[0].tolist()
        hidden = self._model.hidden(tokens, cache)
        contents[:] = held + read
        self._log.append(Forward(self._name, tuple(held), tuple(read)))
        return hidden

    def head(self, hidden: Tensor) -> Tensor:
        """Returns logits [1, n, V] of hidden states."""
        return self._model.head(hidden)

    def __call__(self, tokens: Tensor, cache: KVCache | None = None) -> Tensor:
        """Returns logits [1, n, V]; raises what `hidden` raises."""
        return self.head(self.hidden(tokens, cache))

    def _contents(self, cache: KVCache | None) -> list[int]:
        """Returns the list of the tokens that have been read into a cache."""
        if cache is None:
            raise Malformed(f"the {self._name} was called without a cache, and reads all of the text again")
        for known, contents in self._caches:
            if known is cache:
                return contents
        raise Malformed(f"the {self._name} was called with a cache that is not its own")


def rounds_of(log: Sequence[Forward], prompt: Sequence[int]) -> list[int]:
    """Returns where the target's forwards stand in a log; prefill is left out."""
    return [
        i for i, forward in enumerate(log) if forward.model == "target" and len(forward.after) >= len(prompt)
    ]


def cache_faults(log: Sequence[Forward], prompt: Sequence[int], emitted: Sequence[int], k: int) -> set[str]:
    """Returns in which ways both caches do not hold what they should when a round has ended.

    They should hold all of the text but the pending token. That is seen when the next round reads: the target
    continues the text with the pending token; before it, the draft has read the same text and its guesses.
    """
    text = (*prompt, *emitted)
    faults: set[str] = set()
    start = 0
    for number, end in enumerate(rounds_of(log, prompt)):
        target = log[end]
        beginning = target.after[: len(target.held) + 1]
        drafted = [forward for forward in log[start:end] if forward.model == "draft model"]
        if beginning != text[: len(beginning)]:
            faults.add("what the target has read is not the text")
        elif drafted and len(target.read) > 1:
            faults |= _draft_faults(drafted[-1].after, target.after)
        if number and len(target.read) > k + 1:
            faults.add("the target reads more than the pending token and the draft")
        if number and sum(len(forward.read) for forward in drafted) > k + 1:
            faults.add("the draft model reads parts of the text again")
        start = end + 1
    return faults


def _draft_faults(held: tuple[int, ...], block: tuple[int, ...]) -> set[str]:
    """Compares what the draft has read with what the target has read; the last guess may be left out."""
    if held in (block, block[:-1]):
        return set()
    if len(held) < len(block) - 1:
        return {"the draft's cache lacks a token of the text"}
    return {"the draft's cache holds a token that is not in the text"}
