"""Native drafting: forward, warp and draw for all K tokens in one call into the library.

A `Chain` is a way to draft that the library knows (`cpp/drafts.h`). The drafters here are those of the core
and of `drafters/`, which are the ones to read; `propose` alone is another, where the library can draw.
"""

import ctypes
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import index
from typing import cast

import torch
from torch import Tensor

from minispec.core.batch import Row
from minispec.core.cache import KVCache
from minispec.core.draft import ModelDrafter
from minispec.core.model import LanguageModel
from minispec.core.records import PARENTS_ORDER, Draft, are_parents
from minispec.core.rng import RoundRng
from minispec.core.warp import Warp
from minispec.drafters.chain import depths_of
from minispec.drafters.tree import TreeDrafter
from minispec.native.cache import NativeCache
from minispec.native.checks import LARGEST, check, check_budgets, check_ids, check_memory, checked, space_for
from minispec.native.decisions import Lender, warp_record
from minispec.native.model import NativeGPT, NativeLayers
from minispec.native.pack import Packed
from minispec.native.structs import (
    ADDRESS,
    DrafterRecord,
    DraftRecord,
    Integers,
    Kind,
    SourceRecord,
    integers,
)

Block = tuple[Tensor, Sequence[int]]  # ids [B, n], and how many of each row count
FIRST = "a drafter needs start(prompts, hidden) first"


class DrawnDraft(Draft):
    """A draft that the library has drawn: how it draws, a token has a probability above 0."""

    def check(self) -> None:
        """Checks nothing again: that would be a share of a round that can be measured."""


class Shape:
    """The shape of a tree, and how much of it rows may draw, as the library reads them.

    Attributes:
        size: K.
        parents: [B, K] integers, as in a `Draft`.
        space: [B], how many of its tokens each row has space for.
        read: which tokens a draft model reads, in their order: 0 the pending one, i + 1 token i.
        depths: [K], from 1 on: they ascend.
    """

    def __init__(self, parents: Sequence[int], space: Sequence[int]) -> None:
        """Makes the integers that the library reads."""
        if not are_parents(torch.tensor([list(parents)], dtype=torch.long)):
            raise ValueError(PARENTS_ORDER)
        self.size = len(parents)
        self.parents = integers([*parents] * len(space))
        self.space = list(space)
        self.read = sorted(set(parents))
        self.depths = depths_of(parents)[1:]

    def drawn(self, budgets: Sequence[int]) -> list[int]:
        """Returns how many of its tokens rows with these budgets [B] may draw."""
        rows = zip(budgets, self.space, strict=True)
        return [min(bisect_right(self.depths, budget), space) for budget, space in rows]


class Chain:
    """A way to draft K tokens, a chain or a tree, in one call into the library.

    Attributes:
        model: whose embedding and head it uses: the draft model, or the target.
        record: what the library is told of it.
        seconds: that its forwards have taken.
    """

    def __init__(
        self,
        model: NativeGPT,
        kind: Kind = Kind.MODEL,
        layers: NativeLayers | None = None,
        matrices: Sequence[Packed] = (),
        mask: Tensor | None = None,
        first_layers: int | None = None,
        ids: Tensor | None = None,
    ) -> None:
        """Joins what a kind of drafter is made of (see `ms_drafter`).

        Args:
            model: the draft model, or the target whose embedding and head are used.
            kind: what drafts.
            layers: its own, if it has any.
            matrices: of an exit, a feature drafter, a parallel drafter, or heads.
            mask: [D], of a parallel drafter; of one with a joined layer the gains of embeddings.
            first_layers: of an exit, how many of the target's layers it has; None: it has its own.
            ids: [ids], which ids the head of a joined layer knows.
        """
        self.model = model
        self.seconds = 0.0
        self._kept = (layers, matrices, mask, ids)  # the library has their addresses
        self._reads = model if layers is None or first_layers is not None else layers
        count = self._reads.packed_layers if first_layers is None else first_layers
        self._layers = (0, count)
        self._matrices = (ADDRESS * len(matrices))(*[matrix.address for matrix in matrices])
        self.record = DrafterRecord(
            kind=kind,
            type=model.native.type,
            model=model.packed.address,
            layers=None if layers is None else layers.packed.address,
            matrices=ctypes.addressof(self._matrices),
            mask=None if mask is None else mask.data_ptr(),
            first_layers=count,
            ids=None if ids is None else ids.data_ptr(),
        )

    def draw(
        self,
        tokens: Tensor,
        cache: KVCache | None,
        k: int,
        warp: Warp,
        numbers: Tensor,
        budgets: Sequence[int] | None = None,
        states: Tensor | None = None,
        tree: Shape | None = None,
        first: Block | None = None,
    ) -> tuple[Tensor, Tensor, int]:
        """Draws K tokens a row after the pending ones.

        Numbers are used as `SeededRng` would: step by step, row by row at each, none where the outcome is
        certain or a row's budget has ended; there id 0 is drawn.

        Args:
            tokens: [B], the pending tokens.
            cache: extended by what is read: the pending token and all drawn ones but the last. Of a parallel
                drafter it is the pending one, and masks; heads have none.
            k: K.
            warp: from logits to distributions.
            numbers: [n] float64 in [0, 1), enough for all draws: B · K, or none at temperature 0.
            budgets: [B], how many draws each row may make; None: K.
            states: what else is read or written, see `ms_draft`.
            tree: of the K tokens; None: a chain.
            first: what a joined layer reads at first: what each row has missed, and the pending token.

        Returns:
            The ids [B, K], the distributions that they were drawn from [B, K, V], and how many numbers were
            used.

        Raises:
            TypeError: if an argument is of a wrong type.
            ValueError: if the context is full, there are too few numbers or one is outside [0, 1), a token is
                out of range, or a logit is not finite.
            MemoryError: if the system refuses the memory; the cache is as before.
        """
        pending = check_ids(tokens, 1)
        rows = len(pending)
        if index(k) < 1:
            raise ValueError(f"K must be at least 1, not {k}")
        kind = self.record.kind
        held = None
        if kind == Kind.MEDUSA and (k if tree is None else tree.depths[-1]) > len(self._matrices) // 2:
            raise ValueError(f"{len(self._matrices) // 2} heads draft no more tokens one after the other")
        if kind != Kind.MEDUSA:
            held = self._reads.usable(cache, rows, self._layers)
            held.check_space(k if tree is None else len(tree.read))
        ids, counts = self._checked_first(first, pending)
        if tree is not None and (tree.size, len(tree.space)) != (k, rows):
            raise ValueError(f"the tree must have {k} tokens in {rows} rows")
        if tree is not None and kind not in (Kind.MODEL, Kind.MEDUSA):
            raise ValueError("only a draft model and heads draft trees")
        states = self._checked_states(states, rows, k, ids.shape[1])
        check_memory(rows * k * self.model.vocab_size * self.model.dtype.itemsize, "this draft")
        if held is not None:
            held.make_space(ids.shape[1] + k)
        numbers = checked("the tensor of numbers", numbers, (None,), torch.float64)
        if not warp.is_greedy and len(numbers) < rows * k:
            raise ValueError(f"{rows * k} numbers are needed, not {len(numbers)}")
        drawn = space_for(rows, k, dtype=torch.long)
        probs = space_for(rows, k, self.model.vocab_size, dtype=self.model.dtype)
        most = [k] * rows if budgets is None else check_budgets(budgets, rows)
        limits = integers(most if tree is None else tree.drawn(most))
        starts = integers([0] * rows if held is None else held.row_lengths)
        record = warp_record(warp)
        draft = DraftRecord(
            drafter=self.on(held),
            rows=rows,
            k=k,
            pending=pending.data_ptr(),
            starts=ctypes.addressof(starts),
            budgets=ctypes.addressof(limits),
            warp=ctypes.addressof(record),
            n=ids.shape[1],
            read=ids.data_ptr(),
            counts=ctypes.addressof(counts),
            states=None if states is None else states.data_ptr(),
            parents=None if tree is None else ctypes.addressof(tree.parents),
            tokens=drawn.data_ptr(),
            q=probs.data_ptr(),
        )
        source = SourceRecord(numbers=numbers.data_ptr(), count=len(numbers))
        status = self.model.native.draw(ctypes.byref(draft), ctypes.byref(source))
        check(status, self.model.vocab_size, k)
        self.seconds += draft.seconds
        if held is not None:
            held.hold([n + count - 1 for n, count in zip(held.row_lengths, counts, strict=True)])
            held.extend(k + (kind == Kind.EXIT) if tree is None else len(tree.read))
        return drawn, probs, int(source.used)

    def _checked_first(self, first: Block | None, pending: Tensor) -> tuple[Tensor, Integers]:
        """Returns what is read at first as the library reads it: ids [B, n], and how many of them count."""
        rows = len(pending)
        ids, counts = first or (pending[:, None], [1] * rows)
        ids = checked("what is read at first", ids, (rows, None), torch.int64)
        n = ids.shape[1]
        if self.record.kind != Kind.JOINED and n != 1:
            raise ValueError("only a joined layer reads in its draft what it has missed")
        if len(counts) != rows or not all(1 <= index(count) <= n for count in counts):
            raise ValueError(f"of {n} tokens that each of {rows} rows reads at first, {counts} cannot count")
        return ids, integers(counts)

    def _checked_states(self, states: Tensor | None, rows: int, k: int, n: int) -> Tensor | None:
        """Returns states as the library reads them, or writes those of an exit."""
        width = self.model.hidden_size
        kind = Kind(self.record.kind)
        shape = {
            Kind.EXIT: (rows, k + 1, width),
            Kind.FEATURE: (rows, width),
            Kind.JOINED: (rows, n, width),
            Kind.MEDUSA: (rows, width),
        }.get(kind)
        if shape is None:
            return None
        read = checked("states", cast(Tensor, states), shape, self.model.dtype)
        if kind == Kind.EXIT and read is not states:
            raise ValueError("states that are written must lie without gaps")
        return read

    def on(self, cache: NativeCache | None) -> int:
        """Returns the address of the record, with a cache in it and the present number of threads.

        The cache must have memory for K + 1 tokens more (see `make_space`).
        """
        self.record.cache = None if cache is None else cache.address
        self.record.slots = 0 if cache is None else cache.slots
        self.record.threads = self._reads.threads_now
        return ctypes.addressof(self.record)

    def propose(
        self,
        cache: KVCache | None,
        pending: Tensor,
        k: int,
        warp: Warp,
        rng: RoundRng,
        core: Callable[[], Draft],
        states: Tensor | None = None,
        known: Sequence[bool] | None = None,
        tree: Shape | None = None,
        first: Block | None = None,
    ) -> Draft:
        """Drafts k tokens a row after the pending ones [B] in one call, or as `core` does.

        known: [B], which rows draft at all; None: every one. tree, first: see `draw`.
        """
        rows = len(pending)
        if cache is None and self.record.kind != Kind.MEDUSA:
            raise ValueError(FIRST)
        if not isinstance(warp, Warp) or index(k) < 1:
            raise ValueError(f"a drafter needs a K of at least 1 and a Warp: {k}, {warp}")
        budgets = check_budgets(rng.plan.budgets, rows)
        if not isinstance(rng.source, Lender):
            return core()
        if known is not None:
            budgets = [budget * is_known for budget, is_known in zip(budgets, known, strict=True)]
        before = None if cache is None else cache.row_lengths

        def native(numbers: Tensor) -> tuple[int, Draft]:
            if cache is not None and before is not None:  # a generator that enumerates drafts more than once
                cache.truncate(before)
            tokens, probs, used = self.draw(pending, cache, k, warp, numbers, budgets, states, tree, first)
            if tree is not None:
                return used, DrawnDraft(tokens, probs, parents=torch.tensor(tree.parents).view(rows, -1))
            if min(budgets) >= k:
                return used, DrawnDraft(tokens, probs)
            return used, DrawnDraft(tokens, probs, torch.tensor([min(budget, k) for budget in budgets]))

        return rng.source.decide(0 if warp.is_greedy else rows * k, native, core)


def whole_levels(k: int, space: int) -> int:
    """Returns how many tokens of a chain are at most k deep and fit a space: each level has one."""
    return min(k, space)


@dataclass(frozen=True)
class Drawing:
    """What a round is told of a drafter whose drafts the library can draw in it.

    Attributes:
        chain: how it drafts.
        cache: its own, or of an exit that of the first layers; None: it has none.
        states: [B, D], the target's states that it goes on from, which a round brings up to date.
        longest: how many tokens it drafts one after the other, at most.
        parents: of a tree, as in a `Draft`; None: it drafts chains.
        size: how many tokens of the tree are at most K deep, and fit a space; of a chain, the smaller one.
        end: how many tokens of a text and a tree a row can hold.
    """

    chain: Chain
    cache: NativeCache | None = None
    states: Tensor | None = None
    longest: int = LARGEST
    parents: Sequence[int] | None = None
    size: Callable[[int, int], int] = whole_levels
    end: int = LARGEST

    def tokens(self, width: int, rows: Sequence[Row], max_length: int) -> int:
        """Returns how many tokens a draft has that is so deep, or wide; 0 if a tree does not fit any row.

        max_length: of the target.
        """
        if self.parents is None:
            return min(width, self.longest)
        k = self.size(width, max([self.end - len(row.tokens) for row in rows]))
        fits = [row.budget > width and max_length - len(row.tokens) >= k for row in rows]
        return k if any(fits) else 0

    def read(self, k: int) -> int:
        """Returns how many tokens a draft of K adds to its cache."""
        if self.parents is not None:
            return len(set(self.parents[:k]))
        return 1 if self.chain.record.kind == Kind.PARALLEL else k


class Draws(ABC):
    """A drafter whose drafts the library can draw, and learn from, within a round.

    Attributes:
        warp: how to warp its logits; None: like the target's.
    """

    warp: Warp | None

    @abstractmethod
    def drawing(self, target: LanguageModel) -> Drawing | None:
        """Returns what a round with this target is told; None: its next drafts must be asked for."""


def computes_with(chain: Chain, target: LanguageModel) -> bool:
    """Whether a round can have both: the library computes the target, in the same type."""
    return isinstance(target, NativeGPT) and target.dtype == chain.model.dtype


class NativeDrafter(ModelDrafter, Draws):
    """A `ModelDrafter` that lets a `NativeGPT` draw, by numbers that a `Lender` lends.

    It is lossless for the same reason: the distribution that it reports is the one that was drawn from.

    Attributes:
        chain: how the library drafts; None for another model.
    """

    def __init__(self, model: LanguageModel, warp: Warp | None = None) -> None:
        """Makes a drafter (see `ModelDrafter`)."""
        super().__init__(model, warp)
        self.chain = Chain(model) if isinstance(model, NativeGPT) else None

    def propose(self, pending: Tensor, k: int, warp: Warp, rng: RoundRng) -> Draft:
        """Guesses k tokens a row after the pending ones [B], those of `ModelDrafter` (see there).

        Raises:
            TypeError: if an argument is of a wrong type.
            ValueError: if k is below 1, or it cannot draft: see `Chain.draw`.
        """
        core = partial(super().propose, pending, k, warp, rng)
        if self.chain is None:
            return core()
        return self.chain.propose(self._cache, pending, k, self.warp or warp, rng, core)

    def drawing(self, target: LanguageModel) -> Drawing | None:
        """Returns what a round with this target is told (see `Draws`)."""
        if self.chain is None or not computes_with(self.chain, target):
            return None
        return Drawing(self.chain, cast(NativeCache, self.cache))


class NativeTreeDrafter(TreeDrafter, Draws):
    """A `TreeDrafter` that lets a `NativeGPT` draw, for candidates that are drawn without replacement."""

    def __init__(self, model: NativeGPT, parents: Sequence[int], warp: Warp | None = None) -> None:
        """Makes a drafter (see `TreeDrafter`)."""
        super().__init__(model, parents, warp=warp)
        self.chain = Chain(model)

    def propose(self, pending: Tensor, k: int, warp: Warp, rng: RoundRng) -> Draft:
        """Proposes the tree, at most k deep, to follow the pending tokens [B] (see `Chain.propose`)."""
        core = partial(super().propose, pending, k, warp, rng)
        if self._cache is None or not isinstance(k, int):
            raise ValueError(f"{FIRST}, and an integer K: {k}")
        space = [self.max_length - 1 - n for n in self._cache.row_lengths]
        size = self.size(k, max(space))
        if size < 1:
            raise ValueError(f"a tree needs space, and a K of at least 1: {k}")
        shape = Shape(self.parents[:size], space)
        draft = self.chain.propose(self.cache, pending, size, self.warp or warp, rng, core, tree=shape)
        self._read = shape.read
        return draft

    def drawing(self, target: LanguageModel) -> Drawing | None:
        """Returns what a round with this target is told (see `Draws`)."""
        if not computes_with(self.chain, target):
            return None
        cache = cast(NativeCache, self.cache)
        return Drawing(self.chain, cache, parents=self.parents, size=self.size, end=self.max_length)
