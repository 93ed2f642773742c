"""Verify: which prefix of the draft stays, and what comes after it.

A rule sees a draft, the target's distributions at all of its positions and the next, and a random number
generator. It knows no model and no cache. Scoring was parallel; accepting goes left to right, because after a
rejection nothing later was proposed for the text that we now have.
"""

from typing import Protocol

import torch
from torch import Tensor

from minispec.core.records import Draft, Verdict
from minispec.core.rng import Rng


class Verifier(Protocol):
    """A rule that accepts a prefix of a draft and picks one more token.

    A rule may carry attributes. `greedy = True`: it needs temperature 0, and `speculate` refuses it
    elsewhere. `stops_at_first_rejection = False`: it looks beyond a rejected token. `lossless = False`: what
    comes out is not distributed as the target.
    """

    def __call__(self, draft: Draft, target_probs: Tensor, rng: Rng) -> Verdict:
        """Decides.

        Args:
            draft: tokens [B, K], their distributions [B, K, V], lengths [B].
            target_probs: [B, K+1, V]; [:, i] is the target's distribution where token i was drafted, and the
                one after the last drafted token is that of the bonus.
            rng: makes the random decisions.

        Returns:
            Accepted counts [B] and next tokens [B].
        """


def verify_greedy(draft: Draft, target_probs: Tensor, rng: Rng) -> Verdict:
    """Accepts while the draft says what the target would say, its most probable token.

    For temperature 0 only. Ties go to the lowest id. In this limit it and `verify_rejection` are the same
    (Leviathan et al. 2023, section 2.2). Arguments and result are those of `Verifier`, target_probs being
    [B, K+1, V]; neither the draft's probabilities nor `rng` are used.
    """
    best = target_probs.argmax(-1)  # [B, K+1]
    agrees = (draft.tokens == best[:, : draft.k]) & draft.inside  # [B, K]
    accepted = agrees.long().cumprod(-1).sum(-1)  # length of the leading run
    return Verdict(accepted, best.gather(1, accepted[:, None])[:, 0])


verify_greedy.greedy = True  # type: ignore[attr-defined]


def verify_rejection(draft: Draft, target_probs: Tensor, rng: Rng) -> Verdict:
    """Accepts x ~ q with probability min(1, p(x)/q(x)); after a rejection, draws from the mass that q lacks.

    Leviathan et al. 2023, algorithm 1; Chen et al. 2023, algorithm 2. What comes out is distributed as if the
    target alone had drawn it: theorem 1 of the latter. At temperature 0 it emits what `verify_greedy` emits.
    Arguments and result are those of `Verifier`, target_probs being [B, K+1, V].
    """
    p = target_probs.double()
    q = draft.probs.double()
    lengths = draft.lengths.to(p.device)
    accepted = torch.zeros_like(lengths)
    testing = lengths > 0  # rows that have rejected nothing so far, and have a token to test
    for i in range(draft.k):
        if not bool(testing.any()):
            break
        token = draft.tokens[:, i, None]  # [B, 1]
        ratio = p[:, i].gather(1, token)[:, 0] / q[:, i].gather(1, token)[:, 0]
        kept = rng.bernoulli(ratio.clamp(max=1).nan_to_num(0), positions=i, live=testing)
        accepted = accepted + kept
        testing = testing & kept & (i + 1 < lengths)
    dist = next_distribution(p, q, accepted, lengths)
    return Verdict(accepted, rng.categorical(dist, positions=accepted))


def next_distribution(p: Tensor, q: Tensor, accepted: Tensor, lengths: Tensor) -> Tensor:
    """Returns the distribution [B, V] of the token after the accepted prefix.

    That is p itself where all was accepted, else the residual norm(max(0, p − q)); p is [B, K+1, V], q is
    [B, K, V], accepted and lengths are [B].
    """
    each = torch.arange(p.shape[0], device=p.device)
    here = p[each, accepted]  # [B, V]
    if q.shape[1] == 0:
        return here
    rejected = accepted < lengths
    there = q[each, accepted.clamp(max=q.shape[1] - 1)]
    return torch.where(rejected[:, None], residual(here, there), here)


def residual(p: Tensor, q: Tensor) -> Tensor:
    """Returns norm(max(0, p − q)): the mass that the draft's distribution lacks.

    It is zero only where p = q; then nothing is ever rejected, but rounding may say otherwise, and p
    itself is the limit. [..., V], [..., V] -> [..., V].
    """
    lacking = (p - q).clamp(min=0)
    mass = lacking.sum(-1, keepdim=True)
    return torch.where(mass > 0, lacking / mass.clamp(min=torch.finfo(p.dtype).tiny), p)
