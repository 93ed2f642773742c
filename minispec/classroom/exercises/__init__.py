"""The exercises, in the order of the notebooks, each with its right answer."""

from minispec.classroom.exercise import TEXTS, Exercise
from minispec.classroom.exercises import (
    counting,
    drafting,
    greedy,
    rejection,
    sampled_loop,
    sampling,
    verifying,
)

MODULES = (counting, drafting, greedy, rejection, sampled_loop, sampling, verifying)
CODE = {
    exercise.key: exercise
    for module in MODULES
    for exercise in vars(module).values()
    if isinstance(exercise, Exercise)
}
EXERCISES = tuple(CODE[key] for key in TEXTS)
