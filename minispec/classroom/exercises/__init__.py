"""The exercises, in the order of the notebooks, each with its right answer."""

from minispec.classroom.exercise import Exercise
from minispec.classroom.exercises import (
    counting,
    distributions,
    drafting,
    greedy,
    one_row,
    sampling,
    serving,
    trees,
)
from minispec.classroom.exercises import without_model as without
from minispec.classroom.exercises.texts import TEXTS, same_names

EXERCISES: tuple[Exercise, ...] = (
    greedy.CONTINUE,
    counting.BYTES,
    counting.POSITIONS,
    distributions.TOTAL_VARIATION,
    drafting.ONE_ROW,
    drafting.REMEMBER_Q,
    greedy.VERIFY,
    greedy.MASK,
    distributions.RESIDUAL,
    one_row.ACCEPT,
    sampling.VERIFIER,
    counting.LENGTHS,
    greedy.LOOP,
    sampling.TEST,
    counting.CHOOSE_K,
    drafting.LOOK_UP,
    without.MATCH,
    without.LENGTH,
    without.STATES,
    trees.MASK,
    trees.TRY,
    trees.KEEP,
    serving.REFILL,
    serving.BLOCK,
)
same_names("exercises", [one.key for one in EXERCISES], TEXTS)
