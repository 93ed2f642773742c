"""Two ways to accept, on the same text: rejection sampling, and shared noise.

Rejection sampling accepts with the chance Σ min(p, q), the most that any rule can which keeps the target's
law (Leviathan et al. 2023, corollary 3.6). The coupled rule gives some of it up, so that the text of a seed
no longer depends on the draft. Both chances are known exactly at each position: nothing is sampled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from minispec.core.loop import generate
from minispec.core.model import LanguageModel
from minispec.core.warp import Warp
from minispec.rules.coupled import KeyedRng


@dataclass(frozen=True)
class Coupling:
    """What each rule would accept at the positions of one text.

    Attributes:
        positions: how many tokens of target-only text were looked at.
        rejection: mean chance that rejection sampling accepts a drafted token.
        coupled: mean chance that draft and target pick the same token from the same noise.
        bound: mean of (1 − TV) / (1 + TV), which the second cannot be below (Daliri et al. 2024, theorem 1).
    """

    positions: int
    rejection: float
    coupled: float
    bound: float


def coupled_acceptance(p: Tensor, q: Tensor) -> Tensor:
    """Returns the chance that p and q pick the same token from the same Gumbel noise.

    Both pick token i exactly if no exponential clock of rate max(p_j / p_i, q_j / q_i) rings before
    that of i, so the chance is the sum over i of 1 / Σ_j max(p_j / p_i, q_j / q_i).

    Args:
        p: [..., V], probabilities.
        q: the same shape.

    Returns:
        [...], in float64.
    """
    p, q = p.double(), q.double()
    both = (p > 0) & (q > 0)  # [..., V]: no other token can be picked by both
    # 1 / Σ_j max(p_j / p_i, q_j / q_i), multiplied through by p_i q_i so that nothing is divided by 0.
    rates = torch.maximum(p[..., None, :] * q[..., :, None], q[..., None, :] * p[..., :, None]).sum(-1)
    return torch.where(both, p * q / rates.clamp_min(1e-300), 0.0).sum(-1)


@torch.inference_mode()
def compare_acceptance(
    target: LanguageModel,
    draft: LanguageModel,
    prompts: Sequence[Sequence[int]],
    max_new_tokens: int = 60,
    warp: Warp | None = None,
    seed: int = 0,
) -> Coupling:
    """Lets both rules judge the same target-only text.

    Args:
        target: decodes the text.
        draft: its law q is compared with the target's at every position.
        prompts: token ids, one sequence per text.
        max_new_tokens: per text.
        warp: of both models; by default temperature 1.
        seed: of the text.

    Returns:
        Means over all positions of all texts.
    """
    warp = warp or Warp()
    chances: list[Tensor] = []  # each [3, n]
    for prompt in prompts:
        steps = generate(target, [prompt], max_new_tokens=max_new_tokens, warp=warp, rng=KeyedRng(seed))
        text = [*prompt, *(token for (token,) in steps if token is not None)]
        rows = torch.tensor([text[:-1]])
        p, q = (warp(model(rows))[0, len(prompt) - 1 :].double() for model in (target, draft))  # [n, V]
        overlap = torch.minimum(p, q).sum(-1)
        chances.append(torch.stack([overlap, coupled_acceptance(p, q), overlap / (2 - overlap)]))
    means = torch.cat(chances, dim=1)
    rejection, coupled, bound = means.mean(1).tolist()
    return Coupling(means.shape[1], rejection, coupled, bound)
