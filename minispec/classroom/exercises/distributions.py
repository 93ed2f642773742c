"""Notebook 3: how far two laws are apart."""

from __future__ import annotations

import torch
from torch import Tensor

from minispec.classroom.drawing import Drawing, line
from minispec.classroom.exercise import Exercise, Wrong
from minispec.classroom.judging import Bench, Trial, real

STUB = '''def total_variation(p, q):
    """Returns the total variation between two laws, tensors [V], as a number from 0 to 1."""
    ...
'''

GOAL = Drawing(
    (
        line("", "a", "b", "c", "sum"),
        line("target, p", ("3/6", "p"), ("2/6", "p"), ("1/6", "p"), "1"),
        line("draft, q", ("1/6", "q"), ("1/6", "q"), ("4/6", "q"), "1"),
        line("p above q", "2/6", "1/6", "", "1/2"),
        line("q above p", "", "", "3/6", "1/2"),
    ),
    "What p has more than q, summed up, equals what q has more than p. That sum is the total variation: 1/2.",
)


def total_variation(p: Tensor, q: Tensor) -> float:
    """Returns half the sum of all differences of two laws, [V] each."""
    return float((p - q).abs().sum() / 2)


WRONG = (
    Wrong(
        "no-half",
        "Twice too much: each difference was counted once where p is larger and once where q is. Take half.",
        lambda p, q: (p - q).abs().sum(),
    ),
    Wrong(
        "signed",
        "The differences cancel: both laws sum to 1, so their differences sum to 0. Take absolute values.",
        lambda p, q: (p - q).sum() / 2,
    ),
    Wrong(
        "overlap",
        "That is the overlap, Σ min(p, q). The total variation is what is left of 1.",
        lambda p, q: torch.minimum(p, q).sum(),
    ),
    Wrong(
        "largest-difference",
        "That is the largest difference at one token. Total variation is the largest for any set of tokens.",
        lambda p, q: (p - q).abs().max(),
    ),
    Wrong(
        "euclidean",
        "That is the Euclidean distance. Here differences are summed as they are, not squared.",
        lambda p, q: ((p - q) ** 2).sum() ** 0.5,
    ),
)

PRAISE = (
    "1 minus this number is the chance that a drafted token is accepted (Leviathan et al. 2023, cor. 3.6)."
)


def trial(p: tuple[int, ...], q: tuple[int, ...]) -> Trial:
    """Returns a call on two laws, given by weights."""
    return Trial(f"total_variation({law_text(p)}, {law_text(q)})", lambda: (law(p), law(q)))


def law(weights: tuple[int, ...]) -> Tensor:
    """Returns the law with these weights: [V] float64."""
    return torch.tensor(weights, dtype=torch.float64) / sum(weights)


def law_text(weights: tuple[int, ...]) -> str:
    """Writes the law with these weights."""
    return f"({', '.join(map(str, weights))})/{sum(weights)}"


EXERCISE = Exercise(
    key="total-variation",
    title="Measure how far two laws are apart",
    notebook=3,
    difficulty=1,
    minutes=4,
    stub=STUB,
    hints=(
        "Look at where p is larger than q. How much more is it there, in all?",
        "Half the sum of the absolute differences; p and q are tensors, so p - q works on all tokens at "
        "once.",
    ),
    goal=GOAL,
    judge=Bench(
        total_variation,
        (
            trial((1, 1), (1, 1)),
            trial((1, 0), (0, 1)),
            trial((3, 1), (1, 3)),
            trial((3, 2, 1), (1, 1, 4)),
            trial((4, 3, 2, 1), (1, 1, 5, 3)),
        ),
        WRONG,
        real,
        lambda value: f"{value:.4g}",
        PRAISE,
    ).judge,
    wrong=WRONG,
    praise=PRAISE,
)
