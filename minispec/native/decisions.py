"""Native versions of random numbers, warp and rules: the same decisions, each one call into the library.

After the native forward, the starting times of PyTorch's operations would be most of a round. `core/warp.py`,
`core/verify.py` and `verifiers/` are the ones to read; the loops are in `native/cpp/decisions.h`. Where the
random number generator is neither a `Lender` nor keyed noise, the original rules decide. Tests hold the two
to each other, draw by draw, and `evidence/proof/replay.py` branch by branch.

A rule makes many decisions in one call. So the library gets the numbers that they may need beforehand, uses
them in the core's order, and returns how many it has used.
"""

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from ctypes import byref
from dataclasses import dataclass
from operator import index
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from minispec.core.records import Draft, Verdict
from minispec.core.rng import Place, RoundPlan, RoundRng, SeededRng
from minispec.core.verify import Verifier, verify_greedy, verify_rejection
from minispec.core.warp import Warp
from minispec.native.checks import LARGEST, check, check_budgets, check_temperature, checked, space_for
from minispec.native.library import native_functions
from minispec.native.structs import DecisionRecord, Integers, Rule, SourceRecord, WarpRecord, integers
from minispec.verifiers.block import verify_block
from minispec.verifiers.coupled import KeyedRng, verify_compare, verify_coupled
from minispec.verifiers.tree import verify_tree, verify_tree_greedy

T = TypeVar("T")
NUMBERS_AHEAD = 256  # so many numbers are drawn at once
MOST_NUMBERS = 2**26  # so many are lent at most
TREE_RULES = (Rule.TREE_GREEDY, Rule.TREE)


class Lender(ABC):
    """A generator that lets the library decide, by numbers that it lends."""

    @abstractmethod
    def decide(self, most: int, native: Callable[[Tensor], tuple[int, T]], core: Callable[[], T]) -> T:
        """Has the library make decisions.

        Args:
            most: how many numbers they may need.
            native: makes them by [most] float64 in [0, 1), in their order; returns how many it has used, and
                what was decided.
            core: makes the same decisions by the core's code, with this generator. One that enumerates learns
                from it which decisions there are; others leave it alone.
        """


class NativeRng(SeededRng, Lender):
    """A `SeededRng` that draws ids in one call, and lends numbers."""

    def __init__(self, seed: int) -> None:
        """Starts a stream of its own; the seed is as for `SeededRng`."""
        super().__init__(seed)
        self._stream = space_for(0, dtype=torch.float64)
        self._address = 0
        self._next = 0

    def categorical(self, probs: Tensor, place: Place | None = None) -> Tensor:
        """Draws ids by inverting the cumulative sum: probs [B, V] -> [B] ids (see `Rng`)."""
        return native_categorical(self, probs, place, lambda: SeededRng.categorical(self, probs, place))

    def decide(self, most: int, native: Callable[[Tensor], tuple[int, T]], core: Callable[[], T]) -> T:
        """Lends the stream's next numbers [most], and takes back what decided nothing (see `Lender`)."""
        used = 0
        try:
            used, decided = native(self.lend(most))
        finally:
            self.give_back(most - used)
        return decided

    def lend(self, count: int) -> Tensor:
        """Returns the numbers that the next decisions will be made by: [count] float64 in [0, 1)."""
        if not 0 <= index(count) <= MOST_NUMBERS:
            raise ValueError(f"0 to {MOST_NUMBERS:,} numbers can be lent at a time, not {count}")
        if self._next + count > self._stream.numel():
            with torch.device("cpu"):  # whatever the default device is
                drawn = super()._numbers(max(NUMBERS_AHEAD, count))
            self._stream = torch.cat([self._stream[self._next :], drawn])
            self._address = self._stream.data_ptr()
            self._next = 0
        first = self._next
        self._next = self._next + count
        return self._stream[first : self._next]

    def lend_at(self, count: int) -> int:
        """Lends numbers, and returns the address of the first: to make a tensor of them takes time."""
        if self._next + count > self._stream.numel():
            self.lend(count)
        else:
            self._next += count
        return self._address + 8 * (self._next - count)

    def give_back(self, count: int) -> None:
        """Takes back the last numbers that were lent, of which `count` have decided nothing."""
        if not 0 <= index(count) <= self._next:
            raise ValueError(f"0 to {self._next:,} numbers can be given back, not {count}")
        self._next -= count

    def _numbers(self, count: int) -> Tensor:
        return self.lend(count)


def native_categorical(
    source: Lender, probs: Tensor, place: Place | None, core: Callable[[], Tensor]
) -> Tensor:
    """Draws ids by inverting the cumulative sum: probs [B, V], distributions up to rounding, -> [B] ids.

    `core` draws as the core does (see `Lender`). Raises what `checked` does; ValueError if a row is none.
    """
    dists = checked("probs", probs, (None, None))
    live = None if place is None else place.live
    batch, vocab = dists.shape
    if live is not None:
        live = checked("live", live, (batch,), torch.bool)

    def native(numbers: Tensor) -> tuple[int, Tensor]:
        library = native_functions(dists.dtype)
        token = space_for(batch, dtype=torch.long)
        lent = numbers_record(numbers)
        mask = None if live is None else live.data_ptr()
        status = library.choose(
            library.type, dists.data_ptr(), batch, vocab, mask, byref(lent), token.data_ptr()
        )
        check(status, vocab)
        return lent.used, token

    return source.decide(batch, native, core)


def numbers_record(numbers: Tensor) -> SourceRecord:
    """Returns what the library decides by: numbers [count] in [0, 1), which must live as long."""
    return SourceRecord(numbers.data_ptr(), len(numbers))


class NoiseRecord(SourceRecord):
    """What the library decides by: the noise of a `KeyedRng`, in a round."""

    def __init__(self, source: KeyedRng, plan: RoundPlan) -> None:
        """Takes the seed, and where the round begins."""
        self._held = integers(plan.prompt_ids), integers(plan.starts)
        super().__init__(None, 0, 0, source.key, *map(ctypes.addressof, self._held))


def warp_record(warp: Warp) -> WarpRecord:
    """Returns a warp as the library reads it; TypeError or ValueError if something is no setting of one."""
    check_temperature(warp.temperature)
    top_k = 0 if warp.top_k is None else min(index(warp.top_k), LARGEST)
    return WarpRecord(warp.temperature, top_k, 1 if warp.top_p is None else warp.top_p)


class NativeWarp(Warp):
    """A `Warp` that is one call; where top-k or top-p cut, it does not sort the whole vocabulary."""

    def __post_init__(self) -> None:
        check_temperature(self.temperature)
        super().__post_init__()

    def __call__(self, logits: Tensor) -> Tensor:
        """Returns probabilities, those of `Warp` up to rounding: [..., V] of any floating type -> [..., V].

        Raises ValueError if a row has NaN or plus infinity, or nothing but minus infinity.
        """
        given = checked("logits", logits, None)
        if given.dtype is not logits.dtype:
            return super().__call__(logits)
        library = native_functions(given.dtype)
        probs = space_for(*given.shape, dtype=given.dtype)
        vocab = given.shape[-1]
        rows = given.numel() // vocab
        warp = byref(warp_record(self))
        check(
            library.distributions(library.type, warp, given.data_ptr(), rows, vocab, probs.data_ptr()), vocab
        )
        return probs


@dataclass(frozen=True)
class NativeVerifier(Verifier):
    """A verifier that the library has: its decisions are one call, and a whole round may be one.

    Attributes:
        rule: the library's name of it.
    """

    rule: Rule = Rule.GREEDY


class Inputs(NamedTuple):
    """What a rule reads, as the library does: see `Draft` and `Decide`.

    Attributes:
        p: the target's distributions [B, K+1, V].
        q: the draft's [B, K, V]; None for a rule that needs none.
        tokens: [B, K].
        lengths: [B].
        budgets: [B], in how many positions each row decides.
        parents: [B, K] of a tree, or None.
    """

    p: Tensor
    q: Tensor | None
    tokens: Tensor
    lengths: Tensor
    budgets: Integers
    parents: Tensor | None

    def decide(self, rule: Rule, source: SourceRecord) -> Verdict:
        """Has the library decide by a rule; what it uses of a source is counted there."""
        rows, k = self.tokens.shape
        vocab = self.p.shape[-1]
        accepted = space_for(rows, dtype=torch.long)
        token = space_for(rows, dtype=torch.long)
        path = space_for(rows, k, dtype=torch.bool) if rule in TREE_RULES else None
        library = native_functions(self.p.dtype)
        record = DecisionRecord(rows, k, vocab, *map(address, (*self, accepted, token, path)))
        check(library.decide(library.type, rule, byref(record), byref(source)), vocab, k)
        return Verdict(accepted, token, path)


def inputs_of(rule: Rule, draft: Draft, target_probs: Tensor, budgets: Sequence[int]) -> Inputs:
    """Returns what a rule reads of a draft and target_probs [B, K+1, V]; raises what `checked` does."""
    if not isinstance(draft, Draft):
        raise TypeError(f"a verifier needs a Draft, not {type(draft).__name__}")
    tokens = checked("the draft's tokens", draft.tokens, (None, None), torch.int64)
    rows, k = tokens.shape
    lengths = checked("the draft's lengths", draft.lengths, (rows,), torch.int64)
    p = checked("target_probs", target_probs, (rows, k + 1, None))
    q = parents = None
    if rule in TREE_RULES and draft.parents is not None:
        parents = checked("the draft's parents", draft.parents, (rows, k), torch.int64)
    if rule in (Rule.REJECTION, Rule.BLOCK, Rule.TREE):
        q = checked("the draft's probs", draft.probs, (rows, k, p.shape[-1]))
    if q is not None and p.dtype is not q.dtype:
        p = p.double()
        q = q.double()
    return Inputs(p, q, tokens, lengths, integers(check_budgets(budgets, rows)), parents)


def native_verifier(original: Verifier, rule: Rule) -> NativeVerifier:
    """Returns a verifier that decides as another does, with the same draws, by a rule of the library.

    Where the source is neither a `Lender` nor noise that the rule can decide by, the original decides. It
    raises TypeError if something is of a wrong type, and ValueError if the draft has a token, a length or a
    parent that cannot be, or a distribution is none.
    """

    def decide(draft: Draft, target_probs: Tensor, rng: RoundRng) -> Verdict:
        source = rng.source
        inputs = inputs_of(rule, draft, target_probs, rng.plan.budgets)
        if original.greedy:
            return inputs.decide(rule, SourceRecord())
        if isinstance(source, KeyedRng) and rule is Rule.COUPLED:
            return inputs.decide(rule, NoiseRecord(source, rng.plan))
        if not isinstance(source, Lender):
            return original.decide(draft, target_probs, rng)

        def native(numbers: Tensor) -> tuple[int, Verdict]:
            lent = numbers_record(numbers)
            verdict = inputs.decide(rule, lent)
            return lent.used, verdict

        most = inputs.lengths.numel() * (draft.k + 1)
        return source.decide(most, native, lambda: original.decide(draft, target_probs, rng))

    return NativeVerifier(**{**vars(original), "decide": decide}, rule=rule)


def address(numbers: Tensor | Integers | None) -> int | None:
    """Returns where numbers [...] lie; None for none."""
    if numbers is None:
        return None
    return numbers.data_ptr() if isinstance(numbers, Tensor) else ctypes.addressof(numbers)


native_greedy = native_verifier(verify_greedy, Rule.GREEDY)
native_rejection = native_verifier(verify_rejection, Rule.REJECTION)
native_block = native_verifier(verify_block, Rule.BLOCK)
native_coupled = native_verifier(verify_coupled, Rule.COUPLED)
native_compare = native_verifier(verify_compare, Rule.COUPLED)
native_tree_greedy = native_verifier(verify_tree_greedy, Rule.TREE_GREEDY)
native_tree = native_verifier(verify_tree, Rule.TREE)
CHAINS = (native_greedy, native_rejection, native_block, native_coupled, native_compare)
NATIVE_CHAINS: dict[str, Verifier] = {verifier.name: verifier for verifier in CHAINS}
NATIVE_TREES: dict[str, Verifier] = {
    verifier.name: verifier for verifier in (native_tree_greedy, native_tree)
}
