"""Exercises on p and q: a draft that remembers q, how far p is, the residual, the rule for one row."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from minispec.classroom.exercise import exercise
from minispec.classroom.parts import LimitedModel, RowRng
from minispec.classroom.running import Malformed, as_tuples, call_answer, read_number, read_tensor
from minispec.classroom.trials import enumerate_drafts, enumerate_emitted, enumerate_row_drafts
from minispec.core import basic
from minispec.core.cache import KVCache
from minispec.core.records import Draft
from minispec.core.rng import RoundRng
from minispec.core.verify import residual
from minispec.core.warp import Warp
from minispec.evidence.theory.formulas import total_variation

Weights = Sequence[int]  # a distribution, times the sum


def draft_tokens(
    model: LimitedModel, cache: KVCache, pending: Tensor, k: int, warp: Warp, rng: RoundRng
) -> Draft:
    """Returns a draft of tokens [B, k] and distributions [B, k, V]; pending is [B]."""
    tokens = [pending]
    probs = []
    for _ in range(k):
        logits = model(tokens[-1][:, None], cache)[:, -1]
        probs.append(warp(logits))
        tokens.append(rng.categorical(warp(logits)))
    return Draft(torch.stack(tokens[1:], 1), torch.stack(probs, 1))


def show_branches(value: Any) -> str:
    """Writes the first branches: what is drawn, how probable it is, and which q is reported."""
    lines = [""]
    for tokens, probability, probs in value[:6]:
        q = "; ".join("(" + ", ".join(f"{x:.3g}" for x in row) + ")" for row in probs)
        lines.append(f"{list(tokens)} drawn with probability {probability:.3g}, q {q}")
    return "\n    ".join(lines)


DRAFT_CASES = [
    (text, k, warp) for k in (1, 2) for warp in (Warp(), Warp(0.5), Warp(top_k=2)) for text in ([0], [2, 1])
]
REMEMBER_Q = exercise(
    "remember-q",
    right=draft_tokens,
    cases=DRAFT_CASES,
    run=enumerate_drafts,
    show=show_branches,
)


ONE_ROW = exercise(
    "draft-one-row", right=basic.draft, cases=DRAFT_CASES, run=enumerate_row_drafts, show=show_branches
)


def normalised(weights: Weights) -> Tensor:
    """Returns a distribution [V]: weights over their sum."""
    return torch.tensor(weights, dtype=torch.float64) / sum(weights)


def run_on_pair(answer: Any, p: Weights, q: Weights) -> Any:
    """Calls an answer with two distributions."""
    return call_answer(answer, normalised(p), normalised(q))


def read_distribution(value: Any) -> Any:
    """Reads a distribution as a tuple of numbers."""
    tensor = read_tensor(value, name="a tensor [V]")
    if tensor.dim() != 1:
        raise Malformed(f"a distribution [V] is wanted, and it has shape {list(tensor.shape)}")
    return as_tuples(tensor.tolist())


TOTAL_VARIATION = exercise(
    "total-variation",
    right=total_variation,
    run=run_on_pair,
    read=read_number,
    show=lambda value: f"{value:.4g}",
)

RESIDUAL = exercise(
    "residual",
    right=residual,
    run=run_on_pair,
    read=read_distribution,
    show=lambda value: "(" + ", ".join(f"{round(x, 4):g}" for x in value) + ")",
)


def going_on(tokens: list[int], dists: list[Tensor], target_dists: Tensor, rng: RowRng) -> list[int]:
    """A wrong answer: drops what is rejected, and goes on testing; target_dists is [K+1, V]."""
    kept = [x for x, q, p in zip(tokens, dists, target_dists, strict=False) if rng.uniform() < p[x] / q[x]]
    i = len(kept)
    p = target_dists[i]
    return [*kept, rng.draw(residual(p, dists[i]) if i < len(tokens) else p)]


def enumerate_one_row(
    answer: Any, tokens: list[int], dists: list[Weights], target_dists: list[Weights]
) -> Any:
    """Enumerates an answer for one row, see `enumerate_emitted`."""
    return enumerate_emitted(
        answer, tokens, list(map(normalised, dists)), torch.stack([*map(normalised, target_dists)])
    )


def show_emitted(value: Any) -> str:
    """Writes what is emitted, and how probable it is."""
    return "".join(f"\n    {list(ids)} with probability {probability:.3g}" for ids, probability in value)


ACCEPT = exercise(
    "accept-one-row",
    wrong={"going-on-after-a-rejection": going_on},
    right=basic.accept_rejection,
    run=enumerate_one_row,
    show=show_emitted,
)
