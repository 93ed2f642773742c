"""Notebook 7: how long both caches are, at every moment of a round."""

from __future__ import annotations

from typing import Any

from minispec.classroom.drawing import Drawing, line
from minispec.classroom.exercise import Exercise, Wrong
from minispec.classroom.judging import Bench, call, ids
from minispec.classroom.running import Malformed

STUB = '''def cache_lengths(cached, k, accepted):
    """Returns (target_verified, draft_drafted, after, catch_up) for one round.

    Both caches hold `cached` tokens when the round begins. Then k tokens are drafted, k >= 1.
    target_verified: the target's length behind the verification pass, before rollback.
    draft_drafted: the draft's length behind drafting.
    after: the length of both caches when the round has ended.
    catch_up: how many tokens the draft must read to have that length: 0 or 1.
    """
    ...
'''

GOAL = Drawing(
    (
        line("cached = 3", ("Once", "committed"), ("the", "committed"), ("cat", "committed")),
        line(
            "target, verified",
            ("3 cached", "committed"),
            ("sat", "pending"),
            ("on", "drafted"),
            ("the", "drafted"),
            ("mat", "drafted"),
        ),
        line(
            "draft, drafted",
            ("3 cached", "committed"),
            ("sat", "pending"),
            ("on", "drafted"),
            ("the", "drafted"),
        ),
        line(
            "both, after",
            ("3 cached", "committed"),
            ("sat", "committed"),
            ("on", "committed"),
            ("the", "committed"),
            ("mat", "rejected"),
        ),
    ),
    "k = 3, accepted = 2; – is rolled back; the correction 'floor' is pending, and in neither cache. "
    "Count each row's tokens.",
)


def cache_lengths(cached: int, k: int, accepted: int) -> tuple[int, int, int, int]:
    """Returns the lengths of one round."""
    return cached + k + 1, cached + k, cached + accepted + 1, int(accepted == k)


def changed(place: int, value: Any) -> Any:
    """Returns a wrong answer: right but for one of the four numbers."""

    def answer(cached: int, k: int, accepted: int) -> tuple[int, ...]:
        numbers = list(cache_lengths(cached, k, accepted))
        numbers[place] = value(cached, k, accepted)
        return tuple(numbers)

    return answer


WRONG = (
    Wrong(
        "pending-forgotten",
        "target_verified lacks the pending token: the target reads it together with the k drafted ones.",
        changed(0, lambda cached, k, accepted: cached + k),
    ),
    Wrong(
        "draft-reads-its-last",
        "draft_drafted is one too many: the draft reads the pending token and its own guesses but the "
        "last one.",
        changed(1, lambda cached, k, accepted: cached + k + 1),
    ),
    Wrong(
        "correction-cached",
        "after is one too many: the correction or bonus is pending, and in neither cache yet.",
        changed(2, lambda cached, k, accepted: cached + accepted + 2),
    ),
    Wrong(
        "one-too-far",
        "after is one too few: the token that was pending has been read, and stays, beside the accepted "
        "ones.",
        changed(2, lambda cached, k, accepted: cached + accepted),
    ),
    Wrong(
        "never-catches-up",
        "After full acceptance the draft lacks its own last guess: it was guessed, and never read. "
        "catch_up is 1.",
        changed(3, lambda cached, k, accepted: 0),
    ),
    Wrong(
        "always-catches-up",
        "catch_up is 1 only after full acceptance. Else the draft has read more than is kept.",
        changed(3, lambda cached, k, accepted: 1),
    ),
)

PRAISE = (
    "After each round both caches hold all that is committed but the pending token. That is the invariant."
)


def four(value: Any) -> tuple[int, ...]:
    """Reads four whole numbers, in order or by name."""
    names = ("target_verified", "draft_drafted", "after", "catch_up")
    if isinstance(value, dict):
        if set(value) != set(names):
            raise Malformed(f"the names should be {', '.join(names)}")
        value = [value[name] for name in names]
    lengths = ids(value, "four whole numbers")
    if len(lengths) != 4:
        raise Malformed(f"four numbers are wanted ({', '.join(names)}), and it returned {len(lengths)}")
    return lengths


EXERCISE = Exercise(
    key="cache-lengths",
    title="Say how long both caches are",
    notebook=7,
    difficulty=2,
    minutes=6,
    stub=STUB,
    hints=(
        "Count what each model reads: the target reads one block; the draft reads what it guesses behind.",
        "The target reads 1 + k tokens, the draft 1 + (k − 1). What stays is the pending token and what was "
        "accepted.",
    ),
    goal=GOAL,
    judge=Bench(
        cache_lengths,
        tuple(
            call("cache_lengths", cached, k, accepted)
            for cached in (0, 1, 7)
            for k in (1, 2, 4)
            for accepted in range(k + 1)
        ),
        WRONG,
        four,
        praise=PRAISE,
    ).judge,
    wrong=WRONG,
    praise=PRAISE,
)
