"""Native versions of random numbers, warp and rules: the same decisions, each one call into the library.

After the native forward, the starting times of PyTorch's operations would be most of a round. `core/warp.py`
and `core/verify.py` are the ones to read; the loops are in `native/cpp/decisions.h`. Where the random number
generator is no `Lender`, the core's rules decide. Tests hold the two to each other, draw by draw, and
`evidence/proof/replay.py` branch by branch.

A rule makes many decisions in one call. So the library gets the numbers that they may need beforehand, uses
them in the core's order, and returns how many it has used.
"""

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Callable
from operator import index
from typing import TypeVar

import torch
from torch import Tensor

from minispec.core.records import Draft, Verdict
from minispec.core.rng import Place, RoundRng, SeededRng
from minispec.core.verify import Verifier, accept_rejection
from minispec.core.warp import DAMAGED, Warp
from minispec.native.checks import check, check_budgets, check_temperature, checked, space_for
from minispec.native.structs import WarpRecord, SourceRecord, DecisionRecord, Rule
from minispec.native.library import native_functions

T = TypeVar("T")
NUMBERS_AHEAD = 256  # so many numbers are drawn at once
MOST_NUMBERS = 2**26  # so many are lent at most


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
            self._next = 0
        first = self._next
        self._next = self._next + count
        return self._stream[first : self._next]

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
        token = space_for(batch, dtype=torch.long)
        n = native_functions(dists.dtype)
        source = SourceRecord(numbers=numbers.data_ptr(), count=len(numbers))
        check(n.choose(n.type, dists.data_ptr(), batch, vocab, None if live is None else live.data_ptr(), ctypes.byref(source), token.data_ptr()), vocab)
        return source.used, token

    return source.decide(batch, native, core)


class NativeWarp(Warp):
    """A `Warp` that is quick at every temperature; top-k and top-p it leaves to its parent."""

    def __post_init__(self) -> None:
        check_temperature(self.temperature)
        super().__post_init__()

    def __call__(self, logits: Tensor) -> Tensor:
        """Returns probabilities, those of `Warp` up to rounding: [..., V] of any floating type -> [..., V].

        Raises ValueError if a row has NaN or plus infinity, or nothing but minus infinity.
        """
        given = checked("logits", logits, None)
        if self.top_k is not None or self.top_p is not None or given.dtype is not logits.dtype:
            return super().__call__(logits)
        probs = space_for(*given.shape, dtype=given.dtype)
        vocab = given.shape[-1]
        rows = given.numel() // vocab
        n = native_functions(given.dtype)
        w = warp_record(self)
        check(n.distributions(n.type, ctypes.byref(w), given.data_ptr(), rows, vocab, probs.data_ptr()), vocab)
        return probs


def warp_record(warp: Warp) -> WarpRecord:
    return WarpRecord(warp.temperature, warp.top_k or 0, 1.0 if warp.top_p is None else warp.top_p)


def native_accept_greedy(draft: Draft, target_probs: Tensor, rng: RoundRng) -> Verdict:
    """Decides as `accept_greedy` does (Leviathan et al. 2023, section 2.2); target_probs are [B, K+1, V].

    Raises:
        TypeError: if something is of a wrong type.
        ValueError: if the draft has a token or a length that cannot be, or a distribution is none.
    """
    p, tokens, lengths = checked_inputs(draft, target_probs)
    accepted = torch.empty_like(lengths)  # [B] int64, as they are
    token = torch.empty_like(lengths)
    n = native_functions(p.dtype)
    source = SourceRecord()
    d = DecisionRecord(rows=len(p), k=draft.k, vocab=p.shape[-1], p=p.data_ptr(), tokens=tokens.data_ptr(), lengths=lengths.data_ptr(), accepted=accepted.data_ptr(), token=token.data_ptr())
    check(n.decide(n.type, Rule.GREEDY, ctypes.byref(d), ctypes.byref(source)), p.shape[-1], draft.k)
    return Verdict(accepted, token)


def native_accept_rejection(draft: Draft, target_probs: Tensor, rng: RoundRng) -> Verdict:
    """Decides as `accept_rejection` does (Leviathan et al. 2023, algorithm 1), with the same draws.

    target_probs are [B, K+1, V]; `rng` decides each test, and draws the correction or the bonus. Where its
    source is no `Lender`, the core's function does so.

    Raises:
        TypeError: if something is of a wrong type.
        ValueError: if the draft has a token or a length that cannot be, or a distribution is none.
    """
    p, tokens, lengths = checked_inputs(draft, target_probs)
    if not isinstance(rng.source, Lender):
        return accept_rejection(draft, target_probs, rng)
    rows, k = tokens.shape
    vocab = p.shape[-1]
    q = checked("the draft's probs", draft.probs, (rows, k, vocab))
    if p.dtype is not q.dtype:
        p = p.double()
        q = q.double()
    budgets = (ctypes.c_int64 * rows)(*check_budgets(rng.plan.budgets, rows))
    def native(numbers: Tensor) -> tuple[int, Verdict]:
        accepted = torch.empty_like(lengths)  # [B] int64, as they are
        token = torch.empty_like(lengths)
        n = native_functions(p.dtype)
        source = SourceRecord(numbers=numbers.data_ptr(), count=len(numbers))
        d = DecisionRecord(rows=rows, k=k, vocab=vocab, p=p.data_ptr(), q=q.data_ptr(), tokens=tokens.data_ptr(), lengths=lengths.data_ptr(), budgets=ctypes.addressof(budgets), accepted=accepted.data_ptr(), token=token.data_ptr())
        check(n.decide(n.type, Rule.REJECTION, ctypes.byref(d), ctypes.byref(source)), vocab, k)
        return source.used, Verdict(accepted, token)

    return rng.source.decide(rows * (k + 1), native, lambda: accept_rejection(draft, target_probs, rng))


def checked_inputs(draft: Draft, target_probs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns target_probs [B, K+1, V], tokens [B, K] and lengths [B] as the library reads them."""
    if not isinstance(draft, Draft):
        raise TypeError(f"a verifier needs a Draft, not {type(draft).__name__}")
    tokens = checked("the draft's tokens", draft.tokens, (None, None), torch.int64)
    rows, k = tokens.shape
    lengths = checked("the draft's lengths", draft.lengths, (rows,), torch.int64)
    return checked("target_probs", target_probs, (rows, k + 1, None)), tokens, lengths


from dataclasses import dataclass


@dataclass(frozen=True)
class NativeVerifier(Verifier):
    rule: Rule = Rule.GREEDY


native_greedy = NativeVerifier("greedy", native_accept_greedy, greedy=True, rule=Rule.GREEDY)
native_rejection = NativeVerifier("rejection", native_accept_rejection, rule=Rule.REJECTION)
NATIVE_CHAINS = {"greedy": native_greedy, "rejection": native_rejection}
NATIVE_TREES = {}
