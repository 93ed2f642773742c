"""Exercises on a batch that serves a queue: which prompt comes next, and what the slots of a block do."""

from collections.abc import Callable
from functools import partial
from typing import Any

from minispec.classroom.exercises.texts import exercise
from minispec.classroom.running import ids
from minispec.classroom.trials import call

Pick = Callable[[Any], list[int]]
Y, N = True, False


def free(done: list[bool]) -> list[int]:
    """Returns the rows that are done."""
    return [row for row, ended in enumerate(done) if ended]


def refill(
    done: list[bool],
    queue: list[int],
    space: list[int],
    rows: Pick = free,
    order: Pick = list,
    least: int = 1,
) -> Any:
    """Returns what takes which row, and what waits; a wrong answer takes other rows or prompts."""
    fit = [name for name in queue if space[name] >= least]
    placed = list(zip(rows(done), order(fit), strict=False))
    return placed, [name for name in fit if name not in [begun for _, begun in placed]]


def placed_and_left(value: Any) -> Any:
    """Reads pairs of a row and a name, and a list of names."""
    placed, left = value
    pairs = tuple(ids(pair, "placed: a list of pairs (row, name)", count=2) for pair in placed)
    return pairs, ids(left, "left: a list of names")


QUEUES = [([Y], [1]), ([N], [1]), ([Y], []), ([N, Y], [1]), ([Y, Y], [1]), ([Y, N, Y], [1, 2, 3])]
QUEUES += [([Y, Y], [3, 1, 2]), ([Y], [0, 2]), ([Y, Y], [0, 2, 0, 3]), ([N, Y], [1, 0])]
REFILL = exercise(
    "refill-rows",
    wrong={
        "rows-in-use": partial(refill, rows=lambda done: [*range(len(done))]),
        "one-row-only": partial(refill, rows=lambda done: free(done)[:1]),
        "last-comes-first": partial(refill, order=lambda fit: fit[::-1]),
        "one-prompt-twice": partial(refill, order=lambda fit: fit[:1] * 9),
        "still-waiting": lambda done, queue, space: (refill(done, queue, space)[0], queue),
        "no-space": partial(refill, least=0),
    },
    right=refill,
    trials=tuple(call("refill_rows", *queue, [0, 4, 1, 9]) for queue in QUEUES),
    read=placed_and_left,
)


def slots(live: list[bool], lengths: list[int], pending: int = 1, idle: int = 1) -> tuple[int, int, int]:
    """Counts useful slots, padding and idle ones; a wrong answer leaves out pending tokens or idle rows."""
    wide, used = max(lengths) + pending, sum(lengths) + pending * sum(live)
    empty = (len(live) - sum(live)) * wide * idle
    return used, len(live) * wide - used - empty, empty


BLOCKS = [([Y], [0]), ([Y], [2]), ([Y, Y], [2, 2]), ([Y, Y], [2, 0]), ([Y, N], [2, 0])]
BLOCK = exercise(
    "block-slots",
    wrong={
        "pending-forgotten": partial(slots, pending=0),
        "idle-is-padding": partial(slots, idle=0),
        "own-width": lambda live, lengths: (sum(lengths) + sum(live), 0, live.count(N)),
    },
    right=slots,
    trials=tuple(call("block_slots", *block) for block in [*BLOCKS, ([Y, N, Y, Y], [4, 0, 0, 2])]),
    read=lambda value: ids(value, "three whole numbers, (useful, padding, idle),", count=3),
)
