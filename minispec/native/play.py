"""A call that plays a round: what the library is told, and where it writes."""

import ctypes
from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from minispec.core.batch import Row
from minispec.core.cache import KVCache
from minispec.core.records import Draft
from minispec.core.warp import Warp
from minispec.drafters.exit import ExitCache
from minispec.native.cache import NativeCache
from minispec.native.checks import check, space_for
from minispec.native.decisions import NativeRng, warp_record
from minispec.native.drafter import Drawing, Shape
from minispec.native.eagle3 import NativeTappedGPT
from minispec.native.exit import NativeExitGPT
from minispec.native.model import NativeGPT
from minispec.native.rounds import Memory, Played
from minispec.native.structs import (
    INT,
    BlockRecord,
    DecisionRecord,
    DraftRecord,
    Integers,
    Kind,
    RoundRecord,
    Rule,
    SourceRecord,
    integers,
)
from minispec.verifiers.coupled import KeyedRng

Tokens = Sequence[Sequence[int]]
NativeTarget = NativeGPT | NativeExitGPT | NativeTappedGPT


class Play:
    """Has the library play the rounds of one run."""

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
        target: NativeTarget,
        rule: Rule,
        warps: tuple[Warp, Warp],
        rng: NativeRng | KeyedRng,
        rows: int,
    ) -> None:
        """Prepares a run of so many rows; warps: of the target, and of what the library drafts."""
        self.target = target
        self.model = target if isinstance(target, NativeGPT) else target.native
        self._rows = rows
        self._memory: Memory | None = None
        self._streams = torch.zeros(0)
        self._shapes: dict[int, Shape] = {}
        self._path = (ctypes.c_uint8 * 0)()
        self._lender = rng if isinstance(rng, NativeRng) else None
        self._warps = tuple(map(warp_record, warps))
        # How many numbers the rows may need at each position: while deciding, and while drafting.
        self._numbers = [0 if warp.is_greedy else rows for warp in warps]
        self._ints = (INT * (len(self.SECTIONS) * rows))()
        first = ctypes.addressof(self._ints)
        at = {name: first + ctypes.sizeof(INT) * rows * i for i, name in enumerate(self.SECTIONS)}
        self._source = SourceRecord(
            seed=rng.key if isinstance(rng, KeyedRng) else 0,
            prompt_ids=at["prompts"],
            positions=at["positions"],
        )
        self._taps = integers(target.taps if isinstance(target, NativeTappedGPT) else ())
        self._block = BlockRecord(
            rows=rows,
            n=1,
            starts=at["starts"],
            begin=target.exit.layers if isinstance(target, NativeExitGPT) else 0,
            end=self.model.packed_layers,
            taps=ctypes.addressof(self._taps),
            tap_count=len(self._taps),
        )
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
            pending=at["pending"],
            positions=at["positions"],
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
        self._tell_cache(cache, 0)
        self._call(0, 0)
        return self._ints[8 * self._rows :]

    def draw(self, rows: Sequence[Row], cache: KVCache, k: int, drawing: Drawing) -> Played:
        """Plays a round in which the library drafts K tokens a row: at least one.

        Args:
            rows: of the batch.
            cache: the target's; what it holds is for the caller to say.
            k: K.
            drawing: what drafts.
        """
        self._tell_rows(rows)
        memory = self._begin(k, k)
        place, self._decision.q, self._block.hidden = memory.take()
        drawn = (INT * (self._rows * k))()
        self._decision.tokens = ctypes.addressof(drawn)
        self._tell_cache(cache, k)
        shape = self._tell_drafter(k, drawing)
        self._call(k, k)
        self._round.draft = None
        tokens = [drawn[k * b : k * (b + 1)] for b in range(self._rows)]
        parents = None if shape is None else [list(drawing.parents or ())[:k]] * self._rows
        return self._played(None, tokens, parents, memory, place)

    def verify(self, rows: Sequence[Row], cache: KVCache, given: Draft | Tokens) -> Played:
        """Plays a round with a draft that is there, or with tokens of each row that are certain."""
        self._tell_rows(rows)
        size = self._rows
        if isinstance(given, Draft):
            tokens = given.tokens.tolist()
            lengths = given.lengths.tolist()
        else:
            lengths = [len(row) for row in given]
            tokens = [[*row, *[0] * (max(lengths) - len(row))] for row in given]
        k = len(tokens[0])
        memory = self._begin(k, 0)
        place, _, self._block.hidden = memory.take()
        read = integers([token for row in tokens for token in row])
        self._decision.tokens = ctypes.addressof(read)
        self._decision.q = None
        q = given.probs.to(self.model.dtype).contiguous() if isinstance(given, Draft) else None
        if q is not None:
            self._decision.q = q.data_ptr()
        self._ints[6 * size : 7 * size] = lengths
        parents = given.parents.tolist() if isinstance(given, Draft) and given.parents is not None else None
        shape = None if parents is None else integers([parent for row in parents for parent in row])
        self._tell_parents(shape, k)
        streams = self._tell_target(cache, tokens)
        self._call(k, 0)
        del q, shape, streams  # until here the library has had their addresses
        return self._played(given if isinstance(given, Draft) else None, tokens, parents, memory, place)

    def _begin(self, k: int, drawn: int) -> Memory:
        """Begins a round of K tokens a row, of which so many are drawn; returns memory that has a place."""
        self._block.n = k + 1
        self._decision.k = k
        memory = self._memory
        if memory is None or not memory.free or k > memory.most or drawn > memory.drawn:
            model = self.model
            sizes = self._rows, k, drawn, model.vocab_size, self.target.hidden_size
            memory = self._memory = Memory(*sizes, model.dtype)
        return memory

    def _played(
        self,
        given: Draft | None,
        tokens: list[list[int]],
        parents: list[list[int]] | None,
        memory: Memory,
        place: int,
    ) -> Played:
        """Returns what has come of a round."""
        size = self._rows
        ints = self._ints
        path = None
        if parents is not None:
            k = len(tokens[0])
            path = [list(self._path[k * b : k * (b + 1)]) for b in range(size)]
        lengths, accepted, token = ints[6 * size : 7 * size], ints[7 * size : 8 * size], ints[8 * size :]
        return Played(given, ints[:size], tokens, lengths, accepted, token, parents, path, memory, place)

    def _tell_rows(self, rows: Sequence[Row]) -> None:
        """Tells where the rows stand."""
        texts = [row.tokens for row in rows]
        self._ints[: 4 * self._rows] = [
            *[text[-1] for text in texts],
            *map(len, texts),
            *[row.budget for row in rows],
            *[row.prompt_id for row in rows],
        ]

    def _tell_cache(self, cache: KVCache, k: int) -> None:
        """Tells into which cache the target reads the pending token and K more; takes memory for them."""
        held = cast(NativeCache, cache.later if isinstance(cache, ExitCache) else cache)
        held.make_space(k + 1)
        self._block.cache = held.address
        self._block.slots = held.slots

    def _tell_drafter(self, k: int, drawing: Drawing) -> Shape | None:
        """Tells who drafts K tokens; returns the shape of a tree."""
        draft = self._draft
        draft.k = k
        if drawing.cache is not None:
            drawing.cache.make_space(k + 1)
        draft.drafter = drawing.chain.on(drawing.cache)
        draft.tokens = self._decision.tokens
        draft.q = self._decision.q
        draft.states = None if drawing.states is None else drawing.states.data_ptr()
        if drawing.chain.record.kind == Kind.EXIT:
            draft.states = self._streams_for(k)
        shape = None
        if drawing.parents is not None:
            shape = self._shapes.get(k)
            if shape is None:
                shape = self._shapes[k] = Shape(drawing.parents[:k], [0] * self._rows)
            size = self._rows
            positions, budgets = self._ints[size : 2 * size], self._ints[2 * size : 3 * size]
            shape.space = [min(drawing.end - position, k) for position in positions]
            drawn = shape.drawn([budget - 1 for budget in budgets])
            space = [self.model.max_length - position for position in positions]
            self._ints[5 * size : 7 * size] = [*drawn, *map(min, drawn, space)]
            draft.parents = ctypes.addressof(shape.parents)
            self._tell_parents(shape.parents, k)
        self._round.draft = ctypes.addressof(draft)
        return shape

    def _tell_parents(self, parents: Integers | None, k: int) -> None:
        """Tells the shape of a tree of K tokens, integers [B, K]; None for a chain."""
        decision = self._decision
        decision.parents = decision.path = None
        if parents is not None:
            self._path = (ctypes.c_uint8 * (self._rows * k))()
            decision.parents = ctypes.addressof(parents)
            decision.path = ctypes.addressof(self._path)

    def _streams_for(self, k: int) -> int:
        """Returns the address of the states that an early exit leaves, and the target's other layers read."""
        width = self.model.hidden_size
        if self._streams.numel() < self._rows * (k + 1) * width:
            self._streams = space_for(self._rows, k + 1, width, dtype=self.model.dtype)
        self._block.states = self._streams.data_ptr()
        return self._block.states

    def _tell_target(self, cache: KVCache, tokens: Tokens) -> Tensor | None:
        """Tells what the target reads into; returns the states that it begins with, after an early exit."""
        self._tell_cache(cache, len(tokens[0]))
        if not isinstance(self.target, NativeExitGPT):
            return None
        pending = self._ints[: self._rows]
        read = torch.tensor([[token, *row] for token, row in zip(pending, tokens, strict=True)])
        streams = self.target.streams_of(read, cast(ExitCache, cache))
        self._block.states = streams.data_ptr()
        return streams

    def _call(self, k: int, drawn: int) -> None:
        """Has the library play a round of K tokens, of which so many are drawn, by numbers that are lent."""
        source = self._source
        lender = self._lender
        if lender is None:
            check(self.model.native.play(self._reference), self.model.vocab_size, k)
            return
        deciding, drafting = self._numbers
        count = drafting * drawn + deciding * (k + 1)
        source.numbers = lender.lend_at(count)
        source.count = count
        source.used = 0
        status = self.model.native.play(self._reference)
        lender.give_back(count - source.used)
        if status:
            check(status, self.model.vocab_size, k)
