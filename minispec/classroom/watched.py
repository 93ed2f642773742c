"""Models that note what their caches hold, so that a loop is judged by its caches too."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from minispec.classroom.parts import LimitedModel
from minispec.classroom.running import Malformed
from minispec.core.cache import KVCache
from minispec.core.model import LanguageModel, Tree


@dataclass(frozen=True)
class Forward:
    """One forward of a watched model."""

    model: str  #: the model's name
    cached: tuple[int, ...]  #: the tokens in its cache before
    tokens: tuple[int, ...]  #: the tokens that it has read

    @property
    def after(self) -> tuple[int, ...]:
        """The tokens in its cache afterwards."""
        return self.cached + self.tokens


class WatchedModel(LimitedModel):
    """A model for one row that writes its forwards into a log, with the tokens in its cache.

    It raises `Malformed` if it gets no cache, another model's, or tokens of another shape than [1, n].
    """

    def __init__(self, name: str, model: LanguageModel, log: list[Forward], limit: int) -> None:
        """Takes the model's name, the model, the log, and how many forwards it may make."""
        super().__init__(model, limit)
        self._name = name
        self._log = log
        self._contents: dict[KVCache, list[int]] = {}

    def new_cache(self, rows: int) -> KVCache:
        """Returns an empty cache for `rows` rows."""
        cache = super().new_cache(rows)
        self._contents[cache] = []
        return cache

    def hidden(self, tokens: Tensor, cache: KVCache | None = None, tree: Tree | None = None) -> Tensor:
        """Reads tokens [1, n], returns [1, n, D], and writes down what the cache held and what was read."""
        if cache is None:
            raise Malformed(f"the {self._name} was called without a cache, and reads all of the text again")
        if cache not in self._contents:
            raise Malformed(f"the {self._name} was called with a cache that is not its own")
        if tokens.dim() != 2 or tokens.shape[0] != 1 or tokens.shape[1] == 0:
            raise Malformed(f"the {self._name} was called with tokens {list(tokens.shape)}: [1, n] is wanted")
        cached = self._contents[cache][: cache.row_lengths[0]]
        token_ids = tokens[0].tolist()
        hidden = super().hidden(tokens, cache, tree)
        self._contents[cache] = cached + token_ids
        self._log.append(Forward(self._name, tuple(cached), tuple(token_ids)))
        return hidden


def rounds_of(log: Sequence[Forward], prompt: Sequence[int]) -> list[int]:
    """Returns where the target's forwards stand in a log; prefill is left out."""
    return [
        i for i, forward in enumerate(log) if forward.model == "target" and len(forward.after) >= len(prompt)
    ]


def loop_faults(
    log: Sequence[Forward], prompt: Sequence[int], emitted: Sequence[int], k: int, n: int
) -> set[str]:
    """Returns what is wrong in both caches when a round has ended, and whether too much is drafted.

    The caches should hold all of the text but the pending token. That is seen when the next round reads: the
    target continues the text with the pending token; before it, the draft has read the same text and its
    guesses. The last of the n tokens is the target's own in any case, so no model reads that far.
    """
    text = (*prompt, *emitted)
    faults: set[str] = set()
    start = 0
    for number, end in enumerate(rounds_of(log, prompt)):
        target = log[end]
        actually_read = target.after[: len(target.cached) + 1]
        drafted = [forward for forward in log[start:end] if forward.model == "draft model"]
        guesses_from = [forward for forward in drafted if len(forward.after) > len(target.cached)]
        is_text = actually_read == text[: len(actually_read)]
        if not is_text:
            faults.add("what the target has read is not the text")
        elif drafted and len(target.tokens) > 1:
            has_read = drafted[-1].after
            if len(has_read) < len(target.after) - 1:
                faults.add("the draft's cache lacks a token of the text")
            elif has_read not in (target.after, target.after[:-1]):  # the last guess may be left out
                faults.add("the draft's cache holds a token that is not in the text")
        if number and len(target.tokens) > k + 1:
            faults.add("the target reads more than the pending token and the draft")
        if number and sum(len(forward.tokens) for forward in drafted) > k + 1:
            faults.add("the draft model reads parts of the text again")
        # The draft model may also have read its last guess: a forward more than there are guesses.
        if is_text and (len(target.after) >= len(prompt) + n or len(guesses_from) > len(target.tokens)):
            faults.add("near the end more is drafted than there is room for")
        start = end + 1
    return faults
