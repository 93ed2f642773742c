"""Rounds that the library has played: records whose wide fields are made when they are read."""

from functools import cached_property
from itertools import compress
from typing import NamedTuple

import torch
from torch import Tensor

from minispec.core.model import LanguageModel
from minispec.core.records import Draft, Verdict
from minispec.core.warp import Warp, one_hot
from minispec.io.trace import CacheLengths, ObservedRound
from minispec.native.checks import space_for
from minispec.native.drafter import DrawnDraft

ROUNDS_AT_ONCE = 32  # whose numbers lie in one tensor, if they take no more than
BYTES_AT_ONCE = 2**22


class Memory:
    """Where rounds leave what the library's drafts were drawn from, and the target's hidden states.

    To make a tensor takes microseconds. So there is one for several rounds, cut when they are read.

    Attributes:
        most: the largest K that fits.
        drawn: the most tokens whose q fits.
        free: how many rounds still fit.
    """

    def __init__(self, rows: int, k: int, drawn: int, vocab: int, width: int, dtype: torch.dtype) -> None:
        """Takes memory for rounds of B rows and drafts of at most K tokens, of which so many are drawn."""
        self._rows = rows
        self.drawn = drawn
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

    def probs(self, place: int, tokens: Tensor) -> Tensor:
        """Returns what a round's tokens [B, K] were drawn from: [B, K, V]; 1 for them if they are certain."""
        if self.drawn:
            return self.part(0, place, tokens.shape[1])
        return one_hot(tokens, self._widths[0], self._parts[0].dtype)

    def part(self, which: int, place: int, n: int) -> Tensor:
        """Returns a part of a round: [B, n, V], or [B, n, D]."""
        width = self._widths[which]
        first = place * self._sizes[which]
        return self._parts[which][first : first + self._rows * n * width].view(self._rows, n, width)


class Played(NamedTuple):
    """What a round of the library has come to, of rows with K tokens each: [B, K]."""

    #: a draft that a drafter has made itself; None: the library's, or one of certain tokens
    given: Draft | None
    pending: list[int]  #: of each row
    tokens: list[list[int]]  #: drafted, of each row
    lengths: list[int]  #: how many of them count
    accepted: list[int]
    token: list[int]
    parents: list[list[int]] | None  #: [B, K], of a tree
    path: list[list[int]] | None  #: [B, K], of a tree: 1 for what is kept
    memory: Memory  #: where its numbers lie
    place: int  #: which of the rounds there it is

    def kept(self) -> list[list[int]]:
        """Returns the tokens that each row keeps, the one after the draft included."""
        rows = zip(self.tokens, self.accepted, self.token, strict=True)
        if self.path is None:
            return [[*tokens[:accepted], token] for tokens, accepted, token in rows]
        return [
            [*compress(tokens, path), token] for (tokens, _, token), path in zip(rows, self.path, strict=True)
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
        played = self.played
        if played.given is not None:
            return played.given
        tokens = torch.tensor(played.tokens, dtype=torch.long)
        probs = played.memory.probs(played.place, tokens)
        parents = None if played.parents is None else torch.tensor(played.parents)
        return DrawnDraft(tokens, probs, torch.tensor(played.lengths), parents)

    @cached_property
    def verdict(self) -> Verdict:
        """What the verifier decided."""
        played = self.played
        path = None if played.path is None else torch.tensor(played.path, dtype=torch.bool)
        return Verdict(torch.tensor(played.accepted), torch.tensor(played.token), path)

    @cached_property
    def target_hidden(self) -> Tensor:
        """The target's hidden states: [B, K+1, D]."""
        return self.played.memory.part(1, self.played.place, len(self.played.tokens[0]) + 1)

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
