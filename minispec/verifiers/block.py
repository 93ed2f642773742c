"""Block verification: drafted tokens are judged together, and on average no rule of its kind keeps more.

Rejection sampling throws a token away at once where the target finds it too unlikely. But what comes after it
may be likelier for the target than for the draft. Block verification counts with the probability ratio of the
whole beginning, and keeps the longest beginning that one of its coins accepts (Sun et al. 2024).
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from minispec.core.records import Draft, Verdict
from minispec.core.rng import RoundRng
from minispec.core.verify import Verifier, residual


def accept_block(draft: Draft, target_probs: Tensor, rng: RoundRng) -> Verdict:
    """Keeps the longest beginning that a coin accepts; what is emitted is distributed as the target.

    With w_0 = 1, w_i = min(1, w_{i−1}·p_i(x_i)/q_i(x_i)) and S_i = Σ [w_i·p_{i+1} − q_{i+1}]+ the coin after
    token i accepts with probability S_i / (S_i + 1 − w_i), and with w_K after the last one. If i is the last
    to accept, the next token comes from norm([w_i·p_{i+1} − q_{i+1}]+). Sun et al. 2024, algorithm 2; it
    accepts the most tokens, in expectation, among lossless rules that keep a beginning of one chain, add one
    token and leave the rest to p (theorem 2; Thomas and Pal 2026). target_probs are [B, K+1, V].
    """
    p = target_probs.double()
    mask = draft.mask
    # Where a draft has ended, q is 0: so S_i = w_i, the coin's probability is w_i, and the residual p.
    q = F.pad(draft.probs.double() * mask[..., None], (0, 0, 0, 1))  # [B, K+1, V]
    accepted = torch.zeros_like(mask.sum(-1))
    w = accepted_w = torch.ones_like(p[:, 0, 0])  # [B], after token i; after the last accepted one
    for i in range(draft.k):
        token = draft.tokens[:, i, None]
        w = (w * p[:, i].gather(1, token)[:, 0] / q[:, i].gather(1, token)[:, 0]).nan_to_num(0).clamp(max=1)
        s = (w[:, None] * p[:, i + 1] - q[:, i + 1]).clamp(min=0).sum(-1)
        probability = (s / (s + (1 - w))).nan_to_num(0)  # S + 1 − w would round a small S away
        accepts = rng.bernoulli(probability, i, mask[:, i])
        accepted = torch.where(accepts, i + 1, accepted)
        accepted_w = torch.where(accepts, w, accepted_w)
    rows = torch.arange(len(p), device=p.device)
    dist = residual(accepted_w[:, None] * p[rows, accepted], q[rows, accepted])
    return Verdict(accepted, rng.categorical(dist, accepted))


verify_block = Verifier("block", accept_block, stops_at_first_rejection=False)
