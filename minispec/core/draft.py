"""Draft: guess the next tokens, cheaply, and remember the distribution of every guess.

A drafter may be anything that proposes tokens. Losslessness never depends on how good it is, only on one
thing: the distribution that it reports for a token must be the one that it drew the token from.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from minispec.core.batch import Prompts
from minispec.core.cache import KVCache
from minispec.core.model import LanguageModel
from minispec.core.prefill import prefill, refill
from minispec.core.records import Draft, Round
from minispec.core.rng import DraftingRng, Rng, RoundPlan, RoundRng
from minispec.core.warp import Warp


class Drafter(Protocol):
    """Anything that proposes tokens.

    Attributes:
        vocab_size: V; it must be the target's.
        max_length: the most tokens that a row can hold.
    """

    vocab_size: int
    max_length: int

    @property
    def cache_lengths(self) -> tuple[int, ...] | None:
        """How many tokens its cache holds, row by row, or None if it has no cache."""

    def start(self, prompts: Prompts, hidden: Tensor) -> None:
        """Begins a run: forgets the last one, which must have ended, and reads the prompts.

        hidden: [B, n, D], the target's hidden states of all prompts but their last tokens (see `prefill`).
        """

    def admit(self, rows: Sequence[int], prompts: Prompts, hidden: Tensor) -> None:
        """Begins other prompts in these rows, whose texts have ended; hidden: [len(rows), n, D]."""

    def propose(self, pending: Tensor, k: int, warp: Warp, rng: RoundRng) -> Draft:
        """Proposes up to k tokens a row, to follow the pending tokens [B].

        Draws from `rng` are about the round's tokens number 0 … k−1. Where a row's budget ends, `rng` gives a
        token that decides nothing, and the loop cuts.
        """

    def commit(self, round: Round) -> None:
        """Learns what became of its draft, and forgets what was rejected."""


class NoDrafter:
    """Proposes nothing: the target decodes alone."""

    cache_lengths: tuple[int, ...] | None = None

    def __init__(self, target: LanguageModel) -> None:
        """Takes the sizes of the target."""
        self.vocab_size = target.vocab_size
        self.max_length = target.max_length

    def start(self, prompts: Prompts, hidden: Tensor) -> None:
        """Reads nothing; hidden: [B, n, D]."""

    def admit(self, rows: Sequence[int], prompts: Prompts, hidden: Tensor) -> None:
        """Reads nothing; hidden: [len(rows), n, D]."""

    def propose(self, pending: Tensor, k: int, warp: Warp, rng: RoundRng) -> Draft:
        """Proposes no tokens to follow the pending ones [B]."""
        return Draft.empty(len(pending), self.vocab_size, pending.device)

    def commit(self, round: Round) -> None:
        """Has nothing to learn or to forget."""


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
        self.vocab_size = model.vocab_size
        self.max_length = model.max_length
        self._cache: KVCache | None = None

    @property
    def cache(self) -> KVCache:
        """Its cache; there is one from `start` on."""
        assert self._cache is not None, "start(prompts, hidden) comes first"
        return self._cache

    @property
    def cache_lengths(self) -> tuple[int, ...] | None:
        """How many tokens the cache holds, row by row."""
        return self.cache.row_lengths

    def start(self, prompts: Prompts, hidden: Tensor) -> None:
        """Reads all prompts but their last tokens into a new cache; hidden [B, n, D] is not used."""
        self._cache, _ = prefill(self.model, prompts)

    def admit(self, rows: Sequence[int], prompts: Prompts, hidden: Tensor) -> None:
        """Reads prompts into some rows of the cache; hidden [len(rows), n, D] is not used."""
        refill(self.model, self.cache, rows, prompts)

    def propose(self, pending: Tensor, k: int, warp: Warp, rng: RoundRng) -> Draft:
        """Guesses k tokens a row after the pending ones [B], each from the distribution that it then reports.

        `warp` is the target's, used unless the drafter has one of its own.
        """

        def read(token: Tensor) -> Tensor:
            return self.model.head(self.model.hidden(token[:, None], self.cache))[:, -1]

        return draw_chain(read, pending, k, self.warp or warp, rng)

    def commit(self, round: Round) -> None:
        """Brings the cache to exactly the committed tokens but the pending one."""
        self.catch_up(round)
        self.cache.truncate(round.lengths)

    def catch_up(self, round: Round) -> None:
        """After full acceptance, reads the last drafted token: it was guessed, but never read.

        Where nothing was drafted, that is the pending token; where another has drafted, the whole block. All
        rows read theirs, so that their widths stay equal; for the others `commit` forgets it again.
        """
        if lags_behind(self.cache, round):
            rows = zip(self.cache.row_lengths, round.emitted, round.lengths, strict=True)
            # A row at the context's end holds less of the block than it has read.
            read = min(max(held + len(emitted) - length for held, emitted, length in rows), round.draft.k)
            self.model.hidden(round.block[:, read:].to(self.model.device), self.cache)


def draw_chain(read: Callable[[Tensor], Tensor], pending: Tensor, k: int, warp: Warp, rng: RoundRng) -> Draft:
    """Draws k tokens a row after the pending ones [B], one by one.

    `read` takes a token a row, [B], and returns the logits of the next, [B, V].
    """
    token = pending
    tokens = []
    dists = []
    for i in range(k):
        q = warp(read(token))  # [B, V]
        token = rng.categorical(q, i)
        tokens.append(token)
        dists.append(q)
    return Draft(torch.stack(tokens, 1), torch.stack(dists, 1))


def lags_behind(cache: KVCache, round: Round) -> bool:
    """Whether some row of a cache lacks a token that was committed in a round."""
    return any(held < needed for held, needed in zip(cache.row_lengths, round.lengths, strict=True))


def draft_within(
    drafter: Drafter, pending: Tensor, k: int, warp: Warp, rng: Rng, plan: RoundPlan, max_length: int
) -> Draft:
    """Asks for a draft no longer than the largest budget of a row, and cuts each row's at its own.

    Returns:
        tokens [B, K], their distributions [B, K, V] and lengths [B], on the device of `pending` [B]. K is at
        most k, or what a tree of that depth has.

    Raises:
        ValueError: if the drafter proposes what does not fit the round (see `check_fits`).
    """
    width = min(k, max(plan.budgets))
    if width == 0:
        return Draft.empty(len(pending), drafter.vocab_size, pending.device)
    draft = drafter.propose(pending, width, warp, DraftingRng(rng, plan))
    check_fits(draft, pending, width, drafter.vocab_size)
    if draft.k <= min(plan.budgets):
        return draft
    # Tokens come level by level.
    within_budget = (draft.depths.cpu() <= torch.tensor(plan.budgets)[:, None]).sum(-1)
    space = max_length - torch.tensor(plan.starts)  # a tree has more tokens than levels, and all must fit
    return draft.cut(torch.minimum(within_budget, space))


def check_fits(draft: Draft, pending: Tensor, k: int, vocab_size: int) -> None:
    """Refuses a draft that does not fit the round.

    Raises:
        ValueError: if it is a chain of more than k tokens or a tree that is deeper, has not a row for each of
            `pending` [B], has another vocabulary than the target, or is on another device.
    """
    longest = draft.k
    if longest > k:  # the rest may be padding, or siblings
        longest = int(draft.depths.where(draft.mask, 0).max())
    shape = *draft.probs.shape[::2], draft.probs.device
    expected = len(pending), vocab_size, pending.device
    if shape != expected or longest > k:
        describe = "{} tokens for {} rows over {} ids on {}".format
        raise ValueError(
            f"the drafter has proposed {describe(longest, *shape)}; "
            f"it was asked for at most {describe(k, *expected)}"
        )
