"""Observing: a whole run of `speculate`, watched from outside.

`observe` wraps the target, the drafter and the verifier that it hands to `speculate`, and looks at caches and
the clock when they are called. `record` keeps what it saw as a `Trace`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, wraps
from time import perf_counter
from typing import Any, cast

from torch import Tensor

from minispec.core.cache import KVCache
from minispec.core.draft import Drafter
from minispec.core.loop import speculate
from minispec.core.model import LanguageModel
from minispec.core.prefill import Prompts, check_prompts, device_of
from minispec.core.records import Draft, Round, Verdict
from minispec.core.rng import Rng
from minispec.core.verify import Verifier
from minispec.core.warp import Warp
from minispec.io.trace import CacheLengths, ObservedRound, Trace


def record(target: LanguageModel, drafter: Drafter | None, prompts: Prompts, **settings: Any) -> Trace:
    """Runs `speculate`, with the same arguments, to its end and returns the whole trace."""
    prompts = check_prompts(prompts, target.vocab_size, target.max_length)  # iterators are read once
    rounds = tuple(observe(target, drafter, prompts, **settings))
    return Trace(tuple(map(tuple, prompts)), run_config(target, drafter, settings), rounds)


def observe(
    target: LanguageModel, drafter: Drafter | None, prompts: Prompts, *, verifier: Verifier, **settings: Any
) -> Iterator[ObservedRound]:
    """Runs `speculate`, with the same arguments.

    Yields:
        The rounds of `speculate`, each with what can be seen of it from outside.
    """
    clock = Clock()
    watched = WatchedTarget(target, clock)
    drafts = None if drafter is None or settings.get("k") == 0 else WatchedDrafter(drafter, clock)
    rule = watched_rule(verifier, clock)
    for r in speculate(watched, cast(Drafter | None, drafts), prompts, verifier=rule, **settings):
        clock.lap("other")
        lengths = drafts.lengths() if drafts is not None else None
        yield ObservedRound(
            **vars(r), target_cache=watched.lengths(), draft_cache=lengths, seconds=clock.take()
        )
        clock.start()


def run_config(target: LanguageModel, drafter: Drafter | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what a trace says of the settings that `speculate` was called with."""
    warp: Warp = settings["warp"]
    own = getattr(drafter, "max_length", target.max_length) if settings["k"] > 0 else target.max_length
    return {
        "k": int(settings["k"]),
        "verifier": getattr(settings["verifier"], "__name__", str(settings["verifier"])),
        "max_new_tokens": int(settings["max_new_tokens"]),
        "temperature": warp.temperature,
        "top_k": warp.top_k,
        "top_p": warp.top_p,
        "context": min(own, target.max_length),
    }


PHASES = ("draft", "verify", "rollback", "other")


class Clock:
    """Adds up seconds by phase; all before the first round is `prefill`, and what reads a later prompt."""

    def __init__(self) -> None:
        self.in_prefill = True
        self._seconds: dict[str, float] = {}
        self._last = perf_counter()

    def start(self) -> None:
        """Forgets the time since the last lap: it was the reader's."""
        self._last = perf_counter()

    def lap(self, phase: str) -> None:
        """Counts the time since the last lap for a phase."""
        now = perf_counter()
        phase = "prefill" if self.in_prefill else phase
        self._seconds[phase] = self._seconds.get(phase, 0.0) + now - self._last
        self._last = now

    def timed(self, phase: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """Returns what does the same as a function, and counts the time that it takes for a phase."""

        @wraps(call)
        def counted(*arguments: Any, **named: Any) -> Any:
            self.lap("other")
            found = call(*arguments, **named)
            self.lap(phase)
            return found

        return counted

    def round_begins(self) -> None:
        """Ends the prefill, if it has not ended yet."""
        self.lap("other")
        self.in_prefill = False

    def take(self) -> dict[str, float]:
        """Returns the sums and starts afresh."""
        taken = dict.fromkeys(PHASES, 0.0) | self._seconds
        self._seconds = {}
        return taken


class WatchedTarget:
    """A target that notes how long its cache is before and after it reads a block."""

    def __init__(self, model: LanguageModel, clock: Clock) -> None:
        self.vocab_size = model.vocab_size
        self.max_length = model.max_length
        self.device = device_of(model)
        self.head = model.head
        self._model = model
        self._clock = clock
        self._cache: KVCache
        self._before: tuple[int, ...] = ()
        self._verified: tuple[int, ...] = ()

    def new_cache(self, rows: int) -> KVCache:
        """Returns the model's own cache, whose rollbacks are timed; the first one is that of the run."""
        cache = self._model.new_cache(rows)
        self._cache = getattr(self, "_cache", cache)
        phase = "rollback" if cache is self._cache else "prefill"
        cache.truncate = self._clock.timed(phase, cache.truncate)  # type: ignore[method-assign]
        return cache

    def hidden(self, tokens: Tensor, cache: KVCache | None = None, **tree: Any) -> Tensor:
        """Reads tokens as the model does: [B, n] -> [B, n, D]."""
        if cache is not None and cache is not self._cache:  # of prompts that begin in rows of others
            read: Tensor = self._clock.timed("prefill", self._model.hidden)(tokens, cache, **tree)
            return read
        if tree:
            self._clock.round_begins()
        return self._watch(partial(self._model.hidden, **tree), tokens, cache)

    def __call__(self, tokens: Tensor, cache: KVCache | None = None) -> Tensor:
        """Reads tokens as the model does: [B, n] -> logits [B, n, V]."""
        self._clock.round_begins()
        return self._watch(self._model, tokens, cache)

    def lengths(self) -> CacheLengths:
        """How long the cache was in the round that has just ended."""
        return CacheLengths(self._before, self._verified, self._cache.row_lengths)

    def _watch(self, read: Callable[..., Tensor], tokens: Tensor, cache: KVCache | None) -> Tensor:
        self._before = self._cache.row_lengths
        self._clock.lap("other")
        found = read(tokens, cache)
        self._verified = self._cache.row_lengths
        return found


class WatchedDrafter:
    """A drafter that notes how long its cache is before and after it drafts."""

    def __init__(self, drafter: Drafter, clock: Clock) -> None:
        self.__wrapped__ = self._drafter = drafter
        self._clock = clock
        self._before: tuple[int, ...] | None = None
        self._verified: tuple[int, ...] | None = None

    def __getattr__(self, name: str) -> Any:  # vocabulary and context, …
        return getattr(self._drafter, name)

    def start(self, prompts: Sequence[Sequence[int]], *hidden: Tensor | None, **rows: Sequence[int]) -> None:
        """Lets the drafter read the prompts; hidden: [B, n, D] for one that wants it."""
        self._clock.timed("prefill", self._drafter.start)(prompts, *hidden, **rows)
        self._before = self._verified = self._drafter.cache_lengths

    def propose(self, pending: Tensor, k: int, warp: Warp, rng: Rng) -> Draft:
        """Proposes what the drafter does after the pending tokens [B]."""
        self._clock.round_begins()
        self._before = self._drafter.cache_lengths
        draft = self._drafter.propose(pending, k, warp, rng)
        self._verified = self._drafter.cache_lengths
        self._clock.lap("draft")
        return draft

    def commit(self, round: Round) -> None:
        """Lets the drafter learn, catch up and roll back: part of drafting."""
        self._clock.timed("draft", self._drafter.commit)(round)

    def lengths(self) -> CacheLengths | None:
        """How long the cache was in the round that has just ended; None if there is none."""
        before = self._before
        verified = self._verified
        after = self._drafter.cache_lengths
        self._before = self._verified = after  # where nothing is drafted next
        return None if after is None else CacheLengths(before or after, verified or after, after)


def watched_rule(verifier: Verifier, clock: Clock) -> Verifier:
    """Returns the same rule; the time from the target's forward to its verdict counts as `verify`: [B]."""

    @wraps(verifier)
    def rule(draft: Draft, target_probs: Tensor, rng: Rng) -> Verdict:
        verdict = verifier(draft, target_probs, rng)
        clock.lap("verify")
        return verdict

    return rule
