"""Exercises at temperature 0: the serial loop, the mask of one forward, the greedy rule, the whole loop."""

from itertools import product
from typing import Any

import torch
from torch import Tensor

from minispec.classroom.exercise import exercise
from minispec.classroom.parts import LimitedModel, Parts
from minispec.classroom.running import Malformed, as_tuples, read_ids, read_tensor
from minispec.classroom.trials import run_continuation, run_loop


def continue_greedily(model: LimitedModel, prompt: list[int], n: int) -> list[int]:
    """Returns the n most probable tokens."""
    text = list(prompt)
    for _ in range(n):
        logits = model(torch.tensor([text]))
        text.append(int(logits[0, -1].argmax()))
    return text[len(prompt) :]


CONTINUE = exercise(
    "continue-greedily",
    right=continue_greedily,
    run=run_continuation,
    read=read_ids,
    show=lambda value: str(list(value)),
)


# All drafts and choices over two ids up to K = 2, and some over three with K = 3.
DRAFTS = [(d, b) for k in range(3) for d in product((0, 1), repeat=k) for b in product((0, 1), repeat=k + 1)]
DRAFTS += [(d, b) for d in ((0, 1, 2), (2, 1, 0)) for b in product((0, 1, 2), repeat=4)]


def verify_greedily(drafted: list[int], best: list[int]) -> tuple[int, int]:
    """Returns how many leading ids agree, and the target's next one."""
    accepted = 0
    while accepted < len(drafted) and drafted[accepted] == best[accepted]:
        accepted += 1
    return accepted, best[accepted]


VERIFY = exercise(
    "verify-greedily",
    right=verify_greedily,
    cases=[(list(drafted), list(best)) for drafted, best in DRAFTS],
    read=lambda value: read_ids(value, "a pair (accepted, token)", count=2),
)


def verification_mask(cached: int, k: int) -> Tensor:
    """Returns a lower triangle, shifted by what is cached: [k+1, cached+k+1] bool."""
    return torch.ones(k + 1, cached + k + 1, dtype=torch.bool).tril(cached)


def read_mask(value: Any) -> Any:
    """Reads a mask as rows of 0 and 1."""
    if isinstance(value, Tensor) and value.is_floating_point():
        raise Malformed("a mask of floats, which PyTorch adds to the scores; bool is asked for")
    tensor = read_tensor(value, name="a mask")
    if tensor.dim() != 2:
        raise Malformed(f"a mask [k + 1, cached + k + 1] is wanted, and it has shape {list(tensor.shape)}")
    if not bool(((tensor == 0) | (tensor == 1)).all()):
        raise Malformed("a mask of True and False is wanted, and it has other numbers in it")
    return as_tuples(tensor.long().tolist())


MASK = exercise(
    "shift-the-mask",
    right=verification_mask,
    read=read_mask,
    show=lambda value: " / ".join("".join("–●"[cell] for cell in row) for row in value) or "nothing",
)


def my_loop(parts: Parts, prompt: list[int], k: int, n: int) -> list[int]:
    """Returns the first n tokens that the rounds emit."""
    parts.prefill(prompt)
    text = list(prompt)
    while len(text) < len(prompt) + n:
        draft = parts.draft(text[-1], k)
        accepted, token = parts.verify(draft, parts.score(text[-1], draft))
        text += [*draft.tokens[0, :accepted].tolist(), token]
        parts.rollback(len(text) - 1)
    return text[len(prompt) :][:n]


LOOP = exercise(
    "write-the-loop",
    right=my_loop,
    run=run_loop,
    read=lambda value: (read_ids(value[0]), value[1]),
    show=lambda value: f"{list(value[0])} in {value[1]} target calls",
)
