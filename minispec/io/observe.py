"""Observing: a whole run of `speculate`, watched from outside.

`observe` wraps the target, the drafter and the verifier that it hands to `speculate`, and looks at caches and
the clock when they are called. `record` returns the whole run as a `Trace`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any, TypeVar

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

Result = TypeVar("Result")


def observe(
    target: LanguageModel,
    drafter: Drafter | None,
    prompts: Sequence[Sequence[int] | Request],
    *,
    verifier: Verifier | Decide,
    **settings: Any,
) -> Iterator[ObservedRound]:
    """Runs `speculate`, with the same arguments, and observes it.

    Yields:
        The rounds of `speculate`, each with its cache lengths and seconds.
    """
    clock = Clock()
    watched_target = WatchedTarget(target, clock)
    watched_drafter = None if drafter is None or settings.get("k") == 0 else WatchedDrafter(drafter, clock)
    timed_verifier = watched_verifier(as_verifier(verifier), clock)
    for r in speculate(watched_target, watched_drafter, prompts, verifier=timed_verifier, **settings):
        clock.lap("other")
        lengths = None if watched_drafter is None else watched_drafter.lengths
        yield ObservedRound(
            **vars(r), target_cache=watched_target.lengths(), draft_cache=lengths, seconds=clock.take()
        )
        clock.start()


def record(
    target: LanguageModel,
    drafter: Drafter | None,
    prompts: Sequence[Sequence[int] | Request],
    *,
    observing: Callable[..., Iterator[ObservedRound]] = observe,
    **settings: Any,
) -> Trace:
    """Runs `speculate`, with the same arguments, to its end and returns the whole trace.

    `observing` runs the loop: `observe`, or that of a backend.
    """
    cap, eos = settings.get("max_new_tokens"), settings.get("eos")
    requests = requests_of(prompts, cap, eos, target.vocab_size, target.max_length)
    rounds = tuple(observing(target, drafter, requests, **settings))
    prompt_tokens = tuple(tuple(request.prompt) for request in requests)
    return Trace(prompt_tokens, run_config(target, drafter, requests, settings), rounds)


def run_config(
    target: LanguageModel, drafter: Drafter | None, requests: Sequence[Request], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the settings that `speculate` was called with, as a trace keeps them."""
    warp: Warp = settings["warp"]
    max_length = target.max_length if drafter is None or settings["k"] == 0 else drafter.max_length
    return {
        "k": int(settings["k"]),
        "verifier": as_verifier(settings["verifier"]).name,
        "max_new_tokens": max(int(request.max_new_tokens) for request in requests),
        "temperature": warp.temperature,
        "top_k": warp.top_k,
        "top_p": warp.top_p,
        "context": min(max_length, target.max_length),
    }


PHASES = ("draft", "verify", "rollback", "other")


class Clock:
    """Adds up seconds by phase.

    Attributes:
        in_prefill: whether prompts are being read; then all time is `prefill`.
    """

    def __init__(self) -> None:
        self.in_prefill = True
        self._seconds: dict[str, float] = {}
        self._last = perf_counter()

    def start(self) -> None:
        """Starts a lap: the time since the last one is not counted."""
        self._last = perf_counter()

    def lap(self, phase: str) -> None:
        """Counts the time since the last lap for a phase."""
        now = perf_counter()
        phase = "prefill" if self.in_prefill else phase
        self._seconds[phase] = self._seconds.get(phase, 0.0) + now - self._last
        self._last = now

    def timed(self, phase: str, call: Callable[..., Result], *arguments: Any) -> Result:
        """Returns what a function returns, and counts the time that it takes for a phase."""
        self.lap("other")
        result = call(*arguments)
        self.lap(phase)
        return result

    def take(self) -> dict[str, float]:
        """Returns the seconds of each phase, and sets them to zero."""
        seconds = dict.fromkeys(PHASES, 0.0) | self._seconds
        self._seconds = {}
        return seconds


class WatchedCache(KVCache):
    """A target's cache whose rollbacks are timed."""

    def __init__(self, cache: KVCache, clock: Clock) -> None:
        self.cache = cache
        self.rows = cache.rows
        self.capacity = cache.capacity
        self._clock = clock

    @property
    def row_lengths(self) -> tuple[int, ...]:
        """How many tokens each row holds."""
        return self.cache.row_lengths

    def truncate(self, lengths: Sequence[int] | Tensor) -> None:
        """Forgets everything after the first lengths[b] tokens of row b: [B]."""
        self._clock.timed("rollback", self.cache.truncate, lengths)

    def gather(self, indices: Sequence[Sequence[int]]) -> None:
        """Keeps some slots of each row."""
        self._clock.timed("rollback", self.cache.gather, indices)

    def place(self, row: int, other: KVCache, source: int) -> None:
        """Copies row `source` of another watched cache into a row."""
        assert isinstance(other, WatchedCache)
        self.cache.place(row, other.cache, source)


class WatchedTarget:
    """A target that notes the lengths of its cache before and after each forward."""

    def __init__(self, model: LanguageModel, clock: Clock) -> None:
        self.vocab_size = model.vocab_size
        self.hidden_size = model.hidden_size
        self.max_length = model.max_length
        self.device = model.device
        self._model = model
        self._clock = clock
        self._cache: WatchedCache | None = None  # of the last forward; when a round ends, that of the run
        self._before: tuple[int, ...] = ()
        self._verified: tuple[int, ...] = ()

    def new_cache(self, rows: int) -> WatchedCache:
        """Returns the model's cache, watched; the next forwards are prefill."""
        self._clock.lap("other")
        self._clock.in_prefill = True
        return WatchedCache(self._model.new_cache(rows), self._clock)

    def hidden(self, tokens: Tensor, cache: KVCache | None = None, tree: Tree | None = None) -> Tensor:
        """Reads tokens as the model does: [B, n] -> [B, n, D].

        It was verification if `head` is called after it, and prefill if not.
        """
        assert isinstance(cache, WatchedCache)
        self._clock.lap("other")
        self._cache = cache
        self._before = cache.row_lengths
        hidden = self._model.hidden(tokens, cache.cache, tree)
        self._verified = cache.row_lengths
        return hidden

    def head(self, hidden: Tensor) -> Tensor:
        """Maps hidden states [B, n, D] to logits [B, n, V]: to verify, for prefill wants none."""
        self._clock.in_prefill = False
        return self._model.head(hidden)

    def lengths(self) -> CacheLengths:
        """Returns the cache's lengths in the round that has just ended."""
        assert self._cache is not None
        return CacheLengths(self._before, self._verified, self._cache.row_lengths)


class WatchedDrafter:
    """A drafter that notes the lengths of its cache before and after it drafts.

    Attributes:
        lengths: how long the cache was in the last round; None if there is none.
    """

    def __init__(self, drafter: Drafter, clock: Clock) -> None:
        self.vocab_size = drafter.vocab_size
        self.max_length = drafter.max_length
        self.lengths: CacheLengths | None = None
        self.start = drafter.start  # the time that prompts take is counted before `propose`
        self._drafter = drafter
        self._clock = clock
        self._before: tuple[int, ...] | None = None  # None until something is drafted in a round

    @property
    def cache_lengths(self) -> tuple[int, ...] | None:
        """How many tokens its cache holds, row by row."""
        return self._drafter.cache_lengths

    def admit(self, rows: Sequence[int], prompts: Prompts, hidden: Tensor) -> None:
        """Has the drafter begin other prompts in these rows; hidden: [len(rows), n, D]."""
        self._drafter.admit(rows, prompts, hidden)

    def propose(self, pending: Tensor, k: int, warp: Warp, rng: RoundRng) -> Draft:
        """Returns the drafter's draft after the pending tokens [B]."""
        self._clock.lap("other")
        self._clock.in_prefill = False
        self._before = self._drafter.cache_lengths
        return self._clock.timed("draft", self._drafter.propose, pending, k, warp, rng)

    def commit(self, round: Round) -> None:
        """Tells the drafter the round, and counts the time as drafting."""
        verified = self._drafter.cache_lengths
        before = self._before or verified
        self._clock.timed("draft", self._drafter.commit, round)
        after = self._drafter.cache_lengths
        self.lengths = None if after is None else CacheLengths(before or after, verified or after, after)
        self._before = None


def watched_verifier(verifier: Verifier, clock: Clock) -> Verifier:
    """Returns the same verifier; the time from the target's forward to its verdict counts as `verify`."""

    def decide(draft: Draft, target_probs: Tensor, rng: RoundRng) -> Verdict:
        verdict = verifier.decide(draft, target_probs, rng)
        clock.lap("verify")
        return verdict

    return replace(verifier, decide=decide)
