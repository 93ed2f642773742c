"""Notebook 10: the K that pays most."""

from __future__ import annotations

from collections.abc import Callable

from minispec.classroom.drawing import Drawing, line
from minispec.classroom.exercise import Exercise, Wrong
from minispec.classroom.judging import Bench, call, whole

STUB = '''def best_k(alpha, c, most):
    """Returns the K from 0 to most with the largest gain; 0 means: do not speculate.

    alpha: the chance that a drafted token is accepted, from 0 to 1.
    c: the time of one draft step, in target steps.
    A round takes K * c + 1 target steps and gains 1 + alpha + ... + alpha**K tokens.
    """
    ...
'''

GOAL = Drawing(
    (
        line("K", "0", "1", "2", "3", "4", "5"),
        line("tokens a round", "1", "1.7", "2.19", "2.53", "2.77", "2.94"),
        line("time of a round", "1", "1.2", "1.4", "1.6", "1.8", "2.0"),
        line("gain", "1", "1.42", "1.56", ("1.58", "best"), "1.54", "1.47"),
    ),
    "alpha = 0.7, c = 0.2: the best K is 3. Beyond it, guesses cost more than they bring.",
)


def gain(alpha: float, c: float, k: int) -> float:
    """Returns tokens over time (Leviathan et al. 2023, theorem 3.8), without dividing by 1 − α."""
    return sum(alpha**i for i in range(k + 1)) / (k * c + 1)


def best_by(score: Callable[[int], float], first: int, most: int) -> int:
    """Returns the K of the largest score, the smallest one on ties."""
    return max(range(first, most + 1), key=lambda k: (score(k), -k))


def best_k(alpha: float, c: float, most: int) -> int:
    """Returns the K of the largest gain."""
    return best_by(lambda k: gain(alpha, c, k), 0, most)


def closed_form(alpha: float, c: float, most: int) -> int:
    """Divides by 1 − α, also where that is 0."""
    return best_by(lambda k: (1 - alpha ** (k + 1)) / ((1 - alpha) * (k * c + 1)), 0, most)


WRONG = (
    Wrong(
        "cost-forgotten",
        "You always take the largest K: that gains most tokens a round. Divide by the time that the "
        "round takes.",
        lambda alpha, c, most: most,
    ),
    Wrong(
        "never-zero",
        "You never return 0. Where little is accepted or the draft is slow, not to speculate is fastest.",
        lambda alpha, c, most: best_by(lambda k: gain(alpha, c, k), 1, most),
    ),
    Wrong(
        "bonus-forgotten",
        "You count accepted tokens only. A round gains one token more: the correction or the bonus.",
        lambda alpha, c, most: best_by(lambda k: gain(alpha, c, k) - 1 / (k * c + 1), 0, most),
    ),
    Wrong(
        "verification-forgotten",
        "You count the draft's time only. The round also has one target call: K · c + 1.",
        lambda alpha, c, most: best_by(lambda k: sum(alpha**i for i in range(k + 1)) / (k * c), 1, most),
    ),
    Wrong(
        "expects-k-alpha",
        "You count α·K accepted tokens. The second guess counts only if the first was accepted, so it is "
        "α + α² + …",
        lambda alpha, c, most: best_by(lambda k: (1 + alpha * k) / (k * c + 1), 0, most),
    ),
    Wrong(
        "off-by-one",
        "Your answer is one off. range(n) gives 0 to n - 1: the sum has K + 1 terms, and K may be `most`.",
        lambda alpha, c, most: best_by(
            lambda k: sum(alpha**i for i in range(max(k, 1))) / (k * c + 1), 0, most
        ),
    ),
    Wrong(
        "divides-by-zero",
        "At alpha = 1 the closed form is 0 / 0. The sum of powers is K + 1 there: sum them up instead.",
        closed_form,
    ),
)

PRAISE = "Acceptance and cost decide together; a larger K is not better by itself."

SETTINGS = (
    (0.0, 0.2, 1),
    (0.9, 0.05, 1),
    (0.7, 0.2, 5),
    (0.6, 0.5, 3),
    (0.3, 0.6, 4),
    (0.9, 0.05, 8),
    (0.95, 0.02, 6),
    (0.5, 0.01, 12),
    (0.8, 0.1, 50),
    (1.0, 0.1, 7),
)

EXERCISE = Exercise(
    key="choose-k",
    title="Choose the best K",
    notebook=10,
    difficulty=2,
    minutes=8,
    stub=STUB,
    hints=(
        "Compute the gain of every K from 0 to most, and take the largest.",
        "gain = sum(alpha**i for i in range(K + 1)) / (K * c + 1); max(range(most + 1), key=gain) picks "
        "the K.",
    ),
    goal=GOAL,
    judge=Bench(
        best_k, tuple(call("best_k", *setting) for setting in SETTINGS), WRONG, whole, praise=PRAISE
    ).judge,
    wrong=WRONG,
    praise=PRAISE,
)
