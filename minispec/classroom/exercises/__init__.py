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
CODE = {one.key: one for module in MODULES for one in vars(module).values() if isinstance(one, Exercise)}
EXERCISES = tuple(CODE[key] for key in TEXTS)
