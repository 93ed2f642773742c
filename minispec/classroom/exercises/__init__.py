"""The exercises, in the order of the notebooks, each with its right answer."""

from minispec.classroom.exercise import Exercise
from minispec.classroom.exercises import (
    choosing,
    counting,
    drafting,
    greedy,
    rejection,
    sampling,
    serving,
    trees,
    without_model,
)
from minispec.classroom.exercises.texts import TEXTS

MODULES = (choosing, counting, drafting, greedy, rejection, sampling, serving, trees, without_model)
CODE = {one.key: one for module in MODULES for one in vars(module).values() if isinstance(one, Exercise)}
EXERCISES = tuple(CODE[key] for key in TEXTS)
