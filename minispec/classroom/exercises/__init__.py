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
    without_model,
)
from minispec.classroom.exercises.texts import TEXTS, same_names

MODULES = (counting, distributions, drafting, greedy, one_row, sampling, serving, trees, without_model)
CODE = {one.key: one for module in MODULES for one in vars(module).values() if isinstance(one, Exercise)}
same_names("exercises", CODE, TEXTS)
EXERCISES = tuple(CODE[key] for key in TEXTS)
