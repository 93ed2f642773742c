"""Draft: guess the next tokens, cheaply, and remember the law of every guess.

A drafter may be anything that proposes tokens. Losslessness never depends on how good it is, only on one
thing: the law that it reports for a token must be the law that it drew the token from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from minispec.decoding.prefill import device_of, prefill
from minispec.decoding.records import Draft, Round
from minispec.decoding.rng import Rng
from minispec.decoding.warp import Warp
from minispec.lm.cache import KVCache
from minispec.lm.model import LanguageModel


class Drafter(Protocol):
    """Anything that proposes tokens.

    Attributes:
        cache_lengths: how many tokens its cache holds, row by row, or None if it has no cache.
    """

    @property
    def cache_lengths(self) -> tuple[int, ...] | None:
        """See above."""

    def start(self, prompts: Sequence[Sequence[int]]) -> None:
        """Begins a run: forgets the last one and reads the prompts."""

    def propose(self, pending: Tensor, k: int, warp: Warp, rng: Rng) -> Draft:
        """Proposes up to k tokens a row, to follow the pending tokens [B].

        Draws from `rng` name positions 0 … k−1. Where a row's room ends, `rng` gives 0, and the loop cuts.
        """

    def commit(self, round: Round) -> None:
        """Learns what came of its draft, and forgets what was rejected."""


class ModelDrafter:
    """A small language model that guesses one token after another, with a cache of its own."""

    def __init__(self, model: LanguageModel, warp: Warp | None = None) -> None:
        """Makes a drafter.

        Args:
            model: the draft model; it must have the target's vocabulary.
            warp: how to warp its logits; None: like the target's. Any is lossless.
        """
        self.model = model
        self.warp = warp
        self.device = device_of(model)
        self._cache: KVCache | None = None

    @property
    def vocab_size(self) -> int:
        """V."""
        return self.model.vocab_size

    @property
    def max_length(self) -> int:
        """The draft model's context."""
        return self.model.max_length

    @property
    def cache(self) -> KVCache:
        """Its cache; there is one from `start` on."""
        assert self._cache is not None, "start(prompts) comes first"
        return self._cache

    @property
    def cache_lengths(self) -> tuple[int, ...] | None:
        """How many tokens the cache holds, row by row."""
        return self.cache.row_lengths

    def start(self, prompts: Sequence[Sequence[int]]) -> None:
        """Reads all prompts but their last tokens into a new cache."""
        self._cache = prefill(self.model, prompts, self.device)

    def propose(self, pending: Tensor, k: int, warp: Warp, rng: Rng) -> Draft:
        """Guesses k tokens a row, each from the law that it then reports.

        Args:
            pending: [B], the last committed tokens.
            k: how many to guess.
            warp: the target's warp, used unless the drafter has its own.
            rng: draws the tokens; the loop hands in one that draws only where a row has room.

        Returns:
            tokens [B, k] and laws [B, k, V].
        """
        warp = self.warp or warp
        token, tokens, laws = pending, [], []
        for place in range(k):
            logits = self.model(token[:, None], self.cache)[:, -1]  # [B, V]
            law = warp(logits)
            token = rng.categorical(law, positions=place)
            tokens.append(token)
            laws.append(law)
        return Draft(torch.stack(tokens, 1), torch.stack(laws, 1))

    def commit(self, round: Round) -> None:
        """Brings the cache to exactly the committed tokens but the pending one.

        Args:
            round: what came of the draft.
        """
        self.catch_up(round)
        self.cache.truncate(round.target_cache.after)

    def catch_up(self, round: Round) -> None:
        """After full acceptance, reads the last drafted token: it was guessed, but never read.

        Where nothing was drafted, that is the pending token. All rows read theirs, so that their widths
        stay equal; for the others `commit` forgets it again.
        """
        cached = self.cache.row_lengths
        if any(have < want for have, want in zip(cached, round.target_cache.after, strict=True)):
            block = torch.cat([round.pending[:, None], round.draft.tokens], dim=1)  # [B, K+1]
            self.model.hidden(block[:, -1:].to(self.device), self.cache)
