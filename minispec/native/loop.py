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
from minispec.core.batch import Batch, Eos, Request, Row, requests_of
from minispec.core.cache import KVCache
from minispec.core.draft import Drafter, draft_within
from minispec.core.loop import checked_drafter
from minispec.core.model import LanguageModel, Tree
from minispec.core.prefill import prefill, refill
from minispec.core.records import Draft, Verdict
from minispec.core.rng import Rng
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

ROUNDS_AT_ONCE = 32  # whose numbers lie in one tensor, if they take no more than
BYTES_AT_ONCE = 2**22
CERTAIN_RULES = (Rule.GREEDY, Rule.COUPLED, Rule.TREE_GREEDY)  # which decide no yes or no at random


@dataclass
class Forwards:
    """Adds up the seconds that runs of the library spend inside forwards."""

    draft: float = 0.0  #: of a drafter
    target: float = 0.0  #: of the target
    prefill: float = 0.0  #: all of prefill, of both
    clocks: Sequence[Chain | NativeLayers] = ()  #: of a drafter whose drafts are calls of their own


class Memory:
    """Where rounds leave what the library's drafts were drawn from, and the target's hidden states.

    To make a tensor takes microseconds. So there is one for several rounds, cut when they are read.

    Attributes:
        most: the largest K that fits.
        free: how many rounds still fit.
    """

    def __init__(self, rows: int, k: int, drawn: int, vocab: int, width: int, dtype: torch.dtype) -> None:
        """Takes memory for rounds of B rows and drafts of at most K tokens, of which so many are drawn."""
        self._rows = rows
        self._widths = vocab, width
        self._sizes = rows * drawn * vocab, rows * (k + 1) * width  # numbers of a round
        self._bytes = [size * dtype.itemsize for size in self._sizes]
        self._rounds = max(1, min(ROUNDS_AT_ONCE, BYTES_AT_ONCE // sum(self._bytes)))
        self._parts = [space_for(self._rounds * size, dtype=dtype) for size in self._sizes]
        self._addresses = [part.data_ptr() for part in self._parts]
        self.most = k
        self.free = self._rounds

    def take(self) -> tuple[int, int, int]:
        """Returns the place of the next round, and the addresses of its two parts."""
        place = self._rounds - self.free
        self.free -= 1
        q, hidden = (first + place * size for first, size in zip(self._addresses, self._bytes, strict=True))
        return place, q, hidden

    def part(self, which: int, place: int, n: int) -> Tensor:
        """Returns a part of a round: [B, n, V], or [B, n, D]."""
        width = self._widths[which]
        first = place * self._sizes[which]
        return self._parts[which][first : first + self._rows * n * width].view(self._rows, n, width)


class Played(NamedTuple):
    """What a round of the library has come to, of rows with K tokens each: [B, K]."""

    given: Draft | None  #: what was drafted; None: the library has drafted
    pending: list[int]  #: of each row
    tokens: list[list[int]]  #: drafted, of each row
    lengths: list[int]  #: how many of them count
    accepted: list[int]
    token: list[int]
    path: Tensor | None  #: [B, K], of a tree
    memory: Memory  #: where its numbers lie
    place: int  #: which of the rounds there it is

    def draft(self) -> Draft:
        """Returns the draft as a record."""
        if self.given is not None:
            return self.given
        q = self.memory.part(0, self.place, len(self.tokens[0]))
        tokens = torch.tensor(self.tokens, dtype=torch.long).view(q.shape[:2])
        return DrawnDraft(tokens, q, torch.tensor(self.lengths))

    def hidden(self) -> Tensor:
        """Returns the target's hidden states: [B, K+1, D]."""
        return self.memory.part(1, self.place, len(self.tokens[0]) + 1)

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


class Moments(NamedTuple):
    """What a round is observed by: lengths of caches, and seconds."""

    before: tuple[int, ...]  #: tokens that the caches held
    draft_before: tuple[int, ...] | None  #: that the drafter's cache held
    drafted: tuple[int, ...] | None  #: that it held after drafting
    draft_after: tuple[int, ...] | None  #: that it holds after the round
    read: int  #: tokens that the target has read in each row
    capacity: int  #: of its cache
    drafting: float  #: seconds
    verifying: float  #: seconds
    whole: float  #: seconds
    prefill: float  #: seconds before the round


class NativeRound(ObservedRound):
    """A round whose wide fields, and those that only observe, are made when they are read.

    Attributes:
        played: what it is made of.
        moments: what it is observed by.
        target: whose head makes the logits.
        warp: makes distributions of them.
    """

    played: Played
    moments: Moments
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
        return self.played.hidden()

    @cached_property
    def target_logits(self) -> Tensor:
        """What the target's head makes of them: [B, K+1, V]."""
        return self.target.head(self.target_hidden)

    @cached_property
    def target_probs(self) -> Tensor:
        """The target's warped distributions: [B, K+1, V]."""
        return self.warp(self.target_logits)

    @cached_property
    def target_cache(self) -> CacheLengths:
        """Lengths of the target's cache."""
        moments = self.moments
        verified = [min(n + moments.read, moments.capacity) for n in moments.before]
        return CacheLengths(moments.before, tuple(verified), self.lengths)

    @cached_property
    def draft_cache(self) -> CacheLengths | None:
        """Lengths of the drafter's cache, or None if it has none."""
        after = self.moments.draft_after
        if after is None:
            return None
        return CacheLengths(self.moments.draft_before or after, self.moments.drafted or after, after)

    @cached_property
    def seconds(self) -> dict[str, float]:
        """Seconds by phase."""
        moments = self.moments
        other = moments.whole - moments.drafting - moments.verifying
        phases = {"draft": moments.drafting, "verify": moments.verifying, "rollback": 0.0, "other": other}
        return phases | ({"prefill": moments.prefill} if moments.prefill else {})


class Play:
    """Has the library play the rounds of one run: what it is told, and where it writes integers."""

    SECTIONS = (
        "pending",
        "positions",
        "budgets",
        "prompts",
        "starts",
        "drafts",
        "lengths",
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
        self._memory: Memory | None = None
        self._lender = rng if isinstance(rng, NativeRng) else None
        draft_warp = warp if drafter is None or drafter.warp is None else drafter.warp
        self._warps = warp_record(warp), warp_record(draft_warp)
        # How many numbers the rows may need at each position: while drafting, and while deciding.
        self._numbers = rows * (drafter is not None and not draft_warp.is_greedy), rows * (not warp.is_greedy)
        self._ints = (INT * (len(self.SECTIONS) * rows))()
        first = ctypes.addressof(self._ints)
        at = {name: first + ctypes.sizeof(INT) * rows * i for i, name in enumerate(self.SECTIONS)}
        self._source = SourceRecord(
            seed=rng.key if isinstance(rng, KeyedRng) else 0,
            prompt_ids=at["prompts"],
            positions=at["positions"],
        )
        self._block = BlockRecord(rows=rows, n=1, starts=at["starts"], end=self.model.packed_layers)
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
            threads=self.model.threads_now,
            warp=ctypes.addressof(self._warps[0]),
            **{name: at[name] for name in ("pending", "positions", "starts", "drafts", "lengths")},
            block=ctypes.addressof(self._block),
            rule=rule,
            decision=ctypes.addressof(self._decision),
            source=ctypes.addressof(self._source),
        )
        self._reference = ctypes.byref(self._round)

    def seconds(self) -> tuple[float, float, float, float]:
        """Returns seconds so far: of drafting, of verification, in the draft's forwards, in the target's."""
        draft, verify, target = self._round.seconds
        return draft, verify, self._draft.seconds, target

    def step(self, rows: Sequence[Row], cache: NativeCache) -> list[int]:
        """Returns the token that the target alone emits next in each row; it reads the pending one."""
        self._tell_rows(rows)
        self._block.cache = cache.address
        self._call(0)
        return self._ints[8 * self._rows :]

    def play(self, rows: Sequence[Row], cache: KVCache, k: int, given: Draft | None) -> Played:
        """Plays a round.

        Args:
            rows: of the batch.
            cache: the target's; what it holds is for the caller to say.
            k: K, how many tokens the library drafts, or are given.
            given: a draft; None: the library drafts.
        """
        size = self._rows
        ints = self._ints
        self._tell_rows(rows)
        memory = self._memory
        if memory is None or not memory.free or k > memory.most:
            memory = self._new_memory(k)
        place, q, self._round.hidden = memory.take()
        self._block.n = k + 1
        decision = self._decision
        decision.k = k
        drawn = (INT * (0 if given else size * k))()
        read = None
        if given is None:
            decision.tokens = ctypes.addressof(drawn)
            decision.q = q
            self._tell_drafter(k)
        else:
            read = given.tokens.contiguous(), given.probs.to(self.model.dtype).contiguous()
            decision.tokens, decision.q = (part.data_ptr() for part in read)
            ints[6 * size : 7 * size] = given.lengths.tolist()
        path, tree = self._tell_tree(given)
        streams = self._tell_target(cache, rows, given)
        self._call(k)
        del read, tree, streams  # until here the library has had their addresses
        tokens = given.tokens.tolist() if given else [drawn[k * b : k * (b + 1)] for b in range(size)]
        lengths, accepted, token = ints[6 * size : 7 * size], ints[7 * size : 8 * size], ints[8 * size :]
        return Played(given, ints[:size], tokens, lengths, accepted, token, path, memory, place)

    def _new_memory(self, k: int) -> Memory:
        """Takes memory for further rounds, of drafts of at most K tokens."""
        drawn = k if self._drafter else 0
        model = self.model
        sizes = self._rows, k, drawn, model.vocab_size, model.hidden_size
        self._memory = Memory(*sizes, model.dtype)
        return self._memory

    def _tell_rows(self, rows: Sequence[Row]) -> None:
        """Tells where the rows stand."""
        texts = [row.tokens for row in rows]
        self._ints[: 4 * self._rows] = [
            *[text[-1] for text in texts],
            *map(len, texts),
            *[row.budget for row in rows],
            *[row.prompt_id for row in rows],
        ]

    def _tell_drafter(self, k: int) -> None:
        """Tells who drafts K tokens: nobody, where there are none."""
        self._round.draft = None
        if k == 0 or self._drafter is None or self._drafter.chain is None:
            return
        draft = self._draft
        draft.k = k
        draft.drafter = self._drafter.chain.on(cast(NativeCache, self._drafter.cache))
        draft.tokens = self._decision.tokens
        draft.q = self._decision.q
        self._round.draft = ctypes.addressof(draft)

    def _tell_tree(self, given: Draft | None) -> tuple[Tensor | None, Any]:
        """Tells where the tokens of a tree stand.

        Returns:
            Where its path will be, [B, K]; and what else the library has addresses of.
        """
        block = self._block
        decision = self._decision
        if given is None or given.parents is None:
            if decision.parents is not None:
                block.positions = block.mask = decision.parents = decision.path = None
            return None, None
        parents = given.parents.contiguous()
        shape = shape_of(tuple(map(tuple, parents.tolist())))
        starts = [n - 1 for n in self._ints[self._rows : 2 * self._rows]]
        positions = torch.tensor(starts)[:, None] + shape.positions
        path = torch.zeros(self._rows, given.k, dtype=torch.bool)
        block.positions = positions.data_ptr()
        block.mask = shape.mask.data_ptr()
        block.window = given.k + 1
        decision.parents = parents.data_ptr()
        decision.path = path.data_ptr()
        return path, (parents, positions)

    def _tell_target(self, cache: KVCache, rows: Sequence[Row], given: Draft | None) -> Tensor | None:
        """Tells what the target reads into, and returns the states that an early exit begins with."""
        block = self._block
        if not isinstance(self.target, NativeExitGPT) or not isinstance(cache, ExitCache):
            block.cache = cast(NativeCache, cache).address
            return None
        tokens = torch.tensor([row.tokens[-1:] for row in rows])
        if given is not None:
            tokens = torch.cat([tokens, given.tokens], 1)
        streams = self.target.streams_of(tokens, cache)
        block.cache = cast(NativeCache, cache.later).address
        block.states = streams.data_ptr()
        block.begin = self.target.exit.layers
        return streams

    def _call(self, k: int) -> None:
        """Has the library play, by numbers that are lent."""
        source = self._source
        lender = self._lender
        if lender is None:
            check(self.model.native.play(self._reference), self.model.vocab_size, k)
            return
        drafting, deciding = self._numbers
        count = drafting * k + deciding * (k + 1)
        source.numbers = lender.lend_at(count)
        source.count = count
        source.used = 0
        status = self.model.native.play(self._reference)
        lender.give_back(count - source.used)
        if status:
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
        self._native_drafter = (
            drafter if isinstance(drafter, NativeDrafter) and drafter.draws_for(target) else None
        )
        self._play = Play(target, self._native_drafter, verifier.rule, warp, rng, len(batch.rows))
        self._seconds = self._play.seconds()
        with torch.inference_mode():
            self._cache, hidden = prefill(target, batch.texts)
            drafter.start(batch.texts, hidden)
        self._prefill = perf_counter() - started
        self._clocks = () if self._native_drafter else clocks
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
        fields["index"] = index
        fields["prompt_ids"] = tuple([row.prompt_id for row in rows])
        fields["live"] = batch.live
        before = batch.cache_lengths
        draft_before = self._drafter.cache_lengths
        given, width = self._draft()
        drafted = 0.0 if self._native_drafter else perf_counter() - started
        played = self._play.play(rows, self._cache, width, given)
        fields["emitted"] = batch.append(played.kept())
        fields["finish"] = tuple([row.finish for row in rows])
        lengths = batch.cache_lengths
        fields["lengths"] = lengths
        fields["played"] = played
        fields["target"] = self._target
        fields["warp"] = self._warp
        fields["stops_at_first_rejection"] = self._verifier.stops_at_first_rejection
        self._roll_back(played, before, lengths)
        committing = perf_counter()
        held = self._commit(r, width)
        ended = perf_counter()
        drafting, verifying, *_ = seconds = self._play.seconds()
        drafting += drafted - self._seconds[0] + (0.0 if self._native_drafter else ended - committing)
        verifying -= self._seconds[1]
        self._seconds = seconds
        sizes = width + 1, self._target.max_length
        times = drafting, verifying, ended - started, self._prefill
        fields["moments"] = Moments(before, draft_before, *held, *sizes, *times)
        self._prefill = 0.0
        return r

    def _draft(self) -> tuple[Draft | None, int]:
        """Returns a draft and its K, or None and the K that the library is to draft."""
        rows = self._batch.rows
        width = min(self._k, max(max([row.budget for row in rows]) - 1, 0))
        if self._native_drafter is not None or width == 0:
            return None, width
        pending = self._batch.pending(CPU)
        limits = self._batch.plan(CPU).without_last(), self._target.max_length
        with torch.inference_mode():
            draft = draft_within(self._drafter, pending, self._k, self._warp, self._rng, *limits)
        return draft, draft.k

    def _roll_back(self, played: Played, before: Sequence[int], lengths: Sequence[int]) -> None:
        """Cuts the target's cache from what was read to what was committed."""
        later = self._cache.later if isinstance(self._cache, ExitCache) else self._cache
        if played.path is None:
            cast(NativeCache, later).hold(lengths)
        else:
            cast(NativeCache, later).extend(len(played.tokens[0]) + 1)
            rollback(self._cache, played.verdict(), before, lengths)
        if later is not self._cache:
            self._cache.truncate(lengths)

    def _commit(self, r: NativeRound, width: int) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
        """Brings the drafter's cache to the committed tokens; returns its lengths before and after that."""
        if self._native_drafter is None or width == 0:
            drafted = self._drafter.cache_lengths
            with torch.inference_mode():
                self._drafter.commit(r)
            return drafted, self._drafter.cache_lengths
        cache = cast(NativeCache, self._native_drafter.cache)
        cache.extend(width)
        drafted = cache.row_lengths
        cache.hold(r.lengths)  # where all were accepted the library has read the last one, too
        return drafted, r.lengths

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
            self._prefill = perf_counter() - started
            self._forwards.prefill += self._prefill
            self._forwards.draft -= self._clocked - clocked

    def add_to(self, forwards: Forwards) -> None:
        """Adds the seconds in forwards so far."""
        _, _, draft, target = self._play.seconds()
        forwards.draft += draft + self._clocked + self._forwards.draft
        forwards.target += target
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
    if native is None or isinstance(target, NativeExitGPT):
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
