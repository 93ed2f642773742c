"""Traces: a whole run, with what an observer saw of it: cache lengths at three moments, seconds by phase.

The loop knows nothing of this. `observe` wraps the target, the drafter and the verifier that it hands to
`speculate`, and looks at caches and the clock when they are called. Statistics, figures, files and the
command line read a `Trace`, never a model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from time import perf_counter
from typing import Any

from torch import Tensor

from minispec.core.cache import KVCache
from minispec.core.draft import Drafter
from minispec.core.loop import speculate
from minispec.core.model import LanguageModel
from minispec.core.prefill import Prompts, device_of
from minispec.core.records import Draft, Finish, Round, Verdict
from minispec.core.rng import Rng
from minispec.core.verify import Verifier
from minispec.core.warp import Warp


@dataclass(frozen=True)
class CacheLengths:
    """How many tokens a cache held, row by row, at three moments of a round.

    Attributes:
        before: when the round began.
        verified: after the target had read the draft; for the draft's cache, after drafting.
        after: after rollback.
    """

    before: tuple[int, ...]
    verified: tuple[int, ...]
    after: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class ObservedRound(Round):
    """A round, and what was seen of it from outside.

    Attributes:
        target_cache: lengths of the target's cache.
        draft_cache: lengths of the drafter's cache, or None if it has none.
        seconds: time spent in `draft`, `verify`, `rollback` and `other`; the first round also has `prefill`.
    """

    target_cache: CacheLengths
    draft_cache: CacheLengths | None
    seconds: Mapping[str, float]


@dataclass(frozen=True)
class Trace:
    """A whole run: a header and its rounds.

    Attributes:
        prompts: token ids, one list per row.
        config: what the run was called with (k, verifier, temperature, …), for people and files.
        rounds: in order.
    """

    prompts: tuple[tuple[int, ...], ...]
    config: Mapping[str, Any]
    rounds: tuple[ObservedRound, ...]

    @property
    def prefill_lengths(self) -> tuple[int, ...]:
        """How many tokens of each prompt were read before the first round: all but the pending one."""
        if not self.rounds:
            return (0,) * len(self.prompts)
        return self.rounds[0].target_cache.before

    @property
    def prefill_seconds(self) -> float:
        """How long that took, both models together."""
        return self.rounds[0].seconds.get("prefill", 0.0) if self.rounds else 0.0

    def tokens(self, row: int = 0) -> list[int]:
        """Everything emitted for a row, without the prompt."""
        return [token for r in self.rounds for token in r.emitted[row]]

    def finish(self, row: int = 0) -> Finish | None:
        """Why the row ended, or None if it had not."""
        if self.rounds:
            return self.rounds[-1].finish[row]
        # Without a round there was no budget from the start.
        full = len(self.prompts[row]) >= self.config.get("context", float("inf"))
        return "context" if full else "cap" if self.config.get("max_new_tokens") == 0 else None

    def statistics(self) -> Statistics:
        """Counts over all rows and rounds."""
        each = [(r, row) for r in self.rounds for row in range(len(self.prompts)) if r.live[row]]
        tested = [r.tested(row) for r, row in each]
        seconds: dict[str, float] = {}
        for r in self.rounds:
            for phase, value in r.seconds.items():
                seconds[phase] = seconds.get(phase, 0.0) + value
        return Statistics(
            emitted=sum(len(r.emitted[row]) for r, row in each),
            target_calls=len(self.rounds),
            row_rounds=len(each),
            accepted=sum(r.accepted(row) for r, row in each),
            tested=None if None in tested else sum(n for n in tested if n is not None),
            drafted=sum(r.drafted(row) for r, row in each),
            seconds=seconds,
        )


@dataclass(frozen=True)
class Statistics:
    """Counts of a trace.

    Attributes:
        emitted: tokens, all rows together.
        target_calls: forwards of the target, prefill left out.
        row_rounds: the same counted per live row.
        accepted: drafted tokens that were kept.
        tested: drafted tokens that were looked at; those after a rejection were not. None for a rule that
            looks beyond a rejection.
        drafted: drafted tokens.
        seconds: by phase.
    """

    emitted: int
    target_calls: int
    row_rounds: int
    accepted: int
    tested: int | None
    drafted: int
    seconds: Mapping[str, float]

    @property
    def acceptance(self) -> float | None:
        """Accepted over tested, or None if nothing was tested, or the rule looks beyond a rejection."""
        return self.accepted / self.tested if self.tested else None

    @property
    def accepted_over_drafted(self) -> float | None:
        """Accepted over drafted, which engines print; None if nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else None

    @property
    def mean_acceptance_length(self) -> float | None:
        """1 + accepted / rounds, which engines print; None if there was no round."""
        return 1 + self.accepted / self.row_rounds if self.row_rounds else None

    @property
    def tokens_per_target_call(self) -> float | None:
        """Tokens a row gains in one target call, or None if there was none."""
        return self.emitted / self.row_rounds if self.row_rounds else None


def record(target: LanguageModel, drafter: Drafter | None, prompts: Prompts, **settings: Any) -> Trace:
    """Runs `speculate` to its end and returns the whole trace.

    Args:
        target: as in `speculate`.
        drafter: as in `speculate`.
        prompts: as in `speculate`.
        **settings: the keyword arguments of `speculate`.
    """
    rounds = tuple(observe(target, drafter, prompts, **settings))
    config = run_config(target, drafter, settings)
    return Trace(tuple(tuple(prompt) for prompt in prompts), config, rounds)


def observe(
    target: LanguageModel, drafter: Drafter | None, prompts: Prompts, *, verifier: Verifier, **settings: Any
) -> Iterator[ObservedRound]:
    """Runs `speculate` and adds to each round what can be seen of it from outside.

    Args:
        target: as in `speculate`.
        drafter: as in `speculate`.
        prompts: as in `speculate`.
        verifier: as in `speculate`.
        **settings: the other keyword arguments of `speculate`.

    Yields:
        The rounds of `speculate`, each an `ObservedRound`.
    """
    clock = Clock()
    watched = WatchedTarget(target, clock)
    drafts = None if drafter is None or settings.get("k") == 0 else WatchedDrafter(drafter, clock)
    rule = watched_rule(verifier, clock)
    for r in speculate(watched, drafts, prompts, verifier=rule, **settings):
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
        "k": settings["k"],
        "verifier": getattr(settings["verifier"], "__name__", str(settings["verifier"])),
        "max_new_tokens": settings["max_new_tokens"],
        "temperature": warp.temperature,
        "top_k": warp.top_k,
        "top_p": warp.top_p,
        "context": min(own, target.max_length),
    }


class Clock:
    """Adds up seconds by phase; all before the first round is `prefill`."""

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

    def round_begins(self) -> None:
        """Ends the prefill, if it has not ended yet."""
        self.lap("other")
        self.in_prefill = False

    def take(self) -> dict[str, float]:
        """Returns the sums and starts afresh."""
        taken, self._seconds = self._seconds, {}
        return {
            phase: taken.get(phase, 0.0)
            for phase in ("prefill", *PHASES)
            if phase in taken or phase in PHASES
        }


PHASES = ("draft", "verify", "rollback", "other")


class WatchedTarget:
    """A target that notes how long its cache is before and after it reads a block."""

    def __init__(self, model: LanguageModel, clock: Clock) -> None:
        self.vocab_size, self.max_length, self.device = model.vocab_size, model.max_length, device_of(model)
        self.head = model.head
        self._model, self._clock = model, clock
        self._cache: KVCache | None = None
        self._before: tuple[int, ...] = ()
        self._verified: tuple[int, ...] = ()

    def new_cache(self, rows: int) -> KVCache:
        """Returns the model's own cache; the time of its rollbacks is counted."""
        self._cache = cache = self._model.new_cache(rows)
        truncate = cache.truncate

        def timed(lengths: Sequence[int] | Tensor) -> None:
            self._clock.lap("other")
            truncate(lengths)
            self._clock.lap("rollback")

        cache.truncate = timed  # type: ignore[method-assign]
        return cache

    def hidden(self, tokens: Tensor, cache: KVCache | None = None) -> Tensor:
        """Reads tokens [B, n] as the model does: [B, n, D]."""
        if not self._clock.in_prefill:
            self._begin()
        hidden = self._model.hidden(tokens, cache)
        self._end()
        return hidden

    def __call__(self, tokens: Tensor, cache: KVCache | None = None) -> Tensor:
        """Reads tokens [B, n] as the model does: logits [B, n, V]."""
        if self._clock.in_prefill:
            self._clock.round_begins()
        self._begin()
        logits = self._model(tokens, cache)
        self._end()
        return logits

    def lengths(self) -> CacheLengths:
        """How long the cache was in the round that has just ended."""
        assert self._cache is not None
        return CacheLengths(self._before, self._verified, self._cache.row_lengths)

    def _begin(self) -> None:
        assert self._cache is not None
        self._before = self._cache.row_lengths
        self._clock.lap("other")

    def _end(self) -> None:
        assert self._cache is not None
        self._verified = self._cache.row_lengths


class WatchedDrafter:
    """A drafter that notes how long its cache is before and after it drafts."""

    def __init__(self, drafter: Drafter, clock: Clock) -> None:
        for name in ("vocab_size", "max_length", "wants_hidden"):
            if hasattr(drafter, name):
                setattr(self, name, getattr(drafter, name))
        self._drafter, self._clock = drafter, clock
        self._before: tuple[int, ...] | None = None
        self._verified: tuple[int, ...] | None = None

    @property
    def cache_lengths(self) -> tuple[int, ...] | None:
        """Those of the drafter."""
        return self._drafter.cache_lengths

    def start(self, prompts: Sequence[Sequence[int]], *hidden: Tensor | None) -> None:
        """Lets the drafter read the prompts; hidden: [B, n, D] for one that wants it."""
        self._drafter.start(prompts, *hidden)
        self._before = self._verified = self._drafter.cache_lengths

    def propose(self, pending: Tensor, k: int, warp: Warp, rng: Rng) -> Draft:
        """Proposes what the drafter does after the pending tokens [B]."""
        if self._clock.in_prefill:
            self._clock.round_begins()
        self._clock.lap("other")
        draft = self._drafter.propose(pending, k, warp, rng)
        self._verified = self._drafter.cache_lengths
        self._clock.lap("draft")
        return draft

    def commit(self, round: Round) -> None:
        """Lets the drafter learn, catch up and roll back: part of drafting."""
        self._clock.lap("other")
        self._drafter.commit(round)
        self._clock.lap("draft")

    def lengths(self) -> CacheLengths | None:
        """How long the cache was in the round that has just ended; None if there is none."""
        before, verified, after = self._before, self._verified, self._drafter.cache_lengths
        self._before = self._verified = after
        if before is None or verified is None or after is None:
            return None
        return CacheLengths(before, verified, after)


def watched_rule(verifier: Verifier, clock: Clock) -> Verifier:
    """Returns the same rule; the time from the target's forward to its verdict counts as `verify`: [B]."""

    @wraps(verifier)
    def rule(draft: Draft, target_probs: Tensor, rng: Rng) -> Verdict:
        verdict = verifier(draft, target_probs, rng)
        clock.lap("verify")
        return verdict

    return rule
