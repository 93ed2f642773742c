"""The native loop: a round is one call into the library.

`core/loop.py` is the one to read. What it does in Python between two forwards is a good part of a round of a
small model. Here draft, forward, warp and decisions are one call (`cpp/round.h`), and Python cuts what is
emitted and counts. Rounds are the core's, number by number; their wide fields are made when they are read. A
combination that the library does not know goes through the core's loop.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, cast

import torch

from minispec.core import loop as core
from minispec.core.batch import Batch, Eos, Request, requests_of
from minispec.core.draft import Drafter, draft_within
from minispec.core.loop import checked_drafter
from minispec.core.model import LanguageModel
from minispec.core.prefill import prefill, refill
from minispec.core.records import Draft
from minispec.core.rng import Rng
from minispec.core.verify import Decide, Verifier, as_verifier
from minispec.core.warp import Warp
from minispec.drafters.exit import ExitCache
from minispec.drafters.lookup import LooksUp
from minispec.io.observe import observe as observe_core
from minispec.io.trace import ObservedRound
from minispec.native.cache import NativeCache
from minispec.native.checks import CPU
from minispec.native.decisions import NativeRng, NativeVerifier, NativeWarp
from minispec.native.drafter import Chain, Drawing, Draws
from minispec.native.model import NativeGPT, NativeLayers
from minispec.native.play import NativeTarget, Play, Tokens
from minispec.native.rounds import Moments, NativeRound, Played
from minispec.native.structs import Rule
from minispec.verifiers.coupled import KeyedRng

CERTAIN_RULES = (Rule.GREEDY, Rule.COUPLED, Rule.TREE_GREEDY)  # which decide no yes or no at random


@dataclass
class Forwards:
    """Adds up the seconds that runs of the library spend inside forwards."""

    draft: float = 0.0  #: of a drafter
    target: float = 0.0  #: of the target
    prefill: float = 0.0  #: all of prefill, of both
    clocks: Sequence[Chain | NativeLayers] = ()  #: of a drafter whose drafts are calls of their own


class Run:
    """A run of `speculate`: what it decodes, and with what."""

    def __init__(
        self,
        target: NativeTarget,
        drafter: Drafter,
        batch: Batch,
        k: int,
        verifier: NativeVerifier,
        warp: Warp,
        rng: NativeRng | KeyedRng,
        clocks: Sequence[Chain | NativeLayers],
    ) -> None:
        """Reads the prompts; clocks: of the drafter (see `Forwards`)."""
        started = perf_counter()
        self._target = target
        self._drafter = drafter
        self._batch = batch
        self._k = k
        self._verifier = verifier
        self._warp = warp
        self._rng = rng
        with torch.inference_mode():
            self._cache, hidden = prefill(target, batch.texts)
            drafter.start(batch.texts, hidden)
        self._drawing = drawing_of(drafter, target)
        warps = warp, (drafter.warp if isinstance(drafter, Draws) else None) or warp
        self._play = Play(target, verifier.rule, warps, rng, len(batch.rows))
        self._seconds = self._play.seconds()
        self._prefill = perf_counter() - started
        self._clocks = clocks
        self._forwards = Forwards(-self._clocked, 0.0, self._prefill)

    @property
    def _clocked(self) -> float:
        """The seconds so far in calls that the drafter makes itself."""
        return sum(clock.seconds for clock in self._clocks)

    def round(self, index: int) -> NativeRound:
        """Plays the next round, and rolls back."""
        started = perf_counter()
        batch = self._batch
        rows = batch.rows
        r: NativeRound = object.__new__(NativeRound)
        fields = vars(r)
        fields.update(index=index, prompt_ids=tuple([row.prompt_id for row in rows]), live=batch.live)
        before = batch.cache_lengths
        draft_before = self._drafter.cache_lengths
        played, drafted = self._play_round()
        fields.update(
            emitted=batch.append(played.kept()),
            finish=tuple([row.finish for row in rows]),
            lengths=batch.cache_lengths,
            played=played,
            target=self._target,
            warp=self._warp,
            stops_at_first_rejection=self._verifier.stops_at_first_rejection,
        )
        self._hold(r.lengths)
        committing = perf_counter()
        held = self._commit(r, drafted is None)
        ended = perf_counter()
        seconds = self._play.seconds()
        drafting = seconds[0] - self._seconds[0] + (0.0 if drafted is None else drafted + ended - committing)
        verifying = seconds[1] - self._seconds[1]
        self._seconds = seconds
        sizes = len(played.tokens[0]) + 1, self._target.max_length
        times = drafting, verifying, ended - started, self._prefill
        fields["moments"] = Moments(before, draft_before, *held, *sizes, *times)
        self._prefill = 0.0
        return r

    def _play_round(self) -> tuple[Played, float | None]:
        """Returns what has come of a round, and the seconds of the drafter if it has drafted itself."""
        rows = self._batch.rows
        width = min(self._k, max(max([row.budget for row in rows]) - 1, 0))
        drawing = self._drawing
        k = drawing.tokens(width, rows, self._target.max_length) if drawing is not None and width else 0
        if drawing is not None and k:
            return self._play.draw(rows, self._cache, k, drawing), None
        started = perf_counter()
        given = self._draft(width)
        drafted = perf_counter() - started
        return self._play.verify(rows, self._cache, given), drafted

    def _draft(self, width: int) -> Draft | Tokens:
        """Returns a draft of up to so many tokens in each row, or what was looked up."""
        rows = self._batch.rows
        drafter = self._drafter
        if width == 0:
            return [()] * len(rows)
        if isinstance(drafter, LooksUp) and (found := drafter.look_up(width)) is not None:
            return [tokens[: max(row.budget - 1, 0)] for tokens, row in zip(found, rows, strict=True)]
        pending = self._batch.pending(CPU)
        limits = self._batch.plan(CPU).without_last(), self._target.max_length
        with torch.inference_mode():
            return draft_within(drafter, pending, self._k, self._warp, self._rng, *limits)

    def _hold(self, lengths: Sequence[int]) -> None:
        """Counts what was committed in the target's cache: the rollback."""
        cache = self._cache
        for part in (cache.first, cache.later) if isinstance(cache, ExitCache) else (cache,):
            cast(NativeCache, part).hold(lengths)

    def _commit(self, r: NativeRound, drawn: bool) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
        """Brings the drafter's cache to the committed tokens; returns its lengths before and after that.

        drawn: whether the library has drafted: then it has done all but count.
        """
        drafter = self._drafter
        drawing = self._drawing
        held = drafter.cache_lengths
        if not drawn or drawing is None:
            with torch.inference_mode():
                drafter.commit(r)
            self._drawing = drawing_of(drafter, self._target)
            return held, drafter.cache_lengths
        if drawing.cache is None:
            return None, None
        drawing.cache.hold(r.lengths)
        if held is None:
            return None, None
        read = drawing.read(len(r.played.tokens[0]))
        return tuple([min(n + read, drawing.cache.capacity) for n in held]), r.lengths

    def refill(self) -> None:
        """Gives rows that are done to requests that wait."""
        if all(self._batch.live):
            return
        started = perf_counter()
        clocked = self._clocked
        if refilled := self._batch.refill():
            texts = [self._batch.rows[row].tokens for row in refilled]
            with torch.inference_mode():
                self._drafter.admit(refilled, texts, refill(self._target, self._cache, refilled, texts))
            self._drawing = drawing_of(self._drafter, self._target)
            self._prefill = perf_counter() - started
            self._forwards.prefill += self._prefill
            self._forwards.draft -= self._clocked - clocked

    def add_to(self, forwards: Forwards) -> None:
        """Adds the seconds in forwards so far."""
        _, _, draft, target = self._play.seconds()
        forwards.draft += draft + self._clocked + self._forwards.draft
        forwards.target += target
        forwards.prefill += self._forwards.prefill


def drawing_of(drafter: Drafter, target: LanguageModel) -> Drawing | None:
    """Returns what a round is told of a drafter whose drafts the library can draw now; None for others."""
    return drafter.drawing(target) if isinstance(drafter, Draws) else None


def known(
    target: LanguageModel, warp: Warp, rng: Rng, rule: Rule
) -> tuple[NativeTarget, NativeRng | KeyedRng] | None:
    """Returns a target and a generator, if the library can play rounds of them with this warp and rule."""
    if isinstance(rng, KeyedRng) and rule not in CERTAIN_RULES:
        return None
    if not isinstance(rng, NativeRng | KeyedRng) or not isinstance(warp, NativeWarp):
        return None
    return (target, rng) if isinstance(target, NativeTarget) else None


def generate(
    target: LanguageModel,
    prompts: Sequence[Sequence[int] | Request],
    *,
    max_new_tokens: int | None = None,
    warp: Warp,
    rng: Rng,
    eos: Eos = None,
    forwards: Forwards | None = None,
) -> Iterator[tuple[int | None, ...]]:
    """Decodes with the target alone (see `core.loop.generate`).

    forwards: where the seconds of prefill and of the target's forwards are added up.
    """
    native = known(target, warp, rng, Rule.COUPLED)
    if native is None or not isinstance(target, NativeGPT):
        yield from core.generate(target, prompts, max_new_tokens=max_new_tokens, warp=warp, rng=rng, eos=eos)
        return
    sizes = target.vocab_size, target.max_length
    batch = Batch(requests_of(prompts, max_new_tokens, eos, *sizes), *sizes)
    if not any(batch.live):
        return
    started = perf_counter()
    cache, _ = prefill(target, batch.texts)
    seconds = perf_counter() - started
    play = Play(native[0], Rule.COUPLED, (warp, warp), native[1], len(batch.rows))
    held = cast(NativeCache, cache)
    while any(batch.live):
        tokens = play.step(batch.rows, held)
        emitted = [row.append((token,)) for row, token in zip(batch.rows, tokens, strict=True)]
        held.hold(batch.cache_lengths)
        yield tuple([kept[0] if kept else None for kept in emitted])
    if forwards is not None:
        forwards.target += play.seconds()[3]
        forwards.prefill += seconds


def observe(
    target: LanguageModel,
    drafter: Drafter | None,
    prompts: Sequence[Sequence[int] | Request],
    *,
    k: int,
    verifier: Verifier | Decide,
    max_new_tokens: int | None = None,
    warp: Warp,
    rng: Rng,
    eos: Eos = None,
    batch_size: int | None = None,
    forwards: Forwards | None = None,
) -> Iterator[ObservedRound]:
    """Decodes with a drafter and a verifier (see `core.loop.speculate`), observed as by `io.observe`.

    forwards: where the seconds of prefill and of forwards are added up, if the library plays the rounds.
    """
    verifier = as_verifier(verifier)
    native = known(target, warp, rng, verifier.rule) if isinstance(verifier, NativeVerifier) else None
    if native is None or not isinstance(verifier, NativeVerifier):
        settings: dict[str, Any] = {"max_new_tokens": max_new_tokens, "eos": eos, "batch_size": batch_size}
        yield from observe_core(
            target, drafter, prompts, k=k, verifier=verifier, warp=warp, rng=rng, **settings
        )
        return
    drafter = checked_drafter(drafter, k, target, verifier, warp)
    sizes = target.vocab_size, min(target.max_length, drafter.max_length)
    batch = Batch(requests_of(prompts, max_new_tokens, eos, *sizes), *sizes, batch_size)
    if not any(batch.live):
        return
    clocks = forwards.clocks if forwards else ()
    run = Run(native[0], drafter, batch, k, verifier, warp, native[1], clocks)
    index = 0
    while any(batch.live):
        yield run.round(index)
        index += 1
        run.refill()
    if forwards is not None:
        run.add_to(forwards)
