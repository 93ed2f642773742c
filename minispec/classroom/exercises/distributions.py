"""Exercises on two distributions: how far they are apart, and what a correction is drawn from."""

from typing import Any

import torch
from torch import Tensor

from minispec.classroom.exercises.texts import exercise
from minispec.classroom.running import Malformed, nested, numbers, real
from minispec.classroom.trials import Trial
from minispec.core.verify import residual


def trial(name: str, p: tuple[int, ...], q: tuple[int, ...]) -> Trial:
    """Returns a call on two distributions, given by weights."""
    text = [f"({', '.join(map(str, weights))})/{sum(weights)}" for weights in (p, q)]
    tensors = [torch.tensor(weights, dtype=torch.float64) / sum(weights) for weights in (p, q)]
    return Trial(f"{name}({', '.join(text)})", "called", tuple(tensors))


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
    trials=(
        trial("total_variation", (1, 1), (1, 1)),
        trial("total_variation", (1, 0), (0, 1)),
        trial("total_variation", (3, 1), (1, 3)),
        trial("total_variation", (3, 2, 1), (1, 1, 4)),
        trial("total_variation", (4, 3, 2, 1), (1, 1, 5, 3)),
    ),
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
    trials=(
        trial("residual", (1, 1), (1, 1)),
        trial("residual", (1, 1), (1, 0)),
        trial("residual", (1, 3), (3, 1)),
        trial("residual", (3, 2, 1), (1, 1, 4)),
        trial("residual", (1, 4, 5, 2), (4, 4, 1, 3)),
    ),
    read=distribution,
    show=lambda value: "(" + ", ".join(f"{x:.4g}" for x in value) + ")",
)
