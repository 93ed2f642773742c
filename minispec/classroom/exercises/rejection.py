"""Exercises on p and q: a draft that remembers q, how far p is, the residual, the rule for one row."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from minispec.classroom.exercise import exercise
from minispec.classroom.parts import RowRng
from minispec.classroom.running import Malformed, called, nested, numbers, real
from minispec.classroom.trials import drafted, drafted_row, emitted_by
from minispec.core.cache import KVCache
from minispec.core.model import LanguageModel
from minispec.core.records import Draft
from minispec.core.rng import RoundRng
from minispec.core.verify import residual
from minispec.core.warp import Warp

Weights = Sequence[int]  # a distribution, times the sum


def drafter(
    draw_by: Callable[[Warp], Warp] = lambda warp: warp,
    report_by: Callable[[Warp], Warp] = lambda warp: warp,
    read_on: bool = True,
) -> Callable[..., Draft]:
    """Returns an answer: a wrong one draws or reports by another warp, or reads the pending token only."""

    def draft_tokens(
        model: LanguageModel, cache: KVCache, pending: Tensor, k: int, warp: Warp, rng: RoundRng
    ) -> Draft:
        """Pending [B] in, a draft of tokens [B, k] and distributions [B, k, V] out."""
        token = pending
        tokens = []
        probs = []
        for _ in range(k):
            logits = model.head(model.hidden((token if read_on else pending)[:, None], cache))[:, -1]
            token = rng.categorical(draw_by(warp)(logits))
            tokens.append(token)
            probs.append(report_by(warp)(logits))
        return Draft(torch.stack(tokens, 1), torch.stack(probs, 1))

    return draft_tokens


def show_branches(value: Any) -> str:
    """Writes the first branches: what is drawn, how probable it is, and which q is reported."""
    lines = [""]
    for tokens, probability, probs in value[:6]:
        q = "; ".join("(" + ", ".join(f"{x:.3g}" for x in row) + ")" for row in probs)
        lines.append(f"{list(tokens)} drawn with probability {probability:.3g}, q {q}")
    return "\n    ".join(lines)


DRAFTED = [
    (text, k, warp) for k in (1, 2) for warp in (Warp(), Warp(0.5), Warp(top_k=2)) for text in ([0], [2, 1])
]
REMEMBER_Q = exercise(
    "remember-q",
    wrong={
        "softmax-reported": drafter(report_by=lambda warp: Warp()),
        "drawn-unwarped": drafter(draw_by=lambda warp: Warp()),
        "greedy-draft-soft-q": drafter(draw_by=lambda warp: Warp(0)),
        "pending-read-again": drafter(read_on=False),
        "distributions-forgotten": lambda *arguments: drafter()(*arguments).tokens,
    },
    right=drafter(),
    cases=DRAFTED,
    run=drafted,
    show=show_branches,
)


def for_one_row(draft_tokens: Callable[..., Draft]) -> Callable[..., Any]:
    """Returns the answer for one row that an answer for B rows makes: ids, and distributions."""

    def draft_one_row(model: LanguageModel, cache: KVCache, pending: int, *others: Any) -> Any:
        draft = draft_tokens(model, cache, torch.tensor([pending]), *others)
        return draft.tokens[0].tolist(), list(draft.probs[0])

    return draft_one_row


ONE_ROW = exercise(
    "draft-one-row",
    wrong={
        name: for_one_row(answer)
        for name, (_, answer) in REMEMBER_Q.wrong.items()
        if name != "distributions-forgotten"
    },
    right=for_one_row(drafter()),
    cases=DRAFTED,
    run=drafted_row,
    show=show_branches,
)


def scaled(weights: Weights) -> Tensor:
    """Returns a distribution [V]: weights over their sum."""
    return torch.tensor(weights, dtype=torch.float64) / sum(weights)


def of_two(answer: Any, p: Weights, q: Weights) -> Any:
    """Calls an answer with two distributions."""
    return called(answer, scaled(p), scaled(q))


def distribution(value: Any) -> Any:
    """Reads a distribution as a tuple of numbers."""
    tensor = numbers(value, name="a tensor [V]")
    if tensor.dim() != 1:
        raise Malformed(f"a distribution [V] is wanted, and it has shape {list(tensor.shape)}")
    return nested(tensor.tolist())


def total_variation(p: Tensor, q: Tensor) -> float:
    """Returns half the sum of all differences of two distributions, [V] each."""
    return float((p - q).abs().sum() / 2)


TOTAL_VARIATION = exercise(
    "total-variation",
    wrong={
        "no-half": lambda p, q: (p - q).abs().sum(),
        "overlap": lambda p, q: torch.minimum(p, q).sum(),
        "largest-difference": lambda p, q: (p - q).abs().max(),
    },
    right=total_variation,
    run=of_two,
    read=real,
    show=lambda value: f"{value:.4g}",
)

RESIDUAL = exercise(
    "residual",
    wrong={
        "not-scaled": lambda p, q: (p - q).clamp(min=0),
        "absolute": lambda p, q: p if torch.equal(p, q) else (p - q).abs() / (p - q).abs().sum(),
        "p-itself": lambda p, q: p,
        "no-way-out": lambda p, q: (p - q).clamp(min=0) / (p - q).clamp(min=0).sum(),
    },
    right=residual,
    run=of_two,
    read=distribution,
    show=lambda value: "(" + ", ".join(f"{x:.4g}" for x in value) + ")",
)


def accepting(
    ratio: Callable[[Tensor, Tensor], Tensor] = lambda p, q: p / q,
    correct: Callable[[Tensor, Tensor], Tensor] = residual,
    keep: int = 0,
    bonus: int | None = -1,
    one_number: bool = False,
    after: Callable[[int, Sequence[Tensor], RowRng], list[int]] = lambda correction, p, rng: [correction],
) -> Callable[..., list[int]]:
    """Returns an answer; the right one by default.

    u must be below the `ratio` of p(x) and q(x); `correct` gives the distribution [V] of a correction. Wrong
    answers `keep` rejected ids, take the `bonus` from elsewhere (None: nowhere), all u from `one_number`, or
    make something else of the correction `after` a rejection.
    """

    def accept_one_row(
        tokens: list[int], dists: Sequence[Tensor], target_dists: Sequence[Tensor], rng: RowRng
    ) -> list[int]:
        """Returns the ids that a round gains; distributions are [V]."""
        first = rng.uniform()
        for i, (x, q) in enumerate(zip(tokens, dists, strict=True)):
            u = first if one_number else rng.uniform()
            p = target_dists[i]
            if not u < ratio(p[x], q[x]):
                correction = rng.draw(correct(p, q))
                return [*tokens[: i + keep], *after(correction, target_dists, rng)]
        return tokens + ([] if bonus is None else [rng.draw(target_dists[bonus])])

    return accept_one_row


def bonus_only(correction: int, target_dists: Sequence[Tensor], rng: RowRng) -> list[int]:
    """A wrong answer: draws from the last of the K + 1 distributions [V] in place of a correction."""
    return [rng.draw(target_dists[-1])]


def going_on(tokens: list[int], dists: list[Tensor], target_dists: Tensor, rng: RowRng) -> list[int]:
    """A wrong answer: drops what is rejected, and goes on testing; target_dists is [K+1, V]."""
    kept = [x for x, q, p in zip(tokens, dists, target_dists, strict=False) if rng.uniform() < p[x] / q[x]]
    i = len(kept)
    p = target_dists[i]
    return [*kept, rng.draw(residual(p, dists[i]) if i < len(tokens) else p)]


def one_row(answer: Any, tokens: list[int], dists: list[Weights], target_dists: list[Weights]) -> Any:
    """Enumerates an answer for one row, see `gained`."""
    return emitted_by(answer, tokens, list(map(scaled, dists)), torch.stack([*map(scaled, target_dists)]))


def show_emitted(value: Any) -> str:
    """Writes what is gained, and how probable it is."""
    return "".join(f"\n    {list(ids)} with probability {probability:.3g}" for ids, probability in value)


ACCEPT = exercise(
    "accept-one-row",
    wrong={
        "correction-from-p": accepting(correct=lambda p, q: p),
        "ratio-inverted": accepting(ratio=lambda p, q: q / p),
        "q-forgotten": accepting(ratio=lambda p, q: p),
        "keeps-the-rejected": accepting(keep=1),
        "going-on-after-a-rejection": going_on,
        "no-bonus": accepting(bonus=None),
        "bonus-one-early": accepting(bonus=-2),
        "one-number-for-all": accepting(one_number=True),
        "bonus-after-a-rejection": accepting(after=lambda correction, p, rng: [correction, rng.draw(p[-1])]),
        "bonus-for-a-correction": accepting(after=bonus_only),
        "no-correction": accepting(after=lambda correction, p, rng: []),
    },
    right=accepting(),
    run=one_row,
    show=show_emitted,
)
