"""Records: what the phases hand to each other, and what everybody else reads.

They are frozen and check themselves when made.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

import torch
from torch import Tensor

Kind = Literal["correction", "bonus", "draft"]
Finish = Literal["eos", "cap", "context"]
PARENTS_ORDER = "the parents in a tree must ascend, and come before their children"
ALL_K: Final = torch.tensor(-1)  # stands for lengths that are all K
TOO_PROBABLE = 1.001  # no probability is as large, however it was rounded


@dataclass(frozen=True)
class Draft:
    """K proposed tokens a row, with the distribution that each was drawn from.

    Attributes:
        tokens: [B, K] int64.
        probs: [B, K, V]; probs[b, i] is the very distribution that tokens[b, i] was drawn from.
        lengths: [B] int64, how many of the K are proposals; after them comes padding. By default all K.
        parents: [B, K] int64, which token each one follows, in a tree of candidates: 0 is the pending token,
            i + 1 is tokens[:, i]. They ascend, so a beginning of a tree is a tree. None: a chain.

    Raises:
        ValueError: if shapes or types do not fit together, a length is not from 0 to K, the parents are those
            of no tree, or a proposed token is outside the vocabulary or has probability 0, or more than 1.
    """

    tokens: Tensor
    probs: Tensor
    lengths: Tensor = ALL_K
    parents: Tensor | None = None

    def __post_init__(self) -> None:
        if self.tokens.dim() != 2:
            raise ValueError(f"tokens must be [B, K], not {list(self.tokens.shape)}")
        if self.lengths is ALL_K:
            object.__setattr__(self, "lengths", torch.full((len(self.tokens),), self.k))
        self.check()

    def check(self) -> None:
        """Raises ValueError if parts do not fit together, or a token cannot have been drawn from its q."""
        rows, k = self.tokens.shape
        if self.probs.shape[:2] != (rows, k) or self.probs.dim() != 3:
            raise ValueError(f"probs must be [{rows}, {k}, V], not {list(self.probs.shape)}")
        if self.lengths.shape != (rows,):
            raise ValueError(f"lengths must be [{rows}], not {list(self.lengths.shape)}")
        types = self.tokens.dtype, self.lengths.dtype, self.probs.dtype
        if types[:2] != (torch.long, torch.long) or not self.probs.is_floating_point():
            raise ValueError(f"tokens and lengths must be int64, probs of a floating type, not {types}")
        lengths = self.lengths.tolist()
        if not all(0 <= length <= k for length in lengths):
            raise ValueError(f"lengths must be from 0 to K = {k}, not {lengths}")
        if self.parents is not None and self.parents.shape != (rows, k):
            raise ValueError(f"parents must be [{rows}, {k}], not {list(self.parents.shape)}")
        if self.parents is not None and self.parents.dtype != torch.long:
            raise ValueError(f"parents must be int64, not {self.parents.dtype}")
        if self.parents is not None and not are_parents(self.parents):
            raise ValueError(PARENTS_ORDER)
        if self.tokens.numel() > 0:
            check_tokens(self.tokens, self.probs, None if min(lengths) == k else self.mask)

    @property
    def k(self) -> int:
        """The width K of the block."""
        return self.tokens.shape[1]

    @property
    def mask(self) -> Tensor:
        """Which tokens are proposals: [B, K] bool; the others are padding."""
        device = self.tokens.device
        return torch.arange(self.k, device=device) < self.lengths.to(device)[:, None]

    @property
    def depths(self) -> Tensor:
        """How far after the pending token each one stands: [B, K], from 1 on."""
        if self.parents is None:
            return torch.arange(1, self.k + 1, device=self.tokens.device).expand_as(self.tokens)
        depths = torch.zeros_like(self.parents[:, :1]).repeat(1, self.k + 1)
        for i in range(self.k):
            depths[:, i + 1] = depths.gather(1, self.parents[:, i, None])[:, 0] + 1
        return depths[:, 1:]

    @property
    def has_independent_candidates(self) -> bool:
        """Whether all candidates for one position were drawn from one q, as the only one of a chain is."""
        if self.parents is None:
            return True
        siblings = (self.parents.diff(dim=1) == 0) & self.mask[:, 1:]  # [B, K-1]: they stand side by side
        same_q = (self.probs[:, 1:] == self.probs[:, :-1]).all(-1)
        return bool((same_q | ~siblings).all())

    def after(self, pending: Tensor) -> Tensor:
        """Returns what one forward reads: the pending tokens [B], each with its row's draft, [B, K+1]."""
        return torch.cat([pending[:, None], self.tokens], dim=1)

    def cut(self, most: Tensor) -> Draft:
        """Returns at most so many tokens a row [B]; a beginning of a tree is a tree. Padding becomes id 0."""
        lengths = torch.minimum(self.lengths.cpu(), most)
        k = int(lengths.max())
        mask = (torch.arange(k) < lengths[:, None]).to(self.tokens.device)
        parents = None if self.parents is None else self.parents[:, :k]
        return Draft(self.tokens[:, :k] * mask, self.probs[:, :k], lengths, parents)

    @staticmethod
    @lru_cache(maxsize=32)  # for the target alone it is needed in every round
    def empty(rows: int, vocab_size: int, device: torch.device | str = "cpu") -> Draft:
        """Returns a draft of nothing: [rows, 0]."""
        tokens = torch.zeros(rows, 0, dtype=torch.long, device=device)
        return Draft(tokens, torch.zeros(rows, 0, vocab_size, device=device))


def check_tokens(tokens: Tensor, probs: Tensor, mask: Tensor | None) -> None:
    """Raises ValueError if a token [B, K] is outside the vocabulary, or its q [B, K, V] cannot have given it.

    What is not in the mask [B, K], padding, may be anything; None: there is no padding.
    """
    if mask is not None:
        tokens = tokens.where(mask, 0)
    lowest, highest = tokens.aminmax()
    if lowest < 0 or highest >= probs.shape[2]:
        raise ValueError(f"a drafted token is outside the vocabulary, 0 to {probs.shape[2] - 1}")
    token_probs = probs.gather(2, tokens[..., None])[..., 0]  # [B, K], q of each token
    if mask is not None:
        token_probs = token_probs.where(mask, 1)
    smallest, largest = token_probs.aminmax()
    if not bool((smallest > 0) & (largest < TOO_PROBABLE)):  # NaN is not, either
        row, i = (~((token_probs > 0) & (token_probs < TOO_PROBABLE))).nonzero()[0].tolist()
        raise ValueError(
            f"row {row}: drafted token {i} has probability {float(token_probs[row, i]):g} in the "
            f"distribution that it should have been drawn from"
        )


def are_parents(parents: Tensor) -> bool:
    """Whether these are the parents of a tree whose tokens come level by level: [B, K]."""
    come_before = parents <= torch.arange(parents.shape[1], device=parents.device)
    return bool(come_before.all() and (parents >= 0).all() and (parents.diff(dim=1) >= 0).all())


@dataclass(frozen=True)
class Verdict:
    """What a verifier decides.

    Attributes:
        accepted: [B] int64, how many drafted tokens each row keeps.
        token: [B] int64, the token that follows them: a correction, or a bonus when all were kept.
        path: [B, K] bool, which of the drafted tokens these are, in a tree. None: the first ones.
    """

    accepted: Tensor
    token: Tensor
    path: Tensor | None = None

    def __post_init__(self) -> None:
        if self.accepted.shape != self.token.shape or self.token.dim() != 1:
            raise ValueError(
                f"accepted and token must both be [B], not {list(self.accepted.shape)} and "
                f"{list(self.token.shape)}"
            )

    @property
    def last(self) -> Tensor:
        """The last token that each row keeps: 0 for the pending one, i + 1 for token i; [B]."""
        if self.path is None:
            return self.accepted
        return torch.tensor([max([-1, *row]) + 1 for row in self.kept()], device=self.path.device)

    def kept(self) -> list[list[int]]:
        """Which drafted tokens each row keeps, in their order."""
        if self.path is None:
            return [list(range(accepted)) for accepted in self.accepted.tolist()]
        return [[i for i, accepted in enumerate(row) if accepted] for row in self.path.tolist()]


@dataclass(frozen=True)
class Round:
    """One draft, verify, commit, rollback.

    Attributes:
        index: counted from 0.
        prompt_ids: for each row which of the prompts it decodes.
        pending: [B] int64, the last committed token of each row, read in this round.
        draft: what the drafter proposed.
        target_hidden: [B, K+1, D], the target's hidden states at the pending and the drafted tokens.
        target_logits: [B, K+1, V], what its head makes of them.
        target_probs: [B, K+1, V], its warped distributions at the drafted positions and the next.
        verdict: what the verifier decided.
        stops_at_first_rejection: whether the verifier looks at nothing after a rejection.
        live: for each row whether it took part in the round.
        emitted: for each row the tokens that were committed; empty for a row that was done.
        finish: for each row why it ended, or None while it is not done.
        lengths: for each row how many tokens each cache holds after the round: all but the pending one.
    """

    index: int
    prompt_ids: tuple[int, ...]
    pending: Tensor
    draft: Draft
    target_hidden: Tensor
    target_logits: Tensor
    target_probs: Tensor
    verdict: Verdict
    stops_at_first_rejection: bool
    live: tuple[bool, ...]
    emitted: tuple[tuple[int, ...], ...]
    finish: tuple[Finish | None, ...]
    lengths: tuple[int, ...]

    @property
    def block(self) -> Tensor:
        """What the target has read: the pending and the drafted tokens, [B, K+1]."""
        return self.draft.after(self.pending)

    def drafted(self, row: int) -> int:
        """How many tokens were proposed for a row."""
        return int(self.draft.lengths[row])

    def accepted(self, row: int) -> int:
        """How many of them the verifier kept."""
        return int(self.verdict.accepted[row])

    def rejected(self, row: int) -> list[int]:
        """Which drafted tokens stood where the target's own token came: in a chain one at most."""
        last = int(self.verdict.last[row])
        drafted = self.drafted(row)
        if self.draft.parents is None:
            return list(range(last, drafted))[:1]
        return [i for i, parent in enumerate(self.draft.parents[row, :drafted].tolist()) if parent == last]

    def tested(self, row: int) -> int | None:
        """How many it looked at: those kept, and the one that was rejected.

        None for a verifier that goes on after a rejection: there only accepted / drafted has a meaning.
        """
        if not self.stops_at_first_rejection:
            return None
        return min(self.accepted(row) + 1, self.drafted(row)) if self.live[row] else 0

    def kind(self, row: int) -> Kind:
        """What the row's last token of this round is: a correction, a bonus, or an accepted draft.

        The last happens where end-of-sequence or a limit cut the block inside the accepted draft.
        """
        if len(self.emitted[row]) <= self.accepted(row):
            return "draft"
        return "correction" if self.rejected(row) else "bonus"
