"""Rules that are lossy on purpose: they accept more, and what is emitted is not distributed as the target.

Two ask no draft for its q: a token that the target finds likely enough is accepted, as often as the draft
proposes it. The other two are rejection sampling for something else than p and q. How far off each is, is
known exactly: at one position by a closed form, in whole texts by enumeration.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from minispec.core.records import Draft, Verdict
from minispec.core.rng import RoundRng
from minispec.core.verify import Verifier, accept_rejection

EPSILON = 0.09  # typical: what is more probable than this is always accepted
DELTA = 0.3  # typical: where the target is unsure, less is enough


def accept_typical(draft: Draft, target_probs: Tensor, rng: RoundRng) -> Verdict:
    """Accepts while the target's probability of a drafted token is above the threshold; then draws from p.

    Medusa's rule (Cai et al. 2024, section 2.3.1). At temperature 0 only the most probable token is likely
    enough. target_probs are [B, K+1, V].
    """
    return accept_likely(draft, target_probs, rng, lambda p: p > threshold(p)[..., None])


def threshold(p: Tensor) -> Tensor:
    """Returns min(ε, δ·e^−H), H being the entropy of p in nats: [..., V] -> [...] (Cai et al. 2024)."""
    entropy = -torch.xlogy(p, p).sum(-1)
    return (DELTA * (-entropy).exp()).clamp(max=EPSILON)


def accept_relaxed(
    draft: Draft, target_probs: Tensor, rng: RoundRng, *, most: int = 10, delta: float = 0.6
) -> Verdict:
    """Accepts while a token is among the `most` most probable, and less than delta below the first of them.

    The rule of TensorRT-LLM: p(x) ≥ max p − delta. target_probs are [B, K+1, V].
    """

    def likely(p: Tensor) -> Tensor:
        best = p.topk(min(most, p.shape[-1])).values  # descending
        return p >= torch.maximum(best[..., -1:], best[..., :1] - delta)

    return accept_likely(draft, target_probs, rng, likely)


def accept_likely(
    draft: Draft, target_probs: Tensor, rng: RoundRng, likely: Callable[[Tensor], Tensor]
) -> Verdict:
    """Accepts while tokens are likely enough; then draws from p, after a rejection as at the end.

    Where a token x ~ q is tested, the next token is distributed as p if x is not accepted, else as q
    restricted to the tokens that are.

    Args:
        draft: its probabilities are not used.
        target_probs: [B, K+1, V].
        rng: draws the last token.
        likely: which tokens are, of p [B, K, V]: [B, K, V] bool.
    """
    p = target_probs.double()
    accepts = likely(p[:, : draft.k]).gather(2, draft.tokens[..., None])[..., 0] & draft.mask  # [B, K]
    accepted = accepts.long().cumprod(-1).sum(-1)  # length of the leading run
    p_next = p[torch.arange(len(p), device=p.device), accepted]  # [B, V]
    return Verdict(accepted, rng.categorical(p_next, accepted))


def accept_mixture(draft: Draft, target_probs: Tensor, rng: RoundRng, *, weight: float = 0.5) -> Verdict:
    """Accepts with probability min(1, 1 − w + w·p/q), and corrects from norm(max(0, p − q)).

    That is rejection sampling for the mixture w·p + (1 − w)·q, which is what is emitted: at one position
    TV = (1 − w)·TV(p, q). In transformers it is `assistant_ensemble_weight`. target_probs are
    [B, K+1, V]; weight: w, 1 being lossless.
    """
    p = target_probs.double()
    q = draft.probs.double()
    mixed = torch.where(draft.mask[..., None], weight * p[:, :-1] + (1 - weight) * q, p[:, :-1])
    return accept_rejection(draft, torch.cat([mixed, p[:, -1:]], dim=1), rng)


def accept_lenient(draft: Draft, target_probs: Tensor, rng: RoundRng, *, lenience: float = 0.5) -> Verdict:
    """Accepts with probability min(1, p/(l·q)), and corrects from norm(max(0, p − l·q)).

    That is rejection sampling which takes q for smaller than it is, so that no token comes with more than p/l
    (Leviathan et al. 2023, appendix A.5). target_probs are [B, K+1, V]; lenience: l, 1 being lossless.
    """
    return accept_rejection(replace(draft, probs=lenience * draft.probs.double()), target_probs, rng)


verify_typical = Verifier("typical", accept_typical, lossless=False)
verify_relaxed = Verifier("relaxed", accept_relaxed, lossless=False)
verify_mixture = Verifier("mixture", accept_mixture, lossless=False)
verify_lenient = Verifier("lenient", accept_lenient, lossless=False)
LOSSY = (verify_typical, verify_relaxed, verify_mixture, verify_lenient)


def with_parameters(verifier: Verifier, **parameters: float) -> Verifier:
    """Returns a verifier with other parameters than its own."""
    return replace(verifier, decide=partial(verifier.decide, **parameters))
