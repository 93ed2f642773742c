"""Notebook 6: the residual."""

from __future__ import annotations

from typing import Any

import torch

from minispec.classroom.drawing import Drawing, line
from minispec.classroom.exercise import Exercise, Wrong
from minispec.classroom.exercises.distributions import law, law_text
from minispec.classroom.judging import Bench, Trial, nested, numbers
from minispec.classroom.running import Malformed
from minispec.core.verify import residual

STUB = '''def residual(p, q):
    """Returns the law [V] to draw a correction from: what q was short of, scaled to sum 1.

    p and q are laws, tensors [V]. Where they are equal nothing is short: then return p.
    """
    ...
'''

GOAL = Drawing(
    (
        line("", "a", "b", "c", "sum"),
        line("p", ("3/6", "p"), ("2/6", "p"), ("1/6", "p"), "1"),
        line("accepted, min(p, q)", ("1/6", "draft"), ("1/6", "draft"), ("1/6", "draft"), "1/2"),
        line("still missing", "2/6", "1/6", "0", "1/2"),
        line("residual", ("2/3", "correction"), ("1/3", "correction"), ("0", "correction"), "1"),
    ),
    "With q = (1, 1, 4)/6. What is accepted and what is missing add up to p.",
)

WRONG = (
    Wrong(
        "not-scaled",
        "It does not sum to 1. Divide by its sum: that is the chance to reject.",
        lambda p, q: (p - q).clamp(min=0),
    ),
    Wrong(
        "absolute",
        "You take |p − q|. Where q is larger there was too much already: nothing is missing, so 0.",
        lambda p, q: p if torch.equal(p, q) else (p - q).abs() / (p - q).abs().sum(),
    ),
    Wrong(
        "p-itself",
        "That is p. Part of p has been accepted already; only the rest is to be drawn from.",
        lambda p, q: p,
    ),
    Wrong(
        "reversed",
        "You take what q has too much. The correction comes from what p has more: max(0, p − q).",
        lambda p, q: residual(q, p),
    ),
    Wrong(
        "no-way-out",
        "Where p = q you divide 0 by 0. Nothing is rejected there in theory, but rounding may say otherwise: "
        "return p.",
        lambda p, q: (p - q).clamp(min=0) / (p - q).clamp(min=0).sum(),
    ),
)

PRAISE = "min(p, q) is accepted, and max(0, p − q) fills up the rest: together they are p."


def trial(p: tuple[int, ...], q: tuple[int, ...]) -> Trial:
    """Returns a call on two laws, given by weights."""
    return Trial(f"residual({law_text(p)}, {law_text(q)})", lambda: (law(p), law(q)))


def a_law(value: Any) -> Any:
    """Reads a law as a tuple of numbers."""
    tensor = numbers(value, name="a tensor [V]")
    if tensor.dim() != 1:
        raise Malformed(f"a law [V] is wanted, and it has shape {list(tensor.shape)}")
    return nested(tensor.tolist())


EXERCISE = Exercise(
    key="residual",
    title="Write the residual",
    notebook=6,
    difficulty=1,
    minutes=4,
    stub=STUB,
    hints=(
        "Subtract, cut off what is negative, scale. What if nothing is left?",
        "(p - q).clamp(min=0) cuts; divide by its .sum(), unless that is 0.",
    ),
    goal=GOAL,
    judge=Bench(
        residual,
        tuple(
            trial(p, q)
            for p, q in (
                ((1, 1), (1, 1)),
                ((1, 1), (1, 0)),
                ((1, 3), (3, 1)),
                ((3, 2, 1), (1, 1, 4)),
                ((1, 4, 5, 2), (4, 4, 1, 3)),
            )
        ),
        WRONG,
        a_law,
        lambda value: "(" + ", ".join(f"{x:.4g}" for x in value) + ")",
        PRAISE,
    ).judge,
    wrong=WRONG,
    praise=PRAISE,
)
