"""The exercise at the end of the loop: sampled speculative decoding with both caches, held to `basic.py`."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from minispec.classroom.exercise import exercise
from minispec.classroom.exercises.rejection import accepting, bonus_only
from minispec.classroom.parts import RowRng
from minispec.classroom.trials import looped_with_caches
from minispec.core.basic import accept_rejection, speculate_basic
from minispec.core.cache import KVCache
from minispec.core.model import LanguageModel
from minispec.core.warp import Warp

Rule = Callable[[list[int], Sequence[Tensor], Tensor, Any], list[int]]
Loop = Callable[[LanguageModel, LanguageModel, list[int], int, int, RowRng], list[int]]


def as_basic(
    target: LanguageModel, draft: LanguageModel, prompt: list[int], k: int, n: int, rng: RowRng
) -> list[int]:
    """The right answer: the loop of `basic.py`."""
    given: dict[str, Any] = {"accept": accept_rejection, "max_new_tokens": n, "warp": Warp(), "rng": rng}
    tokens: list[int] = speculate_basic(target, draft, prompt, k=k, **given)
    return tokens


def probabilities(model: LanguageModel, tokens: list[int], cache: KVCache) -> Tensor:
    """Reads n tokens after what the cache holds; returns the distributions [n, V] of what follows each."""
    return torch.softmax(model.head(model.hidden(torch.tensor([tokens]), cache))[0], -1)


def rejection_loop(
    rule: Rule | None = None,
    cut_target: bool = True,
    cut_draft: bool = True,
    catch_up: bool = True,
    without: int = 1,
    stale: bool = False,
    overshoot: bool = False,
) -> Loop:
    """Returns an answer that is right by default.

    Wrong answers take another `rule`, leave a cache as it is, do not let the draft model `catch_up`, cut
    caches to all tokens `without` another number than 1, or begin each round with a `stale` pending token.
    With `overshoot` k are drafted in the last round too, and no token is cut off.
    """
    accept = rule or accepting()

    def my_sampled_loop(
        target: LanguageModel, draft: LanguageModel, prompt: list[int], k: int, n: int, rng: RowRng
    ) -> list[int]:
        text = list(prompt)
        target_cache = target.new_cache(1)
        draft_cache = draft.new_cache(1)
        if len(prompt) > 1:
            probabilities(target, prompt[:-1], target_cache)
            probabilities(draft, prompt[:-1], draft_cache)
        while len(text) < len(prompt) + n:
            block = [prompt[-1] if stale else text[-1]]
            dists: list[Tensor] = []
            room = len(prompt) + n - len(text)
            for _ in range(k if overshoot else min(k, room - 1)):
                dists.append(probabilities(draft, block[-1:], draft_cache)[0])
                block.append(rng.draw(dists[-1]))
            p = probabilities(target, block, target_cache)
            text += accept(block[1:], dists, p, rng)
            length = len(text) - without
            held = draft_cache.row_lengths[0]
            if catch_up and cut_draft and held == length - 1:
                probabilities(draft, block[-1:], draft_cache)
            if cut_target:
                target_cache.truncate([length])
            if cut_draft:
                draft_cache.truncate([length if catch_up else min(held, length)])
        return text[len(prompt) :]

    return my_sampled_loop


def most_probable_bonus(
    tokens: list[int], dists: Sequence[Tensor], target_dists: Tensor, rng: RowRng
) -> list[int]:
    """A wrong rule: the bonus is the most probable token of the target, whose distributions are [K+1, V]."""
    emitted = accepting(bonus=None)(tokens, dists, target_dists, rng)
    return [*emitted, int(target_dists[-1].argmax())] if emitted == tokens else emitted


def show_loop(value: Any) -> str:
    """Writes the first texts with their probabilities, the target calls, and what is wrong in the caches."""
    texts, calls, faults = value
    lines = [f"{list(tokens)} with probability {probability:.3g}" for tokens, probability in texts[:8]]
    lines += ["…"] * (len(texts) > 8)
    lines.append(f"{calls:.3g} target calls on average")
    lines += faults or ["between rounds both caches hold all of the text but its pending token"]
    return "".join(f"\n    {line}" for line in lines)


SAMPLED_LOOP = exercise(
    "write-the-sampled-loop",
    wrong={
        "overshoots": rejection_loop(overshoot=True),
        "never-rolls-back": rejection_loop(cut_target=False, cut_draft=False),
        "draft-not-rolled-back": rejection_loop(cut_draft=False),
        "never-catches-up": rejection_loop(catch_up=False),
        "cut-beyond-the-end": rejection_loop(without=0),
        "pending-never-updated": rejection_loop(stale=True),
        "nothing-of-the-target": rejection_loop(accepting(bonus=None)),
        "correction-from-p": rejection_loop(accepting(correct=lambda p, q: p)),
        "bonus-after-a-rejection": rejection_loop(accepting(after=bonus_only)),
        "bonus-after-a-correction": rejection_loop(
            accepting(after=lambda correction, p, rng: [correction, rng.draw(p[-1])])
        ),
        "most-probable-bonus": rejection_loop(most_probable_bonus),
    },
    right=as_basic,
    run=looped_with_caches,
    show=show_loop,
)
