"""K-sequential selection: candidates of one position, drawn from one q, are all tested in the same way.

Recursive rejection tests each candidate against what the ones before have left over. Here none changes the
test of the next: only how many there are matters (Sun et al. 2023, SpecTr).
"""

import torch
from torch import Tensor

from minispec.core.records import Draft, Verdict
from minispec.core.rng import Rng
from minispec.core.verify import residual
from minispec.rules.tree import parents_of, walk

HALVINGS = 60  # of an interval of some units: float64 has no more digits


def verify_k_sequential(draft: Draft, target_probs: Tensor, rng: Rng) -> Verdict:
    """Accepts each candidate with probability min(1, p/(γ·q)), until one is kept (Sun et al. 2023).

    Lossless only for candidates that were drawn independently from one q, as by `with_replacement`. Then it
    accepts at least 1 − 1/e of what the best rule for them would. Arguments and result are those of
    `verify_tree`, target_probs being [B, K+1, V]; a chain has one candidate at each position, and γ = 1.
    """
    p, q = target_probs.double(), draft.probs.double()
    parents, left = parents_of(draft), p[:, 0]
    each = torch.arange(len(p), device=p.device)
    inside = torch.arange(draft.k, device=p.device) < draft.lengths.to(p.device)[:, None]

    def accepts(i: int, testing: Tensor, depth: Tensor) -> Tensor:
        nonlocal left
        here, token = p[each, parents[:, i]], draft.tokens[:, i, None]
        candidates = ((parents == parents[:, i, None]) & inside).sum(-1)
        scaled = scale(here, q[:, i], candidates)[:, None] * q[:, i]  # [B, V], γ·q
        ratio = here.gather(1, token)[:, 0] / scaled.gather(1, token)[:, 0]
        kept = rng.bernoulli(ratio.clamp(max=1).nan_to_num(0), positions=depth, live=testing)
        left = torch.where((testing & ~kept)[:, None], residual(here, scaled), left)
        left = torch.where(kept[:, None], p[:, i + 1], left)
        return kept

    path = walk(draft, accepts)
    accepted = path.sum(-1)
    return Verdict(accepted, rng.categorical(left, positions=accepted), path)


verify_k_sequential.stops_at_first_rejection = False  # type: ignore[attr-defined]


def scale(p: Tensor, q: Tensor, candidates: Tensor) -> Tensor:
    """Returns the γ at which k candidates are accepted as often as their residual allows, by bisection.

    One is accepted with probability b = Σ min(q, p/γ), any of k with 1 − (1 − b)^k. Token x then comes out of
    them with probability min(γ·q, p) if that sum is γ·b; and norm([p − γ·q]+) has all that p lacks. The
    former falls as γ grows, and the latter rises; they meet between 1 and k.

    Args:
        p: the target's distributions [B, V].
        q: the draft's [B, V].
        candidates: k [B].

    Returns:
        γ [B].
    """
    low, high = torch.ones_like(p[:, 0]), candidates.to(p).clamp(min=1)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        b = torch.minimum(q, p / middle[:, None]).sum(-1)
        too_small = 1 - (1 - b) ** candidates > middle * b
        low, high = torch.where(too_small, middle, low), torch.where(too_small, high, middle)
    return high
