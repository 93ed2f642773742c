"""Verify: which prefix of the draft stays, and what comes after it.

A rule sees a draft, the target's distributions at all of its positions and one behind, and the door to
chance. It knows no model and no cache. Scoring was parallel; accepting goes left to right, because after a
rejection nothing later was proposed for the text that we now have.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from minispec.decoding.records import Draft, Verdict
from minispec.decoding.rng import Rng
from minispec.decoding.warp import lowest_argmax


class Verifier(Protocol):
    """A rule that accepts a prefix of a draft and picks one more token."""

    def __call__(self, draft: Draft, target_probs: Tensor, rng: Rng) -> Verdict:
        """Decides.

        Args:
            draft: tokens [B, K], their laws [B, K, V], lengths [B].
            target_probs: [B, K+1, V]; row i is the target's law where token i was drafted, and the row
                behind the last drafted token is the law of the bonus.
            rng: the door to chance.

        Returns:
            Accepted counts [B] and next tokens [B].
        """


def verify_greedy(draft: Draft, target_probs: Tensor, rng: Rng) -> Verdict:
    """Accepts while the draft says what the target would say, its most probable token.

    Only for temperature 0; `speculate` refuses it elsewhere. Ties go to the lowest id. Leviathan et al. 2023,
    section 2.2, is the limit in which this and `verify_rejection` are the same.

    Args:
        draft: as in `Verifier`; its probabilities are not read.
        target_probs: [B, K+1, V].
        rng: not used.

    Returns:
        As in `Verifier`.
    """
    best = lowest_argmax(target_probs)  # [B, K+1]
    inside = torch.arange(draft.k, device=best.device) < draft.lengths.to(best.device)[:, None]
    agrees = (draft.tokens == best[:, : draft.k]) & inside  # [B, K]
    accepted = agrees.long().cumprod(-1).sum(-1)  # length of the leading run
    return Verdict(accepted, best.gather(1, accepted[:, None])[:, 0])


def verify_rejection(draft: Draft, target_probs: Tensor, rng: Rng) -> Verdict:
    """Accepts x ~ q with chance min(1, p(x)/q(x)); after a rejection, draws from what q was short of.

    Leviathan et al. 2023, algorithm 1; Chen et al. 2023, algorithm 2. What comes out is distributed as if the
    target alone had drawn it: theorem 1 of the latter. At temperature 0 it emits what `verify_greedy` emits.

    Args:
        draft: as in `Verifier`.
        target_probs: [B, K+1, V].
        rng: decides each test, and draws the correction or the bonus.

    Returns:
        As in `Verifier`.
    """
    p = target_probs.double()
    q = draft.probs.double()
    rows, lengths = p.shape[0], draft.lengths.to(p.device)
    accepted = torch.zeros(rows, dtype=torch.long, device=p.device)
    testing = lengths > 0  # rows that have rejected nothing so far, and have a token to test
    for i in range(draft.k):
        if not bool(testing.any()):
            break
        token = draft.tokens[:, i, None]  # [B, 1]
        ratio = p[:, i].gather(1, token)[:, 0] / q[:, i].gather(1, token)[:, 0]
        kept = rng.bernoulli(ratio.clamp(max=1).nan_to_num(0), positions=i, live=testing)
        accepted = accepted + kept
        testing = testing & kept & (i + 1 < lengths)
    law = next_law(p, q, accepted, lengths)
    return Verdict(accepted, rng.categorical(law, positions=accepted))


def verify_coupled(draft: Draft, target_probs: Tensor, rng: Rng) -> Verdict:
    """Picks the target's own token at every place, and accepts while the draft has said the same.

    What comes out is always the target's own pick, so it is lossless with any source of chance. With a
    `KeyedRng` draft and target pick by the same noise: then the output is target-only's token for token,
    whatever the draft, and they agree with chance at least (1 − TV)/(1 + TV) (Daliri, Musco, Suresh 2024).
    With independent chance they agree less often, with chance Σ p·q.

    Args:
        draft: as in `Verifier`.
        target_probs: [B, K+1, V].
        rng: picks the target's tokens.

    Returns:
        As in `Verifier`.
    """
    p = target_probs.double()
    lengths = draft.lengths.to(p.device)
    accepted = torch.zeros(p.shape[0], dtype=torch.long, device=p.device)
    token = torch.zeros_like(accepted)
    going = torch.ones_like(accepted, dtype=torch.bool)  # rows in which all so far were alike
    for i in range(draft.k + 1):
        if not bool(going.any()):
            break
        token = torch.where(going, rng.categorical(p[:, i], positions=i, live=going), token)
        if i < draft.k:
            going = going & (i < lengths) & (token == draft.tokens[:, i])
            accepted = accepted + going
        else:
            going = torch.zeros_like(going)
    return Verdict(accepted, token)


def next_law(p: Tensor, q: Tensor, accepted: Tensor, lengths: Tensor) -> Tensor:
    """Returns the law of the token behind the accepted prefix.

    Args:
        p: [B, K+1, V].
        q: [B, K, V].
        accepted: [B].
        lengths: [B].

    Returns:
        [B, V]: p itself where all was accepted, else the residual norm(max(0, p − q)).
    """
    each = torch.arange(p.shape[0], device=p.device)
    here = p[each, accepted]  # [B, V]
    if q.shape[1] == 0:
        return here
    rejected = accepted < lengths
    there = q[each, accepted.clamp(max=q.shape[1] - 1)]
    return torch.where(rejected[:, None], residual(here, there), here)


def residual(p: Tensor, q: Tensor) -> Tensor:
    """Returns norm(max(0, p − q)): what the draft law was short of.

    It is zero only where p = q; then nothing is ever rejected, but rounding may say otherwise, and p
    itself is the limit.

    Args:
        p: [..., V].
        q: [..., V].
    """
    short = (p - q).clamp(min=0)
    mass = short.sum(-1, keepdim=True)
    return torch.where(mass > 0, short / mass.clamp(min=torch.finfo(p.dtype).tiny), p)
