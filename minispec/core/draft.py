"""Draft: guess the next tokens, cheaply, and remember the distribution of every guess.

A drafter may be anything that proposes tokens. Losslessness never depends on how good it is, only on one
thing: the distribution that it reports for a token must be the one that it drew the token from.
"""

from collections.abc import Sequence
from inspect import unwrap
from typing import Protocol

import torch
from torch import Tensor

from minispec.core.cache import KVCache
from minispec.core.model import LanguageModel, Tree
from minispec.core.prefill import Prompts, device_of, prefill, refill
from minispec.core.records import Draft, Round
from minispec.core.rng import BlockRng, Rng
from minispec.core.warp import Warp


class Drafter(Protocol):
    """Anything that proposes tokens.

    It may also have `vocab_size` and `max_length`, which `speculate` compares with the target's. If it has
    `wants_hidden = True`, then `start` gets the target's hidden states of the prompts as a second argument,
    [B, n, D] (None where all prompts have one token), and each round carries its `target_hidden`. Where
    prompts wait for rows, `start` is called again for those that begin: `start(prompts, …, rows=[0, 3])`.
    """

    @property
    def cache_lengths(self) -> tuple[int, ...] | None:
        """How many tokens its cache holds, row by row, or None if it has no cache."""

    def start(self, prompts: Sequence[Sequence[int]]) -> None:
        """Begins a run: forgets the last one, which must have ended, and reads the prompts."""

    def propose(self, pending: Tensor, k: int, warp: Warp, rng: Rng) -> Draft:
        """Proposes up to k tokens a row, to follow the pending tokens [B].

        Draws from `rng` name positions 0 … k−1. Where a row's budget ends, `rng` gives a token that decides
        nothing, and the loop cuts.
        """

    def commit(self, round: Round) -> None:
        """Learns what came of its draft, and forgets what was rejected."""


class CachedDrafter:
    """What all drafters with a cache of their own have."""

    _cache: KVCache | None = None

    @property
    def cache(self) -> KVCache:
        """Its cache; there is one from `start` on."""
        assert self._cache is not None, "start(prompts) comes first"
        return self._cache

    @property
    def cache_lengths(self) -> tuple[int, ...] | None:
        """How many tokens the cache holds, row by row."""
        return self.cache.row_lengths


class ModelDrafter(CachedDrafter):
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
        self.vocab_size = model.vocab_size
        self.max_length = model.max_length

    def start(self, prompts: Prompts, rows: Sequence[int] | None = None) -> None:
        """Reads all prompts but their last tokens, into a new cache or into some rows of the one it has."""
        if rows is None:
            self._cache = prefill(self.model, prompts)
        else:
            refill(self.model, self.cache, rows, prompts)

    def propose(self, pending: Tensor, k: int, warp: Warp, rng: Rng) -> Draft:
        """Guesses k tokens a row after the pending ones [B], each from the distribution that it then reports.

        Args:
            pending: the last committed tokens.
            k: how many to guess.
            warp: the target's warp, used unless the drafter has its own.
            rng: draws the tokens; the loop hands in one that draws only where a row has budget left.
        """
        warp = self.warp or warp
        token = pending
        tokens = []
        dists = []
        for position in range(k):
            logits = self.model(token[:, None], self.cache)[:, -1]  # [B, V]
            q = warp(logits)
            token = rng.categorical(q, positions=position)
            tokens.append(token)
            dists.append(q)
        return Draft(torch.stack(tokens, 1), torch.stack(dists, 1))

    def commit(self, round: Round) -> None:
        """Brings the cache to exactly the committed tokens but the pending one."""
        self.catch_up(round)
        self.cache.truncate(round.lengths)

    def catch_up(self, round: Round) -> None:
        """After full acceptance, reads the last drafted token: it was guessed, but never read.

        Where nothing was drafted, that is the pending token. All rows read theirs, so that their widths
        stay equal; for the others `commit` forgets it again.
        """
        cached = self.cache.row_lengths
        if any(have < want for have, want in zip(cached, round.lengths, strict=True)):
            last = round.draft.after(round.pending)[:, -1:]
            self.model.hidden(last.to(self.device), self.cache)


def draft_within(
    drafter: Drafter | None, pending: Tensor, k: int, warp: Warp, rng: BlockRng, target: LanguageModel
) -> Draft:
    """Asks for a draft no longer than the largest budget of a row, and cuts each row's at its own.

    Returns:
        tokens [B, K], their distributions [B, K, V] and lengths [B], on the device of `pending` [B]. K is at
        most k, or what a tree of that depth has; it is 0 where there is no drafter.

    Raises:
        ValueError: if the drafter proposes what does not fit the round (see `check_fits`).
    """
    width = min(k, max(rng.budgets))
    if drafter is None or width <= 0:
        return Draft.empty(len(pending), target.vocab_size, pending.device)
    draft = drafter.propose(pending, width, warp, rng)
    check_fits(draft, drafter, pending, width, target.vocab_size)
    if draft.k <= min(rng.budgets):
        return draft
    lengths = torch.minimum(draft.lengths.cpu(), most_tokens(draft, rng, target.max_length))
    n = int(lengths.max())
    inside = (torch.arange(n) < lengths[:, None]).to(pending.device)
    parents = None if draft.parents is None else draft.parents[:, :n]
    return Draft(draft.tokens[:, :n] * inside, draft.probs[:, :n], lengths, parents)


def most_tokens(draft: Draft, rng: BlockRng, context: int) -> Tensor:
    """Returns how many tokens of a draft a row has budget and space for: [B]; a tree's count by depth."""
    budgets = torch.tensor(rng.budgets)
    if draft.parents is None:
        return budgets
    usable = (depths(draft.parents.cpu()) <= budgets[:, None]).sum(-1)
    return torch.minimum(usable, context - torch.tensor(rng.starts))


def depths(parents: Tensor) -> Tensor:
    """Returns how deep each token of a tree stands: [B, K], from 1 on."""
    return Tree.after(parents.new_zeros(len(parents)), parents).positions[:, 1:]


def check_fits(draft: Draft, drafter: Drafter, pending: Tensor, k: int, vocab_size: int) -> None:
    """Refuses a draft, by the name of what proposed it, that does not fit the round.

    Raises:
        ValueError: if it is a chain of more than k tokens or a tree that is deeper, has not a row for each of
            `pending` [B], has another vocabulary than the target, or is on another device.
    """
    deepest = draft.k
    if draft.parents is not None and deepest:
        deepest = int(depths(draft.parents).where(draft.inside, 0).max())
    elif deepest > k:
        deepest = max(draft.lengths.tolist())  # the rest is padding
    given = *draft.probs.shape[::2], draft.probs.device
    wanted = len(pending), vocab_size, pending.device
    if given != wanted or deepest > k:
        words = "{} tokens for {} rows over {} ids on {}".format
        drafted = words(deepest, *given)
        raise ValueError(
            f"{name_of(drafter)} has drafted {drafted}; it was asked for at most {words(k, *wanted)}"
        )


def name_of(drafter: Drafter) -> str:
    """Returns the name of a drafter's class; of one that wraps another, as `observe` does, of that one."""
    return type(unwrap(drafter)).__name__  # type: ignore[arg-type]
