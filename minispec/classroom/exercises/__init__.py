"""The exercises, in the order of the notebooks, each with its right answer."""

from __future__ import annotations

from minispec.classroom.exercise import Exercise
from minispec.classroom.exercises import counting, distributions, drafting, greedy, sampling

EXERCISES: tuple[Exercise, ...] = (
    greedy.CONTINUE,
    counting.BYTES,
    counting.POSITIONS,
    distributions.TOTAL_VARIATION,
    drafting.REMEMBER_Q,
    greedy.VERIFY,
    greedy.MASK,
    distributions.RESIDUAL,
    sampling.VERIFIER,
    counting.LENGTHS,
    greedy.LOOP,
    sampling.TEST,
    counting.CHOOSE_K,
    drafting.LOOK_UP,
)
