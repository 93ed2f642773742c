"""Verify: which prefix of the draft stays, and what comes after it.

A verifier sees a draft, the target's distributions at all of its positions and the next, and a random number
generator. It knows no model and no cache. Scoring was parallel; accepting goes left to right, because after a
rejection nothing later was proposed for the text that we now have.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from minispec.core.records import Draft, Verdict
from minispec.core.rng import Rng, RoundPlan, RoundRng

Decide = Callable[[Draft, Tensor, RoundRng], Verdict]
"""An acceptance rule: from a draft, the target's distributions [B, K+1, V] and an rng, to a verdict.

[:, i] is the target's distribution where token i was drafted, and the one after the last drafted token is
that of the bonus. In a tree [:, 0] is that after the pending token, and [:, i + 1] that after token i.
"""

Candidates = Literal["any", "independent"]
"""How the candidates for one position of a tree must have been drawn.

In any way, as long as each comes with the q that it was drawn from, given the earlier ones; or independently
of each other, all from one q.
"""


@dataclass(frozen=True)
class Verifier:
    """An acceptance rule and its known properties. Call it as `decide` is called.

    Attributes:
        name: of the rule.
        decide: accepts a prefix of a draft, or a path of a tree, and picks the next token.
        greedy: whether it needs temperature 0.
        lossless: whether what is emitted is distributed as the target.
        stops_at_first_rejection: whether it looks at nothing after a rejected token.
        takes_tree: whether a draft may be a tree.
        candidates: for which candidates of a tree it is lossless; others are refused. In a chain each token
            is the only candidate for its position, so that both are the same.
    """

    name: str
    decide: Decide
    greedy: bool = False
    lossless: bool = True
    stops_at_first_rejection: bool = True
    takes_tree: bool = False
    candidates: Candidates = "any"

    def __call__(self, draft: Draft, target_probs: Tensor, rng: Rng | RoundRng) -> Verdict:
        """Decides (see `Decide`).

        Args:
            draft: tokens [B, K], their distributions [B, K, V], lengths [B].
            target_probs: [B, K+1, V].
            rng: makes the random decisions. With a plain source all rows begin at position 0, without a cap.

        Returns:
            Accepted counts [B] and next tokens [B].

        Raises:
            ValueError: if a tree was drafted, and the rule is one for chains or not for such candidates.
        """
        if not self.accepts_candidates(draft):
            raise ValueError(
                f"the {self.name} verifier needs candidates that were drawn independently from one q, but "
                f"the q of these changes from one to the next, as in drawing without replacement; draw them "
                f"with_replacement, or use verify_tree"
            )
        if not isinstance(rng, RoundRng):
            rng = RoundRng(rng, RoundPlan.unlimited(len(target_probs), target_probs.device))
        verdict = self.decide(draft, target_probs, rng)
        if draft.parents is not None and verdict.path is None:
            raise ValueError(
                f"the {self.name} verifier verifies a chain, and a tree was drafted; use verify_tree"
            )
        return verdict

    def accepts_candidates(self, draft: Draft) -> bool:
        """Whether the candidates in a draft were drawn as `candidates` says."""
        return self.candidates == "any" or draft.has_independent_candidates


def as_verifier(verifier: Verifier | Decide) -> Verifier:
    """Returns a verifier; a plain function becomes one of which only the name is known."""
    if isinstance(verifier, Verifier):
        return verifier
    return Verifier(str(getattr(verifier, "__name__", verifier)), verifier, takes_tree=True)


def accept_greedy(draft: Draft, target_probs: Tensor, rng: RoundRng) -> Verdict:
    """Accepts while the drafted token is the target's most probable one.

    For temperature 0 only. Ties go to the lowest id. In this limit it and `accept_rejection` are the same
    (Leviathan et al. 2023, section 2.2). Neither the draft's probabilities nor `rng` are used; target_probs
    are [B, K+1, V].
    """
    best = target_probs.argmax(-1)  # [B, K+1]
    agrees = (draft.tokens == best[:, : draft.k]) & draft.mask  # [B, K]
    accepted = agrees.long().cumprod(-1).sum(-1)  # length of the leading run
    return Verdict(accepted, best.gather(1, accepted[:, None])[:, 0])


def accept_rejection(draft: Draft, target_probs: Tensor, rng: RoundRng) -> Verdict:
    """Accepts x ~ q with probability min(1, p(x)/q(x)); after a rejection, draws from the residual.

    Leviathan et al. 2023, algorithm 1; Chen et al. 2023, algorithm 2. What is emitted is distributed as if
    the target alone had drawn it: theorem 1 of the latter. At temperature 0 it emits what `accept_greedy`
    does. target_probs are [B, K+1, V].
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
        accepts = rng.bernoulli(ratio.clamp(max=1).nan_to_num(0), i, testing)
        accepted = accepted + accepts
        testing = testing & accepts & (i + 1 < lengths)
    dist = next_distribution(p, q, accepted, lengths)
    return Verdict(accepted, rng.categorical(dist, accepted))


def next_distribution(p: Tensor, q: Tensor, accepted: Tensor, lengths: Tensor) -> Tensor:
    """Returns the distribution [B, V] of the token after the accepted prefix.

    That is p itself where all was accepted, else the residual norm(max(0, p − q)); p is [B, K+1, V], q is
    [B, K, V], accepted and lengths are [B].
    """
    rows = torch.arange(len(p), device=p.device)
    p_next = p[rows, accepted]  # [B, V]
    k = q.shape[1]
    if k == 0:
        return p_next
    q_next = q[rows, accepted.clamp(max=k - 1)]
    rejected = accepted < lengths
    return torch.where(rejected[:, None], residual(p_next, q_next), p_next)


def residual(p: Tensor, q: Tensor) -> Tensor:
    """Returns norm(max(0, p − q)): [..., V], [..., V] -> [..., V].

    It is zero only where p = q. Then nothing is rejected but by rounding, and p itself is the limit.
    """
    excess = (p - q).clamp(min=0)
    mass = excess.sum(-1, keepdim=True)
    return torch.where(mass > 0, excess / mass.clamp(min=torch.finfo(p.dtype).tiny), p)


verify_greedy = Verifier("greedy", accept_greedy, greedy=True)
verify_rejection = Verifier("rejection", accept_rejection)
