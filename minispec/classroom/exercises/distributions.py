"""Exercises on two distributions: how far they are apart, and what a correction is drawn from."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from minispec.classroom.exercise import Exercise
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


TOTAL_VARIATION = Exercise(
    key="total-variation",
    title="Measure how far two distributions are apart",
    notebook=3,
    difficulty=1,
    minutes=4,
    stub='''def total_variation(p, q):
    """Returns the total variation between two distributions, tensors [V]: a number from 0 to 1."""
    ...
''',
    hints=(
        "Look at where p is larger than q. How much more is it there, in all?",
        "Add up how far apart the two are at each token; tensors do that for all tokens at once. What "
        "moves from one token to another is in that sum twice.",
    ),
    goal="What p has more than q, summed up, equals what q has more than p: the total variation, 1/2.",
    picture="""
           a      b      c      sum
target, p  p 3/6  p 2/6  p 1/6  1
draft, q   q 1/6  q 1/6  q 4/6  1
p above q  2/6    1/6           1/2
q above p                3/6    1/2
""",
    praise="1 minus this number: how probably a drafted token is accepted (Leviathan et al. 2023, cor. 3.6).",
    wrong={
        "no-half": (
            "Twice too much: each difference counts once where p is larger and once where q is. Take half.",
            lambda p, q: (p - q).abs().sum(),
        ),
        "overlap": (
            "That is the overlap, Σ min(p, q). The total variation is what is left of 1.",
            lambda p, q: torch.minimum(p, q).sum(),
        ),
        "largest-difference": (
            "That is the largest difference at one token. Total variation is that of a set of tokens.",
            lambda p, q: (p - q).abs().max(),
        ),
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

RESIDUAL = Exercise(
    key="residual",
    title="Write the residual",
    notebook=6,
    difficulty=1,
    minutes=4,
    stub='''def residual(p, q):
    """Returns the distribution [V] to draw a correction from: the mass q lacks, scaled to sum 1.

    p and q are distributions, tensors [V]. Where they are equal nothing is lacking: then return p.
    """
    ...
''',
    hints=(
        "At which tokens does p have more than q? Only these can be drawn after a rejection.",
        "Three steps: a difference, then without what is negative (clamp), then scaled to sum 1. One of them "
        "fails where p and q are equal: what is asked for there?",
    ),
    goal="With q = (1, 1, 4)/6. What is accepted and what is missing add up to p.",
    picture="""
                     a      b      c      sum
p                    p 3/6  p 2/6  p 1/6  1
accepted, min(p, q)  ✓ 1/6  ✓ 1/6  ✓ 1/6  1/2
still missing        2/6    1/6    0      1/2
residual             ↳ 2/3  ↳ 1/3  ↳ 0    1
""",
    praise="min(p, q) is accepted, and max(0, p − q) fills up the rest: together they are p.",
    wrong={
        "not-scaled": (
            "It does not sum to 1. Divide by its sum: that is the probability of a rejection.",
            lambda p, q: (p - q).clamp(min=0),
        ),
        "absolute": (
            "You take |p − q|. Where q is larger there was too much already: nothing is missing, so 0.",
            lambda p, q: p if torch.equal(p, q) else (p - q).abs() / (p - q).abs().sum(),
        ),
        "p-itself": (
            "That is p. Part of p has been accepted already; only the rest is to be drawn from.",
            lambda p, q: p,
        ),
        "no-way-out": (
            "Where p = q you divide 0 by 0. Rounding may ask for a correction even there: return p.",
            lambda p, q: (p - q).clamp(min=0) / (p - q).clamp(min=0).sum(),
        ),
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
