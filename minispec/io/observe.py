"""Observing: a whole run of `speculate`, watched from outside.

`observe` wraps the target, the drafter and the verifier that it hands to `speculate`, and looks at caches and
the clock when they are called. `record` keeps what it saw as a `Trace`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from time import perf_counter
from typing import Any

from torch import Tensor

from minispec.core.batch import Prompts, Request, requests_of
from minispec.core.cache import KVCache
from minispec.core.draft import Drafter
from minispec.core.loop import speculate
from minispec.core.model import LanguageModel, Tree
from minispec.core.records import Draft, Round, Verdict
from minispec.core.rng import RoundRng
from minispec.core.verify import Decide, Verifier, as_verifier
from minispec.core.warp import Warp
from minispec.io.trace import CacheLengths, ObservedRound, Trace


def record(
    target: LanguageModel,
    drafter: Drafter | None,
    prompts: Sequence[Sequence[int] | Request],
    **settings: Any,
) -> Trace:
    """Runs `speculate`, with the same arguments, to its end and returns the whole trace."""
    requests = checked(target, prompts, settings)
    rounds = tuple(observe(target, drafter, requests, **settings))
    texts = tuple(tuple(request.prompt) for request in requests)
    return Trace(texts, run_config(target, drafter, requests, settings), rounds)


def checked(
    target: LanguageModel, prompts: Sequence[Sequence[int] | Request], settings: Mapping[str, Any]
) -> list[Request]:
    """Returns what `speculate` is called with as requests, each read once; ValueError for unusable ones."""
    cap, eos = settings.get("max_new_tokens"), settings.get("eos")
    return requests_of(prompts, cap, eos, target.vocab_size, target.max_length)


def observe(
    target: LanguageModel,
    drafter: Drafter | None,
    prompts: Sequence[Sequence[int] | Request],
    *,
    verifier: Verifier | Decide,
    **settings: Any,
) -> Iterator[ObservedRound]:
    """Runs `speculate`, with the same arguments.

    Yields:
        The rounds of `speculate`, each with what can be seen of it from outside.
    """
    clock = Clock()
    watched = WatchedTarget(target, clock)
    drafts = None if drafter is None or settings.get("k") == 0 else WatchedDrafter(drafter, clock)
    timed = watched_verifier(as_verifier(verifier), clock)
    for r in speculate(watched, drafts, prompts, verifier=timed, **settings):
        clock.lap("other")
        lengths = drafts.lengths() if drafts is not None else None
        yield ObservedRound(
            **vars(r), target_cache=watched.lengths(), draft_cache=lengths, seconds=clock.take()
        )
        clock.start()


def run_config(
    target: LanguageModel, drafter: Drafter | None, requests: Sequence[Request], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns what a trace says of the settings that `speculate` was called with."""
    warp: Warp = settings["warp"]
    limit = target.max_length if drafter is None or settings["k"] == 0 else drafter.max_length
    return {
        "k": int(settings["k"]),
        "verifier": as_verifier(settings["verifier"]).name,
        "max_new_tokens": max(int(request.max_new_tokens) for request in requests),
        "temperature": warp.temperature,
        "top_k": warp.top_k,
        "top_p": warp.top_p,
        "context": min(limit, target.max_length),
    }


PHASES = ("draft", "verify", "rollback", "other")


class Clock:
    """Adds up seconds by phase; all before the first round is `prefill`, and what reads a later prompt."""

    def __init__(self) -> None:
        self.in_prefill = True
        self._seconds: dict[str, float] = {}
        self._last = perf_counter()
        self._reading = 0.0  # of the last forward of the target, until it is known what it was for

    def start(self) -> None:
        """Forgets the time since the last lap: it was the reader's."""
        self._last = perf_counter()

    def lap(self, phase: str) -> None:
        """Counts the time since the last lap for a phase."""
        self._add("prefill" if self.in_prefill else phase, self._since_last())

    def timed(self, phase: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """Returns what does the same as a function, and counts the time that it takes for a phase."""

        @wraps(call)
        def counted(*arguments: Any) -> Any:
            self.lap("other")
            result = call(*arguments)
            self.lap(phase)
            return result

        return counted

    def target_has_read(self) -> None:
        """Keeps the time since the last lap: a prefill's, unless logits are asked for next."""
        self._add("prefill", self._reading)
        self._reading = self._since_last()

    def logits_are_wanted(self) -> None:
        """Counts what the target has read last as verification."""
        self.round_begins()
        self._add("verify", self._reading)
        self._reading = 0.0

    def round_begins(self) -> None:
        """Ends the prefill, if it has not ended yet."""
        self.lap("other")
        self.in_prefill = False

    def take(self) -> dict[str, float]:
        """Returns the sums and starts afresh."""
        sums = dict.fromkeys(PHASES, 0.0) | self._seconds
        self._seconds = {}
        return sums

    def _add(self, phase: str, seconds: float) -> None:
        if seconds:
            self._seconds[phase] = self._seconds.get(phase, 0.0) + seconds

    def _since_last(self) -> float:
        now = perf_counter()
        seconds = now - self._last
        self._last = now
        return seconds


class WatchedCache(KVCache):
    """A target's cache whose rollbacks are timed."""

    def __init__(self, cache: KVCache, phase: str, clock: Clock) -> None:
        self.cache = cache
        self.rows = cache.rows
        self.capacity = cache.capacity
        self.truncate = clock.timed(phase, cache.truncate)
        self.gather = clock.timed(phase, cache.gather)

    @property
    def lengths(self) -> Tensor:
        """How many tokens each row holds: [B]."""
        return self.cache.lengths

    @property
    def row_lengths(self) -> tuple[int, ...]:
        """The same as plain integers."""
        return self.cache.row_lengths

    def place(self, row: int, other: KVCache, source: int) -> None:
        """Takes over, into one row, what another watched cache holds in its row `source`."""
        assert isinstance(other, WatchedCache)
        self.cache.place(row, other.cache, source)


class WatchedTarget:
    """A target that notes how long its cache is before and after it reads a block."""

    def __init__(self, model: LanguageModel, clock: Clock) -> None:
        self.vocab_size = model.vocab_size
        self.hidden_size = model.hidden_size
        self.max_length = model.max_length
        self.device = model.device
        self._model = model
        self._clock = clock
        self._cache: WatchedCache | None = None
        self._before: tuple[int, ...] = ()
        self._verified: tuple[int, ...] = ()

    def new_cache(self, rows: int) -> WatchedCache:
        """Returns the model's own cache, watched; the first one is that of the run."""
        phase = "rollback" if self._cache is None else "prefill"
        cache = WatchedCache(self._model.new_cache(rows), phase, self._clock)
        self._cache = self._cache or cache
        return cache

    def hidden(self, tokens: Tensor, cache: KVCache | None = None, tree: Tree | None = None) -> Tensor:
        """Reads tokens as the model does: [B, n] -> [B, n, D]."""
        assert isinstance(cache, WatchedCache)
        self._clock.lap("other")
        before = cache.row_lengths
        hidden = self._model.hidden(tokens, cache.cache, tree)
        if cache is self._cache:
            self._before = before
            self._verified = cache.row_lengths
        self._clock.target_has_read()
        return hidden

    def head(self, hidden: Tensor) -> Tensor:
        """Maps hidden states [B, n, D] to logits [B, n, V]: only in a round, prefill wants none."""
        self._clock.logits_are_wanted()
        return self._model.head(hidden)

    def lengths(self) -> CacheLengths:
        """How long the cache was in the round that has just ended."""
        assert self._cache is not None
        return CacheLengths(self._before, self._verified, self._cache.row_lengths)


class WatchedDrafter:
    """A drafter that notes how long its cache is before and after it drafts."""

    def __init__(self, drafter: Drafter, clock: Clock) -> None:
        self.vocab_size = drafter.vocab_size
        self.max_length = drafter.max_length
        self._drafter = drafter
        self._clock = clock
        self._before: tuple[int, ...] | None = None
        self._verified: tuple[int, ...] | None = None

    @property
    def cache_lengths(self) -> tuple[int, ...] | None:
        """How many tokens its cache holds, row by row."""
        return self._drafter.cache_lengths

    def start(self, prompts: Prompts, hidden: Tensor) -> None:
        """Lets the drafter read the prompts; hidden: [B, n, D]."""
        self._clock.timed("prefill", self._drafter.start)(prompts, hidden)
        self._before = self._verified = self._drafter.cache_lengths

    def admit(self, rows: Sequence[int], prompts: Prompts, hidden: Tensor) -> None:
        """Lets it read prompts in some rows; hidden: [len(rows), n, D]."""
        self._clock.timed("prefill", self._drafter.admit)(rows, prompts, hidden)
        self._before = self._verified = self._drafter.cache_lengths

    def propose(self, pending: Tensor, k: int, warp: Warp, rng: RoundRng) -> Draft:
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


def watched_verifier(verifier: Verifier, clock: Clock) -> Verifier:
    """Returns the same verifier; the time from the target's forward to its verdict counts as `verify`."""

    def decide(draft: Draft, target_probs: Tensor, rng: RoundRng) -> Verdict:
        verdict = verifier.decide(draft, target_probs, rng)
        clock.lap("verify")
        return verdict

    return replace(verifier, decide=decide)
