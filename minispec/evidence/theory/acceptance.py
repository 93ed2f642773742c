"""Acceptance probabilities: how likely each token of a text would have been drafted right, and accepted.

The output of speculative decoding has the target's distribution. So look at a text x that the target alone
has written, and ask of the token at position t: given that x_t came out, how likely is it that it was a
drafted token, accepted? With rejection, x_t is drafted and accepted with probability min(p(x_t), q(x_t)), and
comes out with probability p(x_t). The answer is

    a_t = min(p(x_t), q(x_t)) / p(x_t) = min(1, q(x_t) / p(x_t)),

and given x, what happens at one position does not depend on the others: each is decided by numbers of its
own, from distributions that the text before it fixes. At temperature 0 this is 1 where the draft agrees.

The coupled rule accepts less, so that the text of a seed no longer depends on the draft. How much less on the
same text, `compare_acceptance` computes exactly.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from minispec.core.loop import generate
from minispec.core.model import LanguageModel
from minispec.core.rng import Rng
from minispec.core.warp import Warp
from minispec.verifiers.coupled import KeyedRng

Tokens = Sequence[int]


def target_only_texts(
    target: LanguageModel,
    prompts: Sequence[Tokens],
    new_tokens: int,
    warp: Warp,
    rng: Rng,
    eos: Sequence[int] = (),
) -> list[list[int]]:
    """Lets the target alone continue prompts, and collects the tokens of each row.

    For an honest prediction take other prompts than those that are measured.
    """
    texts: list[list[int]] = [[] for _ in prompts]
    for step in generate(target, prompts, max_new_tokens=new_tokens, warp=warp, rng=rng, eos=eos):
        for text, token in zip(texts, step, strict=True):
            if token is not None:
                text.append(token)
    return texts


@torch.inference_mode()
def acceptance_probabilities(
    target: LanguageModel,
    draft: LanguageModel,
    prompts: Sequence[Tokens],
    texts: Sequence[Tokens],
    warp: Warp,
    draft_warp: Warp | None = None,
) -> list[list[float]]:
    """Returns a_t = min(1, q(x_t) / p(x_t)) of every token of texts that the target alone has written.

    It holds for `verify_rejection`, and at temperature 0 for `verify_greedy`, where it is 0 or 1. The texts
    follow prompts, none of which is empty; the draft gives q, with the target's warp or its own.
    """
    probabilities = []
    for prompt, text in zip(prompts, texts, strict=True):
        text_ids = torch.tensor(text, device=target.device)[:, None]  # [N, 1]
        p, q = (
            text_distributions(model, prompt, text, model_warp).gather(1, text_ids)[:, 0]
            for model, model_warp in ((target, warp), (draft, draft_warp or warp))
        )
        probabilities.append((q / p).nan_to_num(0).clamp(max=1).tolist())  # 0 of 0 was never drafted
    return probabilities


@torch.inference_mode()
def acceptance_rate(
    target: LanguageModel,
    draft: LanguageModel,
    prompts: Sequence[Tokens],
    texts: Sequence[Tokens],
    warp: Warp,
) -> float:
    """Returns α, the mean of Σ min(p, q) over all positions of texts that the target alone has written.

    The texts follow prompts, none of which is empty. Each model reads a prompt and its text in one forward
    pass. A run that counts accepted over tested tokens estimates α with a bias that depends on K, because the
    positions of its bonus tokens are never tested; here every position counts.
    """
    overlaps = []
    for prompt, text in zip(prompts, texts, strict=True):
        p, q = (text_distributions(model, prompt, text, warp) for model in (target, draft))
        overlaps.append(torch.minimum(p, q).sum(-1))
    return float(torch.cat(overlaps).mean())


def text_distributions(model: LanguageModel, prompt: Tokens, text: Tokens, warp: Warp) -> Tensor:
    """Returns a model's distribution of each token of a text that follows a prompt: [n, V] float64."""
    block = torch.tensor([[*prompt, *text]], device=model.device)[:, :-1]
    return warp(model.head(model.hidden(block))[0, len(prompt) - 1 :]).double()


@dataclass(frozen=True)
class Coupling:
    """What each rule would accept at the positions of one text."""

    positions: int  #: how many tokens of target-only text were looked at
    rejection: float  #: mean probability that rejection sampling accepts a drafted token
    coupled: float  #: mean probability that draft and target pick the same token from the same noise
    bound: float  #: mean of (1 − TV) / (1 + TV), the least of the second (Daliri et al. 2024)


def coupled_acceptance(p: Tensor, q: Tensor) -> Tensor:
    """Returns the probability that p and q pick the same token from the same Gumbel noise: [..., V] -> [...].

    Both pick token i exactly if no exponential clock of rate max(p_j / p_i, q_j / q_i) rings before
    that of i, so the probability is the sum over i of 1 / Σ_j max(p_j / p_i, q_j / q_i).
    """
    p = p.double()
    q = q.double()
    # 1 / Σ_j max(p_j / p_i, q_j / q_i), multiplied through by p_i q_i so that nothing is divided by 0.
    rates = torch.maximum(p[..., None, :] * q[..., :, None], q[..., None, :] * p[..., :, None]).sum(-1)
    return (p * q / rates.clamp_min(1e-300)).sum(-1)


@torch.inference_mode()
def compare_acceptance(
    target: LanguageModel,
    draft: LanguageModel,
    prompts: Sequence[Sequence[int]],
    max_new_tokens: int = 60,
    seed: int = 0,
) -> Coupling:
    """Lets both rules judge the same target-only text, at temperature 1: means over all positions.

    The target decodes so many tokens after each prompt, and the draft's q is compared with its p at each.
    """
    warp = Warp()
    position_means: list[Tensor] = []  # each [3, n]
    for prompt in prompts:
        (text,) = target_only_texts(target, [prompt], max_new_tokens, warp, KeyedRng(seed))
        p, q = (text_distributions(model, prompt, text, warp) for model in (target, draft))
        overlap = torch.minimum(p, q).sum(-1)
        position_means.append(torch.stack([overlap, coupled_acceptance(p, q), overlap / (2 - overlap)]))
    means = torch.cat(position_means, dim=1)
    rejection, coupled, bound = means.mean(1).tolist()
    return Coupling(means.shape[1], rejection, coupled, bound)
