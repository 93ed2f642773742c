"""Acceptance probabilities: how likely each token of a text would have been drafted right, and accepted.

The output of speculative decoding has the target's distribution. So look at a text x that the target alone
has written, and ask of the token at position t: given that x_t came out, how likely is it that it was a
drafted token, accepted? With rejection, x_t is drafted and accepted with probability min(p(x_t), q(x_t)), and
comes out with probability p(x_t). The answer is

    a_t = min(p(x_t), q(x_t)) / p(x_t) = min(1, q(x_t) / p(x_t)),

and given x, what happens at one position does not depend on the others: each is decided by numbers of its
own, from distributions that the text before it fixes. At temperature 0 this is 1 where the draft agrees, else
0.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from minispec.core.loop import generate
from minispec.core.model import LanguageModel
from minispec.core.prefill import device_of
from minispec.core.rng import SeededRng
from minispec.core.warp import Warp

Tokens = Sequence[int]


def target_only_texts(
    target: LanguageModel, prompts: Sequence[Tokens], new_tokens: int, warp: Warp, seed: int = 0
) -> list[list[int]]:
    """Lets the target alone continue prompts, end-of-sequence off: for `acceptance_probabilities`.

    Args:
        target: the model.
        prompts: token ids; for an honest prediction other ones than those that are measured.
        new_tokens: how many tokens each.
        warp: from logits to probabilities.
        seed: of the sampling.
    """
    steps = generate(target, prompts, max_new_tokens=new_tokens, warp=warp, rng=SeededRng(seed))
    texts: list[list[int]] = [[] for _ in prompts]
    for step in steps:
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

    It holds for `verify_rejection`, and at temperature 0 for `verify_greedy`, where it is 0 or 1.

    Args:
        target: gives p.
        draft: gives q; it has the target's vocabulary.
        prompts: token ids, one list per text, none empty.
        texts: what the target wrote after each.
        warp: of the target, and of the draft unless it has its own.
        draft_warp: the draft's own.

    Raises:
        ValueError: if the models' vocabularies differ, or there is not one text per prompt.
    """
    if target.vocab_size != draft.vocab_size or len(prompts) != len(texts):
        raise ValueError(
            f"one vocabulary and one text per prompt are needed; there are {target.vocab_size} and "
            f"{draft.vocab_size} tokens, {len(prompts)} prompts and {len(texts)} texts"
        )
    found = []
    for prompt, text in zip(prompts, texts, strict=True):
        block = torch.tensor([[*prompt, *text]], device=device_of(target))[:, :-1]
        said = torch.tensor(text, device=block.device)[:, None]  # [N, 1]
        p, q = (
            own(model(block)[0, len(prompt) - 1 :]).double().gather(1, said)[:, 0]
            for model, own in ((target, warp), (draft, draft_warp or warp))
        )
        found.append((q / p).nan_to_num(0).clamp(max=1).tolist())  # 0 of 0 was never drafted
    return found
