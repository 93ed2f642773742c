"""Notebook 5: the greedy rule."""

from __future__ import annotations

from itertools import product
from typing import Any

from minispec.classroom.drawing import Drawing, line
from minispec.classroom.exercise import Exercise, Wrong
from minispec.classroom.judging import Bench, Trial, call, ids
from minispec.classroom.running import Malformed

STUB = '''def verify_greedily(drafted, best):
    """Returns (accepted, token): how many drafted ids to keep, and the id that follows them.

    drafted has K ids. best has K + 1: best[i] is the target's own choice in the place of
    drafted[i], and best[K] is its choice behind them all.
    """
    ...
'''

GOAL = Drawing(
    (
        line("drafted", ("sat", "draft"), ("on", "draft"), ("mat", "rejected"), ("and", "rejected"), ""),
        line("best", "sat", "on", ("floor", "correction"), "and", "he"),
        line("gained", ("sat", "draft"), ("on", "draft"), ("floor", "correction")),
    ),
    "accepted = 2, token = floor. The agreement behind the difference does not count.",
)


def verify_greedily(drafted: list[int], best: list[int]) -> tuple[int, int]:
    """Keeps the leading agreement; the target's own choice follows."""
    accepted = 0
    while accepted < len(drafted) and drafted[accepted] == best[accepted]:
        accepted += 1
    return accepted, best[accepted]


def all_matches(drafted: list[int], best: list[int]) -> tuple[int, int]:
    """Counts agreements wherever they are."""
    accepted = sum(a == b for a, b in zip(drafted, best, strict=False))
    return accepted, best[accepted]


def shifted(drafted: list[int], best: list[int]) -> tuple[int, int]:
    """Compares with the row behind."""
    accepted, _ = verify_greedily(drafted, best[1:])
    return accepted, best[accepted]


def no_bonus(drafted: list[int], best: list[int]) -> tuple[int, int]:
    """Keeps one token fewer if all agree, as if there were no row behind."""
    accepted, token = verify_greedily(drafted, best)
    return (accepted - 1, best[accepted - 1]) if accepted == len(drafted) > 0 else (accepted, token)


def keeps_the_rejected(drafted: list[int], best: list[int]) -> tuple[int, int]:
    """Returns the drafted token where draft and target part."""
    accepted, token = verify_greedily(drafted, best)
    return accepted, drafted[accepted] if accepted < len(drafted) else token


def last_choice(drafted: list[int], best: list[int]) -> tuple[int, int]:
    """Always takes the last row."""
    return verify_greedily(drafted, best)[0], best[-1]


def counts_the_correction(drafted: list[int], best: list[int]) -> tuple[int, int]:
    """Counts the correction as accepted."""
    accepted, token = verify_greedily(drafted, best)
    return accepted + 1, token


WRONG = (
    Wrong(
        "all-matches",
        "You count agreements behind the first difference. They were proposed for a text that is gone: "
        "stop at "
        "the first difference.",
        all_matches,
    ),
    Wrong(
        "shifted",
        "You compare with the wrong row: best[i] stands in the place of drafted[i], not one before it.",
        shifted,
    ),
    Wrong(
        "no-bonus",
        "If all K agree, keep all K: best[K] then comes on top, as a bonus.",
        no_bonus,
    ),
    Wrong(
        "keeps-the-rejected",
        "You return the drafted token that was just rejected. The target's own choice takes its place: the "
        "correction.",
        keeps_the_rejected,
    ),
    Wrong(
        "last-choice",
        "You always take the last row. The token that follows is the target's choice at the first place that "
        "was not kept: best[accepted].",
        last_choice,
    ),
    Wrong(
        "counts-the-correction",
        "accepted counts drafted tokens only. The correction or bonus comes beside them, it is not one "
        "of them.",
        counts_the_correction,
    ),
)

PRAISE = "Whatever the draft says, what comes out is what the target alone would have said."


def accepted_and_token(value: Any) -> tuple[int, ...]:
    """Reads a pair of whole numbers."""
    pair = ids(value, "a pair (accepted, token)")
    if len(pair) != 2:
        raise Malformed(f"a pair (accepted, token) is wanted, and it returned {len(pair)} numbers")
    return pair


def trials() -> tuple[Trial, ...]:
    """Returns all drafts and choices over two ids up to K = 2, and some over three with K = 3."""
    calls = [
        (d, b) for k in (0, 1, 2) for d in product((0, 1), repeat=k) for b in product((0, 1), repeat=k + 1)
    ]
    calls += [(d, b) for d in ((0, 1, 2), (2, 1, 0)) for b in product((0, 1, 2), repeat=4)]
    return tuple(call("verify_greedily", list(drafted), list(best)) for drafted, best in calls)


EXERCISE = Exercise(
    key="verify-greedily",
    title="Write the greedy verifier",
    notebook=5,
    difficulty=2,
    minutes=8,
    stub=STUB,
    hints=(
        "Go from left to right, and stop at the first place where draft and target differ.",
        "If n places agree, the answer is (n, best[n]). It is the same line for a correction and for a "
        "bonus.",
    ),
    goal=GOAL,
    judge=Bench(verify_greedily, trials(), WRONG, accepted_and_token, praise=PRAISE).judge,
    wrong=WRONG,
    praise=PRAISE,
)
