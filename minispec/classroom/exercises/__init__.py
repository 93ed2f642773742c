"""The exercises, in the order of the notebooks. One file for each notebook that has some."""

from __future__ import annotations

from minispec.classroom.exercise import Exercise
from minispec.classroom.exercises import (
    caches,
    distributions,
    drafting,
    greedy,
    look_up,
    mask,
    one_token,
    residual,
    rollback,
    speed,
    testing,
    verifier,
    whole_loop,
)

EXERCISES: tuple[Exercise, ...] = (
    one_token.EXERCISE,
    caches.BYTES,
    caches.POSITIONS,
    distributions.EXERCISE,
    drafting.EXERCISE,
    greedy.EXERCISE,
    mask.EXERCISE,
    residual.EXERCISE,
    verifier.EXERCISE,
    rollback.EXERCISE,
    whole_loop.EXERCISE,
    testing.EXERCISE,
    speed.EXERCISE,
    look_up.EXERCISE,
)
