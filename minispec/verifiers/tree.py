"""Trees of candidates: several tokens are proposed for one position, and one path is kept.

From the pending token on, the candidates that follow the last kept token are tested one after another. One
that is accepted is kept, and its own candidates come next. Each rejection replaces p by its residual; at the
end a token is drawn from the last one.

One rule serves all ways to choose candidates, for each is tested against the distribution that it was drawn
from, given those before it. Drawn from one q again and again: recursive rejection (Miao et al. 2024,
SpecInfer, section 4.3). Drawn without replacement, q then lacks the earlier candidates (Jeon et al. 2024).
Fixed in advance: q has all its mass on the candidate, which is accepted with the probability that is left on
it, and else struck out (Li et al. 2024, EAGLE-2). A chain is the tree with one candidate at each position.

Recursive rejection tests each candidate against the residual of the earlier rejections. K-sequential
selection is for candidates that were drawn from one q, and tests all of them alike (Sun et al. 2023, SpecTr).
"""

from collections.abc import Callable

import torch
from torch import Tensor

from minispec.core.records import Draft, Verdict
from minispec.core.rng import RoundRng
from minispec.core.verify import Verifier, residual

HALVINGS = 60  # of an interval of some units: float64 has no more digits


def accept_tree(draft: Draft, target_probs: Tensor, rng: RoundRng) -> Verdict:
    """Accepts a path by recursive rejection; what is emitted is distributed as the target.

    Args:
        draft: tokens [B, K] of a tree, each with the distribution [B, K, V] that it was drawn from, given its
            ancestors and its earlier siblings.
        target_probs: [B, K+1, V]; [:, 0] is the target's distribution after the pending token, [:, i + 1]
            after token i.
        rng: decides about each candidate that is tested, and draws the token after the path.
    """
    q = draft.probs.double()
    return accept_path(draft, target_probs, rng, lambda i, remaining: (remaining, q[:, i]))


def accept_path(
    draft: Draft,
    target_probs: Tensor,
    rng: RoundRng,
    tested: Callable[[int, Tensor], tuple[Tensor, Tensor]],
) -> Verdict:
    """Accepts a path of candidates, each with probability min(1, p/q).

    Args:
        draft: tokens [B, K] of a tree.
        target_probs: [B, K+1, V].
        rng: decides about each candidate that is tested, and draws the token after the path.
        tested: from token i and what is left of p [B, V] to the p and q [B, V] that it is tested with.
    """
    target = target_probs.double()
    remaining = target[:, 0]  # [B, V], what the token after the path is drawn from

    def accepts(i: int, testing: Tensor, depth: Tensor) -> Tensor:
        nonlocal remaining
        p, q = tested(i, remaining)
        token = draft.tokens[:, i, None]
        ratio = p.gather(1, token)[:, 0] / q.gather(1, token)[:, 0]
        accepted_now = rng.bernoulli(ratio.clamp(max=1).nan_to_num(0), depth, testing)
        rejected = testing & ~accepted_now
        remaining = torch.where(rejected[:, None], residual(p, q), remaining)
        remaining = torch.where(accepted_now[:, None], target[:, i + 1], remaining)
        return accepted_now

    path = walk(draft, accepts)
    accepted = path.sum(-1)
    return Verdict(accepted, rng.categorical(remaining, accepted), path)


def accept_tree_greedy(draft: Draft, target_probs: Tensor, rng: RoundRng) -> Verdict:
    """Follows the candidates that the target would choose, for temperature 0; ties go to the lowest id.

    Arguments are those of `accept_tree`, target_probs being [B, K+1, V]; neither q nor `rng` is used.
    """
    best = target_probs.argmax(-1)  # [B, K+1]
    best_token = best[:, 0]

    def accepts(i: int, testing: Tensor, depth: Tensor) -> Tensor:
        nonlocal best_token
        accepted_now = testing & (draft.tokens[:, i] == best_token)
        best_token = torch.where(accepted_now, best[:, i + 1], best_token)
        return accepted_now

    path = walk(draft, accepts)
    return Verdict(path.sum(-1), best_token, path)


def accept_k_sequential(draft: Draft, target_probs: Tensor, rng: RoundRng) -> Verdict:
    """Accepts each candidate with probability min(1, p/(γ·q)), until one is kept (Sun et al. 2023).

    Lossless only for candidates that were drawn independently from one q, as by `with_replacement`;
    `verify_k_sequential` refuses others. Then it accepts at least 1 − 1/e of what the best rule for them
    would. Arguments and result are those of `accept_tree`, target_probs being [B, K+1, V]; a chain has one
    candidate at each position, and γ = 1.
    """
    p = target_probs.double()
    q = draft.probs.double()
    parents = parents_of(draft)
    mask = draft.mask
    rows = torch.arange(len(p), device=p.device)

    def tested(i: int, remaining: Tensor) -> tuple[Tensor, Tensor]:
        p_parent = p[rows, parents[:, i]]
        candidates = ((parents == parents[:, i, None]) & mask).sum(-1)
        return p_parent, scale(p_parent, q[:, i], candidates)[:, None] * q[:, i]  # γ·q

    return accept_path(draft, target_probs, rng, tested)


verify_tree = Verifier("rejection", accept_tree, stops_at_first_rejection=False, takes_tree=True)
verify_tree_greedy = Verifier(
    "greedy", accept_tree_greedy, greedy=True, stops_at_first_rejection=False, takes_tree=True
)
verify_k_sequential = Verifier(
    "k-sequential",
    accept_k_sequential,
    stops_at_first_rejection=False,
    takes_tree=True,
    candidates="independent",
)


def walk(draft: Draft, accepts: Callable[[int, Tensor, Tensor], Tensor]) -> Tensor:
    """Goes through a tree from the pending token on; parents come before their children.

    Args:
        draft: K tokens a row and their parents; without parents a chain.
        accepts: from token i, the rows [B] that test it and how many each has kept, to which keep it: [B].

    Returns:
        The path that each row keeps: [B, K] bool.
    """
    parents = parents_of(draft)
    mask = draft.mask
    last_accepted = torch.zeros_like(mask.sum(-1))  # the last kept: 0 is the pending token
    path = torch.zeros_like(mask)
    for i in range(draft.k):
        testing = (parents[:, i] == last_accepted) & mask[:, i]
        if bool(testing.any()):
            path[:, i] = accepts(i, testing, path.sum(-1))
            last_accepted = torch.where(path[:, i], i + 1, last_accepted)
    return path


def parents_of(draft: Draft) -> Tensor:
    """Returns which token each one follows, as in a `Draft`; in a chain the one before: [B, K]."""
    if draft.parents is not None:
        return draft.parents
    return torch.arange(draft.k, device=draft.tokens.device).expand_as(draft.tokens)


def scale(p: Tensor, q: Tensor, candidates: Tensor) -> Tensor:
    """Returns the γ at which k candidates are accepted as often as their residual allows, by bisection.

    One is accepted with probability b = Σ min(q, p/γ), any of k with 1 − (1 − b)^k. Token x is then emitted
    by them with probability min(γ·q, p) if that sum is γ·b; and norm([p − γ·q]+) is what is missing to p. The
    former falls as γ grows, and the latter rises; they meet between 1 and k.

    Args:
        p: the target's distributions [B, V].
        q: the draft's [B, V].
        candidates: k [B].

    Returns:
        γ [B].
    """
    low = torch.ones_like(p[:, 0])
    high = candidates.to(p).clamp(min=1)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        b = torch.minimum(q, p / middle[:, None]).sum(-1)
        too_small = 1 - (1 - b) ** candidates > middle * b
        low = torch.where(too_small, middle, low)
        high = torch.where(too_small, high, middle)
    return high
