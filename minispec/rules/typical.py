"""Typical acceptance, which is lossy on purpose: faster, and another distribution than the target's.

It asks no draft for its q. Whatever the target finds likely enough is accepted (Cai et al. 2024, Medusa,
section 2.3.1). So likely tokens come as often as the draft proposes them, not as often as the target would.
At temperature 0 only the most probable token is likely enough, and the text is the target's own.
"""

import torch
from torch import Tensor

from minispec.core.records import Draft, Verdict
from minispec.core.rng import Rng

EPSILON = 0.09  # what is more probable than this is always accepted
DELTA = 0.3  # where the target is unsure, less is enough


def verify_typical(draft: Draft, target_probs: Tensor, rng: Rng) -> Verdict:
    """Accepts while the target's probability of a drafted token is above the threshold; then draws from p.

    Lossy: where a token x ~ q is tested, p comes out with the probability that x is not accepted, else q
    restricted to what is. Arguments and result are those of `Verifier`, target_probs being [B, K+1, V];
    the draft's probabilities are not used.
    """
    p = target_probs.double()
    inside = torch.arange(draft.k, device=p.device) < draft.lengths.to(p.device)[:, None]
    said = p[:, : draft.k].gather(2, draft.tokens[..., None])[..., 0]  # [B, K]
    kept = (said > threshold(p[:, : draft.k])) & inside
    accepted = kept.long().cumprod(-1).sum(-1)  # length of the leading run
    here = p[torch.arange(len(p), device=p.device), accepted]  # [B, V], at a rejection as at the end
    return Verdict(accepted, rng.categorical(here, positions=accepted))


verify_typical.lossless = False  # type: ignore[attr-defined]


def threshold(p: Tensor) -> Tensor:
    """Returns min(ε, δ·e^−H), H being the entropy of p in nats: [..., V] -> [...] (Cai et al. 2024)."""
    entropy = -torch.xlogy(p, p).sum(-1)
    return (DELTA * (-entropy).exp()).clamp(max=EPSILON)
