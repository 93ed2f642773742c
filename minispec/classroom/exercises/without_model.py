"""Exercises on drafts without a draft model: what a look-up finds and proposes, and where heads go on."""

from collections.abc import Callable
from math import ceil
from typing import Any

from minispec.classroom.exercise import exercise
from minispec.classroom.running import Malformed, ids, whole
from minispec.classroom.trials import call

Range = Callable[[int, int], range]


def matching(
    sizes: Range = lambda length, most: range(min(most, length - 1), 0, -1),
    ends: Range = lambda length, n: range(length - 1, n - 1, -1),
    begins: bool = False,
) -> Callable[..., tuple[int, int]]:
    """Returns an answer: a wrong one tries other sizes or places, or says where a match begins."""

    def longest_match(text: list[int], most: int) -> tuple[int, int]:
        for n in sizes(len(text), most):
            for end in ends(len(text), n):
                if text[end - n : end] == text[-n:]:
                    return n, end - n * begins
        return 0, 0

    return longest_match


TEXTS = [[1], [1, 2], [1, 2, 1], [1, 1], [1, 2, 1, 2], [1, 2, 1, 3, 1], [7, 8, 9], [1, 1, 1, 1]]
TEXTS += [[1, 2, 3, 4, 1, 2, 3, 4], [4, 1, 2, 5, 1, 2, 6, 2, 1, 2]]
MATCH = exercise(
    "longest-match",
    wrong={
        "shortest-first": matching(sizes=lambda length, most: range(1, min(most, length - 1) + 1)),
        "finds-itself": matching(ends=lambda length, n: range(length, n - 1, -1)),
        "earliest-place": matching(ends=lambda length, n: range(n, length)),
        "most-forgotten": matching(sizes=lambda length, most: range(length - 1, 0, -1)),
        "where-it-begins": matching(begins=True),
    },
    right=matching(),
    trials=tuple(call("longest_match", text, 3) for text in TEXTS),
    read=lambda value: ids(value, "two whole numbers, (n, end),", count=2),
)


def draft_length(match: int, per_match: float, k: int, room: int) -> int:
    """Returns match · per_match, rounded up, but no more than K, nor than the room less one."""
    return min(k, room - 1, ceil(per_match * match))


LIMITS = [(0, 1.5, 4, 9), (1, 1.0, 4, 9), (1, 1.5, 4, 9), (2, 1.5, 4, 9), (3, 0.5, 4, 9), (5, 1.5, 4, 9)]
LIMITS += [(5, 1.5, 8, 9), (5, 1.5, 8, 4), (3, 1.5, 8, 1), (20, 1.5, 16, 40)]
LENGTH = exercise(
    "draft-length",
    wrong={
        "match-ignored": lambda match, per_match, k, room: min(k, room - 1),
        "rounded-down": lambda match, per_match, k, room: min(k, room - 1, int(per_match * match)),
        "no-limit": lambda match, per_match, k, room: min(room - 1, ceil(per_match * match)),
        "last-token-drafted": lambda match, per_match, k, room: min(k, room, ceil(per_match * match)),
    },
    right=draft_length,
    trials=tuple(call("draft_length", *given) for given in LIMITS),
    read=whole,
)


def start_and_stale(value: Any) -> tuple[int, tuple[int, ...]]:
    """Reads a number and a list of numbers."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise Malformed("a pair (start, stale) is wanted, a number and a list")
    return whole(value[0], "start: a whole number"), ids(value[1], "stale: a list of whole numbers")


def after(k: int, accepted: int) -> list[int]:
    """Returns the states that have read a rejected token: those after the last accepted one."""
    return [*range(accepted + 1, k + 1)]


STATES = exercise(
    "medusa-states",
    wrong={
        "last-state": lambda k, accepted: (k, after(k, accepted)),
        "state-of-the-correction": lambda k, accepted: (accepted + 1, after(k, accepted)),
        "state-of-the-old-pending-token": lambda k, accepted: (0, after(k, accepted)),
        "accepted-called-stale": lambda k, accepted: (accepted, [accepted, *after(k, accepted)]),
        "none-stale": lambda k, accepted: (accepted, []),
    },
    right=lambda k, accepted: (accepted, after(k, accepted)),
    trials=tuple(call("medusa_states", *given) for given in ((1, 0), (1, 1), (3, 1), (3, 0), (3, 3), (4, 2))),
    read=start_and_stale,
)
