"""Replay: the decisions of the library in C++, enumerated as those of the core are.

A script tells the core's code which outcome to take. It cannot tell the library: that gets random numbers,
and decides by them. But all of its decisions are inversions. An outcome is taken where the number lies in the
outcome's interval of [0, 1): for a token, from the sum of the probabilities before it to the sum with it; for
a test, [0, p/q) is a yes. So a branch is replayed in three steps:

1. The core's code walks the branch by its script, and every open decision notes the interval of the outcome
   that it takes. It makes them in the order in which the library uses its numbers: position by position, and
   row by row at each.
2. The library decides by numbers next to the lower ends of these intervals, and again by numbers next to
   their upper ends. Both times it must use as many numbers as decisions were open, and decide the same.
3. What the *library* decided is the outcome of the branch, and counts with the branch's probability.

Why two numbers stand for all in between: the outcome of an inversion is monotone in its number. If both ends
of an interval lead to the same outcome, so does each number of it. So the intervals in which the library
decides are those of the core, up to the distance of the numbers from the ends, a 10⁻⁹th of the interval. Then
a distribution that is right when it is put together from the library's outcomes is the distribution of its
output under uniform numbers, up to about 10⁻⁹ of each probability.

A decision that the core's generator takes to be certain, with a probability of `CERTAIN`, uses no number, and
is none here.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")
Interval = tuple[float, float]

SHARE = 1e-9  # of an interval: so far from its ends are the numbers
SPACING = 4e-15  # sums of probabilities are rounded by less
UNUSED = 0.5  # what stands after the numbers that should be used
SAME = 1e-12  # probabilities that two forwards report may differ by this


class Differs(ValueError):
    """The library does not decide as the core's code does."""


def interval_of(probabilities: Sequence[float], choice: int) -> Interval:
    """Returns where in [0, 1) a number must lie for an outcome, by its index, to be taken."""
    low = sum(probabilities[:choice])
    return low, low + probabilities[choice]


def replay(native: Callable[[Tensor], tuple[int, T]], intervals: Sequence[Interval], most: int) -> T:
    """Has the library take a branch, by [most] numbers at most; returns what it decided (see `Lender`).

    The intervals are those of the outcomes that the branch takes, in the order in which numbers are used.
    `Differs` says if it used more or fewer, or decided differently at the two ends of them.
    """
    answers = []
    for numbers in zip(*map(ends, intervals), strict=True) if intervals else [()] * 2:
        padded_numbers = torch.full((max(most, len(numbers)),), UNUSED, dtype=torch.float64)
        padded_numbers[: len(numbers)] = torch.tensor(numbers, dtype=torch.float64)
        used, answer = native(padded_numbers)
        if used != len(intervals):
            raise Differs(f"{len(intervals)} decisions are open, and the C++ used {used} numbers")
        answers.append(answer)
    if not alike(*answers):
        raise Differs("the C++ decides differently at the two ends of the intervals of one branch")
    return answers[0]


def ends(interval: Interval) -> tuple[float, float]:
    """Returns a number next to the lower end of an interval, and one next to its upper end, both inside."""
    low, high = interval
    inset = min(SHARE * (high - low) + SPACING, (high - low) / 4)
    return low + inset, high - inset


def alike(first: Any, second: Any) -> bool:
    """Whether two answers are the same: tensors, or records of tensors such as `Verdict` and `Draft`."""
    if isinstance(first, Tensor):
        return torch.allclose(first, second, rtol=0, atol=SAME)
    if first is None or second is None:  # a chain has no parents and no path
        return first is second
    return all(map(alike, vars(first).values(), vars(second).values()))
