"""Exercises at temperature 0: the serial loop, the mask of one forward, the greedy rule, the whole loop."""

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import torch
from torch import Tensor

from minispec.classroom.exercise import exercise
from minispec.classroom.parts import Parts
from minispec.classroom.running import Malformed, ids, nested, numbers
from minispec.classroom.trials import continued, looped
from minispec.core.model import LanguageModel


def last_row(logits: Tensor) -> Tensor:
    """Returns the last row of logits [1, n, V]: what it says about the next token."""
    return logits[0, -1]


def continue_greedily(
    model: LanguageModel,
    prompt: list[int],
    n: int,
    read: slice = slice(None),
    row: Callable[[Tensor], Tensor] = last_row,
) -> list[int]:
    """Returns the n most probable tokens; a wrong answer reads a part of the text, or another row.

    `row` takes logits [1, n, V] and returns those [V] to choose by.
    """
    text = list(prompt)
    for _ in range(n):
        text.append(int(row(model.head(model.hidden(torch.tensor([text[read]])))).argmax()))
    return text[len(prompt) :]


CONTINUE = exercise(
    "continue-greedily",
    wrong={
        "prompt-included": lambda model, prompt, n: [*prompt, *continue_greedily(model, prompt, n)],
        "never-appended": lambda model, prompt, n: continue_greedily(model, prompt, n, slice(len(prompt))),
        "first-row": partial(continue_greedily, read=slice(1)),
        "last-token-alone": partial(continue_greedily, read=slice(-1, None)),
        "all-rows-at-once": partial(continue_greedily, row=lambda logits: logits[-1]),
    },
    right=continue_greedily,
    run=continued,
    read=ids,
    show=lambda value: str(list(value)),
)


def agreeing(drafted: list[int], best: list[int]) -> int:
    """Returns how many leading ids agree."""
    pairs = zip(drafted, best, strict=False)
    return next((i for i, (token, choice) in enumerate(pairs) if token != choice), len(drafted))


# All drafts and choices over two ids up to K = 2, and some over three with K = 3.
DRAFTS = [(d, b) for k in range(3) for d in product((0, 1), repeat=k) for b in product((0, 1), repeat=k + 1)]
DRAFTS += [(d, b) for d in ((0, 1, 2), (2, 1, 0)) for b in product((0, 1, 2), repeat=4)]


def counted_by(count: Callable[[list[int], list[int]], int]) -> Callable[..., tuple[int, int]]:
    """Returns an answer: how many ids are kept, by some way to count them, and the target's next one."""

    def verify_greedily(drafted: list[int], best: list[int]) -> tuple[int, int]:
        kept = count(drafted, best)
        return kept, best[kept]

    return verify_greedily


VERIFY = exercise(
    "verify-greedily",
    wrong={
        "all-matches": counted_by(lambda drafted, best: sum(map(int.__eq__, drafted, best))),
        "shifted": counted_by(lambda drafted, best: agreeing(drafted, best[1:])),
        "no-bonus": counted_by(lambda drafted, best: agreeing(drafted[:-1], best)),
        "keeps-the-rejected": lambda drafted, best: (
            agreeing(drafted, best),
            [*drafted, best[-1]][agreeing(drafted, best)],
        ),
        "bonus-for-a-correction": lambda drafted, best: (agreeing(drafted, best), best[-1]),
        "counts-the-correction": lambda drafted, best: (
            agreeing(drafted, best) + 1,
            best[agreeing(drafted, best)],
        ),
    },
    right=counted_by(agreeing),
    cases=[(list(drafted), list(best)) for drafted, best in DRAFTS],
    read=lambda value: ids(value, "a pair (accepted, token)", count=2),
)


def verification_mask(cached: int, k: int) -> Tensor:
    """Returns a lower triangle, shifted by what is cached: [k+1, cached+k+1] bool."""
    return torch.ones(k + 1, cached + k + 1, dtype=torch.bool).tril(cached)


def mask(value: Any) -> Any:
    """Reads a mask as rows of 0 and 1; one to be added to scores, with −∞, will do too."""
    additive = isinstance(value, Tensor) and value.is_floating_point() and not bool((value > 0).any())
    tensor = numbers(value, name="a mask")
    if tensor.dim() != 2:
        raise Malformed(f"a mask [k + 1, cached + k + 1] is wanted, and it has shape {list(tensor.shape)}")
    if additive:
        tensor = (~tensor.isinf()).double()
    if not bool(((tensor == 0) | (tensor == 1)).all()):
        raise Malformed("a mask of True and False is wanted, and it has other numbers in it")
    return nested(tensor.long().tolist())


MASK = exercise(
    "shift-the-mask",
    wrong={
        "not-shifted": lambda cached, k: verification_mask(cached, k).tril(),
        "blind-to-itself": lambda cached, k: torch.ones(k + 1, cached + k + 1).tril(cached - 1).bool(),
        "sees-the-future": lambda cached, k: torch.ones(k + 1, cached + k + 1).bool(),
        "pending-left-out": lambda cached, k: torch.ones(k, cached + k).tril(cached).bool(),
    },
    right=verification_mask,
    read=mask,
    show=lambda value: " / ".join("".join("–●"[cell] for cell in row) for row in value) or "nothing",
)


def rounds(
    parts: Parts,
    prompt: list[int],
    k: int,
    n: int,
    keep: int = 1,
    drop: Callable[[int], bool] = lambda accepted: False,
    trust: bool = False,
    stale: bool = False,
    overshoot: bool = False,
) -> list[int]:
    """Returns what is gained until there are n tokens.

    Wrong answers `keep` another number of tokens than 1 out of the caches after a round (below 0: they do not
    roll back), `drop` the target's token after so many accepted ones, `trust` the whole draft, read the
    `stale` pending token of the first round in all rounds, or `overshoot`.
    """
    parts.prefill(prompt)
    text = list(prompt)
    while len(text) < len(prompt) + n:
        pending = prompt[-1] if stale else text[-1]
        draft = parts.draft(pending, k)
        accepted, token = parts.verify(draft, parts.score(pending, draft))
        if trust:
            accepted = k
        text += draft.tokens[0, :accepted].tolist()
        if not drop(accepted):
            text.append(token)
        if keep >= 0:
            parts.rollback(len(text) - keep)
    return text[len(prompt) :] if overshoot else text[len(prompt) :][:n]


LOOP = exercise(
    "write-the-loop",
    wrong={
        "overshoots": partial(rounds, overshoot=True),
        "never-rolls-back": partial(rounds, keep=-1),
        "keeps-the-draft": partial(rounds, trust=True),
        "rollback-one-short": partial(rounds, keep=0),
        "drops-the-correction": partial(rounds, drop=bool),
        "no-correction": partial(rounds, drop=lambda accepted: True),
        "pending-never-changes": partial(rounds, stale=True),
    },
    right=rounds,
    run=looped,
    read=lambda value: (ids(value[0]), value[1]),
    show=lambda value: f"{list(value[0])} in {value[1]} target calls",
)
