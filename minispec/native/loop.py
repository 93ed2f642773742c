"""The native loop: a round is one call into the library.

`core/loop.py` is the one to read. What it does in Python between two forwards is a good part of a round of a
small model. Here draft, forward, warp and decisions are one call (`cpp/round.h`), and Python commits what is
emitted. Rounds are the core's, number by number; their wide fields are made when they are read. A combination
that the library does not know goes through the core's loop.
"""

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import compress
from time import perf_counter
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from minispec.core import loop as core
from minispec.core.batch import Batch, Eos, Request, requests_of
from minispec.core.cache import KVCache
from minispec.core.draft import Drafter, draft_within
from minispec.core.loop import checked_drafter
from minispec.core.model import LanguageModel, Tree
from minispec.core.prefill import prefill, refill
from minispec.core.records import Draft, Verdict
from minispec.core.rng import Rng, RoundPlan
from minispec.core.rollback import rollback
from minispec.core.verify import Decide, Verifier, as_verifier
from minispec.core.warp import Warp
from minispec.drafters.exit import ExitCache
from minispec.io.observe import observe as observe_core
from minispec.io.trace import CacheLengths, ObservedRound
from minispec.native.cache import NativeCache
from minispec.native.checks import CPU, check, space_for
from minispec.native.decisions import NativeRng, NativeVerifier, NativeWarp, warp_record
from minispec.native.drafter import Chain, DrawnDraft, NativeDrafter
from minispec.native.exit import NativeExitGPT
from minispec.native.model import NativeGPT, NativeLayers
from minispec.native.structs import (
    INT,
    BlockRecord,
    DecisionRecord,
    DraftRecord,
    RoundRecord,
    Rule,
    SourceRecord,
)
from minispec.verifiers.coupled import KeyedRng

CERTAIN_RULES = (Rule.GREEDY, Rule.COUPLED, Rule.TREE_GREEDY)  # which decide no yes or no at random


@dataclass
class Forwards:
    """Adds up the seconds that runs of the library spend inside forwards."""

    draft: float = 0.0  #: of a drafter
    target: float = 0.0  #: of the target
    prefill: float = 0.0  #: all of prefill, of both


def clocks_in(part: Any) -> list[Chain | NativeLayers]:
    """Returns what a drafter is made of that counts its seconds in the library."""
    found: dict[int, Any] = {}
    parts = [part]
    while parts:
        part = parts.pop()
        if id(part) not in found and hasattr(part, "__dict__"):
            found[id(part)] = part
            parts += vars(part).values()
    return [part for part in found.values() if isinstance(part, Chain | NativeLayers)]


class Played(NamedTuple):
    """What a round of the library has come to, with q [B, K, V] and states [B, K+1, D]."""

    pending: list[int]
    draft_given: Draft | None  #: None: the library has drafted
    tokens: list[list[int]]  #: drafted, of each row
    q: Tensor  #: [B, K, V]
    lengths: list[int]
    hidden: Tensor  #: [B, K+1, D], of the target
    accepted: list[int]
    token: list[int]
    path: Tensor | None  #: [B, K], of a tree

    def draft(self) -> Draft:
        """Returns the draft as a record."""
        if self.draft_given is not None:
            return self.draft_given
        tokens = torch.tensor(self.tokens, dtype=torch.long).view(self.q.shape[:2])
        return DrawnDraft(tokens, self.q, torch.tensor(self.lengths))

    def verdict(self) -> Verdict:
        """Returns the decision as a record."""
        return Verdict(torch.tensor(self.accepted), torch.tensor(self.token), self.path)

    def kept(self) -> list[list[int]]:
        """Returns the tokens that each row keeps, the one after the draft included."""
        rows = zip(self.tokens, self.accepted, self.token, strict=True)
        if self.path is None:
            return [[*tokens[:accepted], token] for tokens, accepted, token in rows]
        paths = self.path.tolist()
        return [
            [*compress(tokens, path), token] for (tokens, _, token), path in zip(rows, paths, strict=True)
        ]


class NativeRound(ObservedRound):
    """A round whose wide fields are made when they are read.

    Attributes:
        played: what it is made of.
        target: whose head makes the logits.
        warp: makes distributions of them.
    """

    played: Played
    target: LanguageModel
    warp: Warp

    @cached_property
    def pending(self) -> Tensor:
        """The last committed token of each row: [B]."""
        return torch.tensor(self.played.pending)

    @cached_property
    def draft(self) -> Draft:
        """What was drafted."""
        return self.played.draft()

    @cached_property
    def verdict(self) -> Verdict:
        """What the verifier decided."""
        return self.played.verdict()

    @cached_property
    def target_hidden(self) -> Tensor:
        """The target's hidden states: [B, K+1, D]."""
        return self.played.hidden

    @cached_property
    def target_logits(self) -> Tensor:
        """What the target's head makes of them: [B, K+1, V]."""
        return self.target.head(self.played.hidden)

    @cached_property
    def target_probs(self) -> Tensor:
        """The target's warped distributions: [B, K+1, V]."""
        return self.warp(self.target_logits)


class Play:
    """Has the library play the rounds of one run: what it is told, and where it writes integers."""

    SECTIONS = (
        "pending",
        "starts",
        "budgets",
        "drafts",
        "lengths",
        "prompts",
        "positions",
        "accepted",
        "token",
    )

    def __init__(
        self,
        target: NativeGPT | NativeExitGPT,
        drafter: NativeDrafter | None,
        rule: Rule,
        warp: Warp,
        rng: NativeRng | KeyedRng,
        rows: int,
    ) -> None:
        """Prepares a run of so many rows; drafter: whose drafts the library draws, or None."""
        self.target = target
        self.model = target.native if isinstance(target, NativeExitGPT) else target
        self._rows = rows
        self._drafter = drafter
        self._rng = rng
        draft_warp = warp if drafter is None or drafter.warp is None else drafter.warp
        self._warps = warp_record(warp), warp_record(draft_warp)
        # How many numbers a position may take: while drafting, and while deciding.
        self._numbers = int(drafter is not None and not draft_warp.is_greedy), int(not warp.is_greedy)
        self._ints = (INT * (len(self.SECTIONS) * rows))()
        first = ctypes.addressof(self._ints)
        at = {name: first + ctypes.sizeof(INT) * rows * i for i, name in enumerate(self.SECTIONS)}
        self._source = SourceRecord(
            seed=0 if isinstance(rng, NativeRng) else rng.key,
            prompt_ids=at["prompts"],
            positions=at["positions"],
        )
        self._block = BlockRecord(rows=rows, starts=at["starts"], end=self.model.packed_layers)
        self._draft = DraftRecord(
            rows=rows,
            pending=at["pending"],
            starts=at["starts"],
            budgets=at["drafts"],
            warp=ctypes.addressof(self._warps[1]),
        )
        self._decision = DecisionRecord(
            rows=rows,
            vocab=self.model.vocab_size,
            **{name: at[name] for name in ("lengths", "budgets", "accepted", "token")},
        )
        self._round = RoundRecord(
            type=self.model.native.type,
            target=self.model.packed.address,
            warp=ctypes.addressof(self._warps[0]),
            pending=at["pending"],
            block=ctypes.addressof(self._block),
            rule=rule,
            decision=ctypes.addressof(self._decision),
            source=ctypes.addressof(self._source),
            catches_up=1,
        )

    @property
    def seconds(self) -> list[float]:
        """Seconds so far: of drafting, of verification, in the draft's forwards, in the target's."""
        return [*self._round.seconds[:2], self._draft.seconds, self._round.seconds[2]]

    def play(
        self, pending: list[int], plan: RoundPlan, cache: KVCache, k: int, given: Draft | None
    ) -> Played:
        """Plays a round.

        Args:
            pending: the last token of each row.
            plan: where the rows stand.
            cache: the target's; it is extended.
            k: K, how many tokens the library drafts, or are given.
            given: a draft; None: the library drafts.
        """
        rows = self._rows
        model = self.model
        drafts = [max(budget - 1, 0) for budget in plan.budgets]
        lengths = [min(n, k) for n in drafts] if given is None else given.lengths.tolist()
        starts = [n - 1 for n in plan.starts]
        self._ints[: 7 * rows] = [
            *(*pending, *starts, *plan.budgets, *drafts),
            *(*lengths, *plan.prompt_ids, *plan.starts),
        ]
        if given is None:
            ids = space_for(rows, k, dtype=torch.long)
            q = space_for(rows, k, model.vocab_size, dtype=model.dtype)
        else:
            ids = given.tokens.contiguous()
            q = given.probs.to(model.dtype).contiguous()
        hidden = space_for(rows, k + 1, model.hidden_size, dtype=model.dtype)
        path = None if given is None or given.parents is None else torch.zeros(rows, k, dtype=torch.bool)
        held = cast(NativeCache, cache.later if isinstance(cache, ExitCache) else cache)
        self._tell_draft(k, ids, q, drafts=given is None)
        # These are kept until the library has read them.
        read = self._tell_tree(given, starts, path), self._tell_target(cache, held, pending, ids)
        self._round.hidden = hidden.data_ptr()
        self._call(k)
        del read
        held.extend(k + 1)
        accepted, token = self._ints[7 * rows : 8 * rows], self._ints[8 * rows :]
        return Played(pending, given, ids.tolist(), q, lengths, hidden, accepted, token, path)

    def _tell_draft(self, k: int, ids: Tensor, q: Tensor, drafts: bool) -> None:
        """Tells what is drafted, [B, K] and [B, K, V], and who drafts it, if the library does."""
        decision = self._decision
        decision.k = k
        decision.tokens = ids.data_ptr()
        decision.q = q.data_ptr()
        self._round.draft = None
        if drafts and k and self._drafter is not None and self._drafter.chain is not None:
            draft = self._draft
            draft.k = k
            draft.drafter = self._drafter.chain.on(cast(NativeCache, self._drafter.cache))
            draft.tokens = decision.tokens
            draft.q = decision.q
            self._round.draft = ctypes.addressof(draft)

    def _tell_tree(self, given: Draft | None, starts: list[int], path: Tensor | None) -> Any:
        """Tells where the tokens of a tree stand; returns what the library has addresses of."""
        block = self._block
        decision = self._decision
        if given is None or given.parents is None or path is None:
            block.positions = block.mask = decision.parents = decision.path = None
            return None
        parents = given.parents.contiguous()
        shape = shape_of(tuple(map(tuple, parents.tolist())))
        positions = torch.tensor(starts)[:, None] + shape.positions
        block.positions = positions.data_ptr()
        block.mask = shape.mask.data_ptr()
        block.window = given.k + 1
        decision.parents = parents.data_ptr()
        decision.path = path.data_ptr()
        return parents, positions

    def _tell_target(
        self, cache: KVCache, held: NativeCache, pending: list[int], ids: Tensor
    ) -> Tensor | None:
        """Tells what the target reads into its cache, and into which; returns states that it begins with."""
        block = self._block
        block.n = ids.shape[1] + 1
        block.cache = held.address
        self._round.threads = self.model.threads_now
        if not isinstance(self.target, NativeExitGPT) or not isinstance(cache, ExitCache):
            return None
        tokens = torch.cat([torch.tensor(pending)[:, None], ids], 1)
        streams = self.target.streams_of(tokens, cache)
        block.states = streams.data_ptr()
        block.begin = self.target.exit.layers
        return streams

    def _call(self, k: int) -> None:
        """Has the library play, by numbers that are lent."""
        source = self._source
        source.used = 0
        drafting, deciding = self._numbers
        count = self._rows * (drafting * k + deciding * (k + 1))
        if isinstance(self._rng, NativeRng):
            numbers = self._rng.lend(count)
            source.numbers = numbers.data_ptr()
            source.count = count
        status = self.model.native.play(ctypes.byref(self._round))
        if isinstance(self._rng, NativeRng):
            self._rng.give_back(count - source.used)
        check(status, self.model.vocab_size, k)


class Run:
    """A run of `speculate`: what it decodes, and with what."""

    def __init__(
        self,
        target: NativeGPT | NativeExitGPT,
        drafter: Drafter,
        batch: Batch,
        k: int,
        verifier: NativeVerifier,
        warp: Warp,
        rng: NativeRng | KeyedRng,
    ) -> None:
        """Reads the prompts."""
        started = perf_counter()
        self._target = target
        self._drafter = drafter
        self._batch = batch
        self._k = k
        self._verifier = verifier
        self._warp = warp
        self._rng = rng
        self._own = drafter if isinstance(drafter, NativeDrafter) and drafter.draws_for(target) else None
        self._play = Play(target, self._own, verifier.rule, warp, rng, len(batch.rows))
        self._seconds = self._play.seconds
        self._cache, hidden = prefill(target, batch.texts)
        drafter.start(batch.texts, hidden)
        self._prefill = perf_counter() - started
        self._clocks = [] if self._own else clocks_in(drafter)
        self._forwards = Forwards(-self._clocked, 0.0, self._prefill)

    @property
    def _clocked(self) -> float:
        """The seconds so far in calls that the drafter makes itself."""
        return sum(clock.seconds for clock in self._clocks)

    def round(self, index: int) -> NativeRound:
        """Plays the next round, and rolls back."""
        started = perf_counter()
        batch = self._batch
        live = batch.live
        before = batch.cache_lengths
        draft_before = self._drafter.cache_lengths
        plan = batch.plan(CPU)
        pending = [row.tokens[-1] for row in batch.rows]
        given, width = self._draft(pending, plan)
        drafted = perf_counter()
        played = self._play.play(pending, plan, self._cache, width, given)
        emitted = batch.append(played.kept())
        lengths = batch.cache_lengths
        verified = self._cache.row_lengths
        if played.path is None:
            self._cache.truncate(lengths)
        else:
            rollback(self._cache, played.verdict(), before, lengths)
        r: NativeRound = object.__new__(NativeRound)
        vars(r).update(
            index=index,
            prompt_ids=plan.prompt_ids,
            played=played,
            target=self._target,
            warp=self._warp,
            stops_at_first_rejection=self._verifier.stops_at_first_rejection,
            live=live,
            emitted=emitted,
            finish=tuple([row.finish for row in batch.rows]),
            lengths=lengths,
            target_cache=CacheLengths(before, verified, lengths),
        )
        committing = perf_counter()
        draft_cache = self._commit(r, draft_before, width)
        ended = perf_counter()
        in_python = 0.0 if self._own else drafted - started
        seconds = self._phases(in_python + ended - committing, ended - started)
        vars(r).update(draft_cache=draft_cache, seconds=seconds)
        return r

    def _draft(self, pending: list[int], plan: RoundPlan) -> tuple[Draft | None, int]:
        """Returns a draft and its K, or None and the K that the library is to draft."""
        width = min(self._k, max(max(plan.budgets) - 1, 0))
        if self._own is not None or width == 0:
            return None, width
        tokens = torch.tensor(pending)
        limits = plan.without_last(), self._target.max_length
        draft = draft_within(self._drafter, tokens, self._k, self._warp, self._rng, *limits)
        return draft, draft.k

    def _commit(self, r: NativeRound, before: Sequence[int] | None, width: int) -> CacheLengths | None:
        """Brings the drafter's cache to the committed tokens; returns its lengths, if it has one."""
        drafted = self._drafter.cache_lengths
        if self._own is None or width == 0:
            self._drafter.commit(r)
        else:
            cache = cast(NativeCache, self._own.cache)
            cache.extend(width)
            drafted = cache.row_lengths
            cache.extend(1)  # where all were accepted the library has read the last one, too
            cache.truncate(r.lengths)
        after = self._drafter.cache_lengths
        if after is None:
            return None
        return CacheLengths(tuple(before or after), tuple(drafted or after), after)

    def _phases(self, drafting: float, whole: float) -> dict[str, float]:
        """Returns the seconds of a round by phase: in Python it took so many to draft, and in all."""
        seconds = self._play.seconds
        draft, verify, _, _ = (now - then for now, then in zip(seconds, self._seconds, strict=True))
        self._seconds = seconds
        draft += drafting
        phases = {"draft": draft, "verify": verify, "rollback": 0.0, "other": whole - draft - verify}
        if self._prefill:
            phases["prefill"] = self._prefill
            self._prefill = 0.0
        return phases

    def refill(self) -> None:
        """Gives rows that are done to requests that wait."""
        started = perf_counter()
        clocked = self._clocked
        if refilled := self._batch.refill():
            texts = [self._batch.rows[row].tokens for row in refilled]
            self._drafter.admit(refilled, texts, refill(self._target, self._cache, refilled, texts))
            self._prefill = perf_counter() - started
            self._forwards.prefill += self._prefill
            self._forwards.draft -= self._clocked - clocked

    def add_to(self, forwards: Forwards) -> None:
        """Adds the seconds in forwards so far."""
        forwards.draft += self._play.seconds[2] + self._clocked + self._forwards.draft
        forwards.target += self._play.seconds[3]
        forwards.prefill += self._forwards.prefill


@lru_cache(maxsize=64)  # trees of one shape come round after round
def shape_of(parents: tuple[tuple[int, ...], ...]) -> Tree:
    """Returns trees with these parents [B, K], after texts of no tokens."""
    return Tree.after(torch.zeros(len(parents), dtype=torch.long), torch.tensor(parents))


def known(
    target: LanguageModel, warp: Warp, rng: Rng, rule: Rule
) -> tuple[NativeGPT | NativeExitGPT, NativeRng | KeyedRng] | None:
    """Returns a target and a generator, if the library can play rounds of them with this warp and rule."""
    if isinstance(rng, KeyedRng) and rule not in CERTAIN_RULES:
        return None
    if not isinstance(rng, NativeRng | KeyedRng) or not isinstance(warp, NativeWarp):
        return None
    return (target, rng) if isinstance(target, NativeGPT | NativeExitGPT) else None


@torch.inference_mode()
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
    if native is None:
        yield from core.generate(target, prompts, max_new_tokens=max_new_tokens, warp=warp, rng=rng, eos=eos)
        return
    sizes = target.vocab_size, target.max_length
    batch = Batch(requests_of(prompts, max_new_tokens, eos, *sizes), *sizes)
    if not any(batch.live):
        return
    started = perf_counter()
    cache, _ = prefill(target, batch.texts)
    seconds = perf_counter() - started
    play = Play(native[0], None, Rule.COUPLED, warp, native[1], len(batch.rows))
    while any(batch.live):
        pending = [row.tokens[-1] for row in batch.rows]
        played = play.play(pending, batch.plan(CPU), cache, 0, None)
        emitted = batch.append(played.kept())
        cache.truncate(batch.cache_lengths)
        yield tuple([tokens[0] if tokens else None for tokens in emitted])
    if forwards is not None:
        forwards.target += play.seconds[3]
        forwards.prefill += seconds


@torch.inference_mode()
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
    run = Run(native[0], drafter, batch, k, verifier, warp, native[1])
    index = 0
    while any(batch.live):
        yield run.round(index)
        index += 1
        run.refill()
    if forwards is not None:
        run.add_to(forwards)
