"""Turns: two ways of decoding, one right after the other, on the same prompts.

A speed-up is seconds per emitted token, target-only over speculative: the same prompts, the same number of
tokens, prefill on both sides, end-of-sequence off. Whatever is compared takes turns in one process, so that a
machine that slows down slows both, and who goes first changes from turn to turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import quantiles
from time import perf_counter
from typing import Any, Protocol, TypeVar

from minispec.core.draft import Drafter
from minispec.core.loop import generate
from minispec.core.model import LanguageModel
from minispec.core.verify import Verifier, verify_greedy, verify_rejection
from minispec.evidence.bench.machine import using_threads
from minispec.io.observe import record
from minispec.io.trace import Statistics
from minispec.native.backend import TORCH, Backend

RULES: dict[str, Verifier] = {"greedy": verify_greedy, "rejection": verify_rejection}
PHASES = ("draft", "verify", "rollback", "other")

Prompts = Sequence[Sequence[int]]
Key = TypeVar("Key")


@dataclass(frozen=True)
class Run:
    """What came of decoding some prompts side by side.

    Attributes:
        seconds: from the prompts to the last token, prefill included.
        texts: the new tokens, row by row.
        statistics: of the rounds; None for the target alone.
        widths: K of each round.
    """

    seconds: float
    texts: tuple[tuple[int, ...], ...]
    statistics: Statistics | None = None
    widths: tuple[int, ...] = ()

    @property
    def emitted(self) -> int:
        """New tokens, all rows together."""
        return sum(map(len, self.texts))

    @property
    def seconds_per_token(self) -> float:
        """Seconds over emitted tokens."""
        return self.seconds / max(self.emitted, 1)


class Decodes(Protocol):
    """Anything that decodes and is timed."""

    def decode(self, prompts: Prompts, seed: int, new_tokens: int) -> Run:
        """Decodes prompts side by side (see `Way`)."""


@dataclass(frozen=True)
class Way:
    """A way of decoding.

    Attributes:
        target: the model.
        drafter: makes a drafter for a run; None: the target alone.
        k: drafted tokens per round.
        verifier: `greedy` or `rejection`.
        temperature: 0 for greedy.
        threads: processor threads; None: as many as torch uses anyway.
        backend: makes the warp, the random number generator and the rules.
    """

    target: LanguageModel
    drafter: Callable[[], Drafter] | None = None
    k: int = 0
    verifier: str = "greedy"
    temperature: float = 0.0
    threads: int | None = None
    backend: Backend = TORCH

    def decode(self, prompts: Prompts, seed: int, new_tokens: int) -> Run:
        """Decodes prompts side by side, and times it.

        Args:
            prompts: token ids, one sequence per row.
            seed: of the sampling.
            new_tokens: how many tokens to emit per prompt.
        """
        with using_threads(self.threads):
            if self.drafter is None:
                return self._alone(prompts, seed, new_tokens)
            started = perf_counter()
            trace = record(
                self.target,
                self.drafter(),
                prompts,
                k=self.k,
                verifier=self.backend.rules[self.verifier],
                max_new_tokens=new_tokens,
                warp=self.backend.warp(self.temperature),
                rng=self.backend.rng(seed),
            )
            seconds = perf_counter() - started
        texts = tuple(tuple(trace.tokens(row)) for row in range(len(prompts)))
        return Run(seconds, texts, trace.statistics(), tuple(r.draft.k for r in trace.rounds))

    def _alone(self, prompts: Prompts, seed: int, new_tokens: int) -> Run:
        started = perf_counter()
        warp, rng = self.backend.warp(self.temperature), self.backend.rng(seed)
        steps = list(generate(self.target, prompts, max_new_tokens=new_tokens, warp=warp, rng=rng))
        seconds = perf_counter() - started
        columns = (tuple(t for t in column if t is not None) for column in zip(*steps, strict=True))
        return Run(seconds, tuple(columns) or ((),) * len(prompts))


@dataclass(frozen=True)
class Turn:
    """One prompt, or a batch of them, decoded both ways, one right after the other.

    Attributes:
        target_only: seconds per emitted token of the target alone, prefill included.
        speculative: the same with a drafter.
        statistics: of the speculative run.
        rows: texts side by side.
    """

    target_only: float
    speculative: float
    statistics: Statistics
    rows: int = 1

    @property
    def ratio(self) -> float:
        """The speed-up of this turn."""
        return self.target_only / self.speculative


@dataclass(frozen=True)
class Setting:
    """One way of decoding, measured.

    Attributes:
        pair: its name.
        verifier: `greedy` or `rejection`.
        temperature: 0 for greedy.
        k: drafted tokens per round.
        turns: one per prompt and repetition.
    """

    pair: str
    verifier: str
    temperature: float
    k: int
    turns: Sequence[Turn]

    @property
    def speedup(self) -> float:
        """The median of the turns' ratios."""
        return quartiles(turn.ratio for turn in self.turns)[1]

    def to_json(self) -> dict[str, Any]:
        """Returns the figures under the names that outside checks read."""
        total = [turn.statistics for turn in self.turns]
        low, middle, high = quartiles(turn.ratio for turn in self.turns)
        return {
            "pair": self.pair,
            "verifier": self.verifier,
            "temperature": self.temperature,
            "k": self.k,
            "speedup": middle,
            "speedup_quartiles": [low, high],
            "acceptance": acceptance_of(self.turns),
            "tokens_per_target_call": sum(s.emitted for s in total) / sum(s.row_rounds for s in total),
            "target_only_tokens_per_second": 1 / quartiles(t.target_only for t in self.turns)[1],
            "tokens_per_second": 1 / quartiles(t.speculative for t in self.turns)[1],
            "seconds": {
                p: sum(s.seconds.get(p, 0.0) for s in total) / len(total) for p in ("prefill", *PHASES)
            },
            "turns": len(total),
        }


def take_turn(base: Way, way: Way, prompts: Prompts, seed: int, new_tokens: int, flip: bool = False) -> Turn:
    """Decodes prompts side by side in both ways, one right after the other.

    Args:
        base: the target alone.
        way: with a drafter.
        prompts: token ids; one prompt for a speed-up as it is reported, more for a batch.
        seed: of the sampling.
        new_tokens: how many tokens to emit per prompt.
        flip: whether `way` goes first.
    """
    order = (way, base) if flip else (base, way)
    runs = [each.decode(prompts, seed, new_tokens) for each in order]
    alone, fast = reversed(runs) if flip else runs
    assert fast.statistics is not None
    return Turn(alone.seconds_per_token, fast.seconds_per_token, fast.statistics, len(prompts))


def take_turns(
    base: Mapping[Key, Way],
    ways: Mapping[Key, Way],
    batches: Iterable[Prompts],
    seed: int,
    new_tokens: int,
    tell: Callable[[float, str], None] = lambda share, text: None,
) -> dict[Key, list[Turn]]:
    """Lets every way have its turn with its base on each batch of prompts, after a warm-up.

    Args:
        base: the target alone, by the same names as `ways`.
        ways: by any name.
        batches: prompts that are decoded side by side.
        seed: of the sampling; every batch has one of its own.
        new_tokens: per prompt.
        tell: told how much is done, from 0 to 1, and what comes next.
    """
    batches, turns = list(batches), {key: list[Turn]() for key in ways}
    for number, batch in enumerate(batches):
        for place, (key, way) in enumerate(ways.items()):
            tell((number + place / len(ways)) / len(batches), str(key))
            if number == 0:
                take_turn(base[key], way, batch, seed, min(new_tokens, 32))
            flip = (number + place) % 2 == 1
            turns[key].append(take_turn(base[key], way, batch, seed + number, new_tokens, flip))
    return turns


def acceptance_of(turns: Sequence[Turn]) -> float | None:
    """Returns accepted over tested tokens of all turns; None where none was tested."""
    tested = sum(turn.statistics.tested or 0 for turn in turns)
    return sum(turn.statistics.accepted for turn in turns) / tested if tested else None


def gain_of(turns: Sequence[Turn]) -> tuple[float, float, float]:
    """Returns the median speed-up and its quartiles: middle, low, high."""
    low, middle, high = quartiles(turn.ratio for turn in turns)
    return middle, low, high


def quartiles(values: Iterable[float]) -> tuple[float, float, float]:
    """Returns the lower quartile, the median and the upper quartile.

    Raises:
        ValueError: if there are no values.
    """
    values = list(values)
    if not values:
        raise ValueError("there is nothing to take a median of")
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = quantiles(values, n=4, method="inclusive")
    return low, middle, high


def round_robin(
    ways: Mapping[Key, Decodes],
    batches: Iterable[Prompts],
    seed: int,
    new_tokens: int,
    tell: Callable[[float, str], None] = lambda share, text: None,
) -> dict[Key, list[Run]]:
    """Lets every way decode each batch, one after the other, after a warm-up; who begins moves on.

    Args:
        ways: by any name.
        batches: prompts that are decoded side by side.
        seed: of the sampling; every batch has one of its own.
        new_tokens: per prompt.
        tell: told how much is done, from 0 to 1, and what comes next.

    Returns:
        Per way a run per batch, in the order of the batches.
    """
    batches, names = list(batches), list(ways)
    runs: dict[Key, list[Run]] = {name: [] for name in names}
    for number, batch in enumerate(batches):
        first = number % len(names)
        for place, name in enumerate([*names[first:], *names[:first]]):
            tell((number + place / len(names)) / len(batches), str(name))
            if number == 0:
                ways[name].decode(batch, seed, min(new_tokens, 32))
            runs[name].append(ways[name].decode(batch, seed + number, new_tokens))
    return runs
