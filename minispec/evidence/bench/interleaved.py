"""Interleaved timing: what is compared decodes the same prompts one right after the other.

A speed-up is seconds per emitted token, target-only over speculative: the same prompts, the same number of
tokens, prefill on both sides, end-of-sequence off. All of it runs interleaved in one process, so that a
machine that slows down slows every side, and who goes first changes from prompt to prompt.

Beside a speed-up stand the share of the time that went into forward passes, and the ratio of the seconds in
forward passes only, which is no bound of it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from itertools import zip_longest
from operator import truediv
from time import perf_counter
from typing import Any, Protocol, TypeVar

import numpy as np

from minispec.core.batch import Prompts
from minispec.core.draft import Drafter
from minispec.core.records import Round
from minispec.core.rng import SEEDS
from minispec.evidence.bench.machine import using_threads
from minispec.io.observe import record
from minispec.io.trace import Statistics
from minispec.native.backend import NATIVE, Models
from minispec.native.drafter import Chain
from minispec.native.loop import Forwards
from minispec.native.model import NativeLayers

PHASES = ("prefill", "draft", "verify", "rollback", "other")

Tell = Callable[[str], None]
Key = TypeVar("Key")
Positions = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Run:
    """What came of decoding some prompts side by side."""

    seconds: float  #: from the prompts to the last token, prefill included
    texts: tuple[tuple[int, ...], ...]  #: the new tokens, row by row
    statistics: Statistics | None = None  #: of the rounds; None for the target alone
    positions: Positions = ()  #: how often each drafted position was tested, and kept (see `by_position`)
    live: float = 1.0  #: of queues: which share of places in forwards belonged to a text in the making
    forwards: Forwards = field(default_factory=Forwards)  #: their seconds, where the library plays the rounds

    @property
    def seconds_per_token(self) -> float:
        """Seconds over emitted tokens, all rows together."""
        return self.seconds / self.tokens

    @property
    def tokens(self) -> int:
        """Emitted tokens, all rows together, and at least 1."""
        return max(sum(map(len, self.texts)), 1)

    @property
    def forward_seconds(self) -> float:
        """Seconds in forwards of rounds, of target and drafter; 0 where they are not counted."""
        return self.forwards.target and self.forwards.draft + self.forwards.target

    @property
    def share(self) -> float:
        """Seconds in forwards, those of prefill too, over all seconds; 0 where they are not counted."""
        return self.forward_seconds and (self.forward_seconds + self.forwards.prefill) / self.seconds


class Decodes(Protocol):
    """Anything that decodes and is timed."""

    def decode(self, prompts: Prompts, seed: int, new_tokens: int) -> Run:
        """Decodes prompts side by side (see `Setting`)."""


@dataclass(frozen=True)
class Setting:
    """Models, and how they decode."""

    models: Models  #: target and draft on a backend, which brings the warp, the random numbers and the rules
    k: int = 0  #: drafted tokens per round; 0 is the target alone
    verifier: str = "greedy"  #: its name
    temperature: float = 0.0  #: 0 for greedy
    threads: int | None = None  #: processor threads; None: as many as torch uses anyway
    label: str = ""  #: what else tells it from other settings, for people
    drafter: Drafter | None = None  #: another drafter than the backend's
    proposes_trees: bool = False  #: whether that one proposes trees

    @property
    def name(self) -> str:
        """What predictions and measurements of the same setting are both called."""
        suffix = f", {self.label}" if self.label else ""
        return f"{self.verifier}, T = {self.temperature:g}, K = {self.k}{suffix}"

    @property
    def fields(self) -> dict[str, Any]:
        """What rows of a report say of it."""
        return {"verifier": self.verifier, "temperature": self.temperature, "k": self.k}

    def sampling(self, seed: int, new_tokens: int) -> dict[str, Any]:
        """Returns what `generate` and `speculate` are told of the target's part."""
        backend = self.models.backend
        return {
            "warp": backend.warp(self.temperature),
            "rng": backend.rng(seed),
            "max_new_tokens": new_tokens,
        }

    def drafting(self) -> dict[str, Any]:
        """Returns what `speculate` is told besides; with K = 0 nothing drafts."""
        backend = self.models.backend
        return {
            "drafter": (self.drafter or backend.drafter(self.models.draft)) if self.k else None,
            "k": self.k,
            "verifier": backend.verifier(self.verifier, self.proposes_trees),
        }

    def decode(self, prompts: Prompts, seed: int, new_tokens: int) -> Run:
        """Decodes prompts side by side, so many new tokens each, and times it; seed: of the sampling."""
        target = self.models.target
        backend = self.models.backend
        settings = self.sampling(seed, new_tokens)
        forwards = Forwards(clocks=clocks_in(self.drafter))
        counting = {"forwards": forwards} if backend is NATIVE else {}
        with using_threads(self.threads):
            started = perf_counter()
            if not self.k:
                steps = list(backend.generate(target, prompts, **counting, **settings))
                seconds = perf_counter() - started
                columns = (tuple(t for t in column if t is not None) for column in zip(*steps, strict=True))
                return Run(seconds, tuple(columns) or ((),) * len(prompts), forwards=forwards)
            settings |= self.drafting() | {"observing": partial(backend.observe, **counting)}
            trace = record(target, prompts=prompts, **settings)
            seconds = perf_counter() - started
        texts = tuple(tuple(trace.tokens(row)) for row in range(len(prompts)))
        return Run(seconds, texts, trace.statistics(), by_position(trace.rounds), forwards=forwards)


def clocks_in(part: Any) -> list[Chain | NativeLayers]:
    """Returns what an object is made of, at any depth, that counts the seconds of its own forwards."""
    visited: dict[int, Any] = {}
    parts = [part]
    while parts:
        part = parts.pop()
        if id(part) not in visited and type(part).__dictoffset__:  # else it has no attributes
            visited[id(part)] = part
            parts += vars(part).values()
    return [part for part in visited.values() if isinstance(part, Chain | NativeLayers)]


def interleave(
    groups: Mapping[Key, Sequence[Decodes]],
    batches: Iterable[Prompts],
    seed: int,
    new_tokens: int,
    tell: Tell = lambda text: None,
) -> dict[Key, list[list[Run]]]:
    """Lets the members of each group decode each batch, one right after the other, after a warm-up.

    Who begins moves on from batch to batch; every batch has a seed of its own; `tell` is told which is next.
    Returns, per group and member, a run per batch, in the order of the batches.
    """
    batches = list(batches)
    runs: dict[Key, list[list[Run]]] = {name: [[] for _ in group] for name, group in groups.items()}
    for number, batch in enumerate(batches):
        tell(f"{number + 1} of {len(batches)}")
        batch_seed = (seed + number) % SEEDS
        for position, (name, group) in enumerate(groups.items()):
            if number == 0:
                for setting in group:
                    setting.decode(batch, seed, min(new_tokens, 32))
            for i in range(len(group)):
                member = (number + position + i) % len(group)
                runs[name][member].append(group[member].decode(batch, batch_seed, new_tokens))
    return runs


def speed_up_of(slow: Sequence[Run], fast: Sequence[Run]) -> tuple[float, float, float]:
    """Returns how many times as fast a token comes: lower quartile, median, upper quartile of all pairs."""
    return quartiles(
        slower.seconds_per_token / faster.seconds_per_token for slower, faster in zip(slow, fast, strict=True)
    )


def ratio(name: str, slow: Sequence[Run], fast: Sequence[Run]) -> dict[str, Any]:
    """Returns the speed-up under a name, and its quartiles."""
    low, median, high = speed_up_of(slow, fast)
    return {name: median, f"{name}_quartiles": [low, high]}


def limit_of(slow: Sequence[Run], fast: Sequence[Run]) -> float | None:
    """Returns the ratio of the seconds in forward passes of rounds only; None where they are not counted.

    It is no bound of the speed-up, which is larger where forward passes take a larger share of the fast runs
    than of the slow ones.
    """
    slower, faster = ([run.forward_seconds / run.tokens for run in runs] for runs in (slow, fast))
    return (all(faster) and quartiles(map(truediv, slower, faster))[1]) or None


def share_of(runs: Sequence[Run]) -> float | None:
    """Returns the median share of forwards in the time of runs; None where they are not counted."""
    return quartiles(run.share for run in runs)[1] or None


def tokens_per_second(runs: Sequence[Run]) -> float:
    """Returns the median rate."""
    return 1 / quartiles(run.seconds_per_token for run in runs)[1]


def total_of(runs: Sequence[Run]) -> Statistics:
    """Returns the counts of all runs together, those of the target alone left out."""
    counts = [run.statistics for run in runs if run.statistics]
    names = (field.name for field in fields(Statistics) if field.name != "seconds")
    sums = {name: sum(getattr(count, name) or 0 for count in counts) for name in names}
    seconds = {phase: sum(count.seconds.get(phase, 0.0) for count in counts) for phase in PHASES}
    return Statistics(**sums, seconds=seconds)


def by_position(rounds: Iterable[Round]) -> Positions:
    """Returns for each position after the pending token how often it was tested, and how often kept: [K].

    It was tested where all before it were kept and the draft went on. In a tree the position is the depth,
    and it was kept if one of its candidates was.
    """
    tested = Counter[int]()
    kept = Counter[int]()
    for r in rounds:
        for row, is_live in enumerate(r.live):
            if is_live:
                accepted = r.accepted(row)
                kept.update(range(accepted))
                tested.update(range(accepted + bool(r.rejected(row))))
    return tuple((tested[i], kept[i]) for i in range(len(tested)))


def positions_of(runs: Sequence[Run]) -> Positions:
    """Returns the same of all runs together."""
    columns = zip_longest(*(run.positions for run in runs), fillvalue=(0, 0))
    return [(sum(tested for tested, _ in column), sum(kept for _, kept in column)) for column in columns]


def figures(pair: str, setting: Setting, alone: Sequence[Run], drafted: Sequence[Run]) -> dict[str, Any]:
    """Returns what a setting with a draft came to, under the names that outside checks read.

    Both runs, of the target alone and of the setting, are of the same prompts.
    """
    total = total_of(drafted)
    counts = ("acceptance", "accepted_over_drafted", "mean_acceptance_length", "tokens_per_target_call")
    return {
        "setting": setting.name,
        "pair": pair,
        **setting.fields,
        **ratio("speedup", alone, drafted),
        "limit": limit_of(alone, drafted),
        "share": share_of(drafted),
        "target_only_share": share_of(alone),
        **{name: getattr(total, name) for name in counts},
        "target_only_tokens_per_second": tokens_per_second(alone),
        "tokens_per_second": tokens_per_second(drafted),
        "seconds": {phase: seconds / len(drafted) for phase, seconds in total.seconds.items()},
    }


def quartiles(values: Iterable[float]) -> tuple[float, float, float]:
    """Returns the lower quartile, the median and the upper quartile of one or more values."""
    low, median, high = np.quantile([*values], (0.25, 0.5, 0.75)).tolist()
    return low, median, high
