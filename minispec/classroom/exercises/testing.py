"""Notebook 9: write a test, and see which bugs it finds."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from minispec.classroom.drawing import Drawing, line
from minispec.classroom.exercise import Exercise, Finding, Wrong
from minispec.classroom.exercises.known_rules import BUGS, ONE_PLACE, SOUND, Score, score_of
from minispec.classroom.judging import sentence
from minispec.classroom.running import NOTHING, OutOfTime, time_limit, unwritten
from minispec.core.records import Draft
from minispec.core.rng import SeededRng
from minispec.core.verify import Verifier, verify_rejection
from minispec.evidence.zoo.mutants import mutant_named

SECONDS = 60
ENOUGH = 6

STUB = '''def my_test(verifier):
    """Returns True if the verifier seems to keep the target's law, else False.

    Choose p and q. Make a draft of many rows, its tokens drawn from q, call
    verifier(draft, target_probs, rng), and count what comes out in each row:
    the drafted tokens that were kept, then verdict.token.
    Draft(tokens [B, K], q [B, K, V]), target_probs [B, K + 1, V], rng = SeededRng(seed),
    rng.categorical(law [B, V]) -> ids [B].
    """
    ...
'''

GOAL = Drawing(
    (
        line("", "right rule", "bug 1", "bug 2", "bug 3"),
        line("no test", "", ("missed", "rejected"), ("missed", "rejected"), ("missed", "rejected")),
        line("a test", ("passes", "draft"), ("found", "draft"), ("missed", "rejected"), ("found", "draft")),
        line("a good one", ("passes", "draft"), ("found", "draft"), ("found", "draft"), ("found", "draft")),
    ),
    f"Find at least {ENOUGH} of the {len(BUGS)} bugs, and raise no alarm at a right rule.",
)

P = torch.tensor([[3.0, 2.0, 1.0], [1.0, 1.0, 4.0], [2.0, 3.0, 1.0]]).double() / 6
Q = torch.tensor([[1.0, 1.0, 4.0], [3.0, 1.0, 2.0]]).double() / 6


def frequencies(verifier: Verifier, p: Tensor, q: Tensor, rows: int, slack: float) -> bool:
    """Counts first and second tokens of sampled rounds: what most tests look like.

    Args:
        verifier: to be tested.
        p: [K+1, V].
        q: [K, V].
        rows: samples.
        slack: how far a frequency may be off.
    """
    k, size = q.shape
    rng = SeededRng(5)
    laws = q.expand(rows, k, size)
    tokens = torch.stack([rng.categorical(laws[:, i]) for i in range(k)], 1)
    verdict = verifier(Draft(tokens, laws), p.expand(rows, k + 1, size), rng)
    text = torch.cat([tokens, torch.zeros(rows, 1, dtype=torch.long)], 1)
    text[torch.arange(rows), verdict.accepted] = verdict.token
    seconds = text[verdict.accepted >= 1, 1]
    shares = [torch.bincount(tokens, minlength=size) / len(tokens) for tokens in (text[:, 0], seconds)]
    return all(bool((share - p[i]).abs().max() < slack) for i, share in enumerate(shares))


def at_temperature_0(verifier: Verifier) -> bool:
    """Takes one-hot laws; the draft agrees in the first place, and not in the second."""
    p = torch.eye(3, dtype=torch.float64)
    return frequencies(verifier, p, p[[0, 2]], 500, 0.01)


def same_draws(verifier: Verifier) -> bool:
    """Compares token by token with the shipped rule."""
    p, q = torch.tensor([3.0, 2.0, 1.0]).double() / 6, torch.tensor([1.0, 1.0, 4.0]).double() / 6
    tokens = SeededRng(0).categorical(q.expand(500, 3))[:, None]
    draft, probs = Draft(tokens, q.expand(500, 1, 3)), p.expand(500, 2, 3)
    mine, theirs = verifier(draft, probs, SeededRng(1)), verify_rejection(draft, probs, SeededRng(1))
    return torch.equal(mine.token, theirs.token)


def accepts_as_often(verifier: Verifier) -> bool:
    """Looks at the share of accepted tokens."""
    p, q = torch.tensor([3.0, 2.0, 1.0]).double() / 6, torch.tensor([1.0, 1.0, 4.0]).double() / 6
    rng = SeededRng(0)
    tokens = rng.categorical(q.expand(20_000, 3))[:, None]
    verdict = verifier(Draft(tokens, q.expand(20_000, 1, 3)), p.expand(20_000, 2, 3), rng)
    return bool((verdict.accepted.double().mean() - 0.5).abs() < 0.02)


WRONG = (
    Wrong(
        "always-true",
        "Your test finds nothing: it would pass whatever the rule does. Can it fail at all?",
        lambda verifier: True,
    ),
    Wrong(
        "always-false",
        "Your test calls right rules wrong, and all others too. A test has to be able to pass.",
        lambda verifier: False,
    ),
    Wrong(
        "temperature-0",
        "Your test finds next to nothing: with one-hot laws almost all bugs say the right token. Take "
        "laws with "
        "several tokens, and count.",
        at_temperature_0,
    ),
    Wrong(
        "same-draws",
        "Your test calls right rules wrong, because they use other random numbers. Two right rules agree "
        "in law, "
        "not token for token: compare frequencies.",
        same_draws,
    ),
    Wrong(
        "acceptance",
        "Your test looks at how often a rule accepts. The coupled rule accepts less and is right; a "
        "biased one "
        "can accept just as often as the right one. Count the tokens that come out.",
        accepts_as_often,
    ),
    Wrong(
        "one-place",
        "Your test looks at one drafted token, K = 1. What goes wrong between places it cannot see: take "
        "K = 2.",
        lambda verifier: frequencies(verifier, P[:2], Q[:1], 20_000, 0.02),
    ),
    Wrong(
        "too-few-samples",
        "Your test calls right rules wrong: with so few samples, frequencies wobble by more than you allow. "
        "With n samples they wobble by about 0.5/√n: allow five times that.",
        lambda verifier: frequencies(verifier, P, Q, 100, 0.08),
    ),
)

PRAISE = "It finds bugs, and believes in right rules. Which of the bugs it misses would a user notice?"


def judge_test(answer: Any) -> Finding:
    """Scores a test, and says what its pattern of alarms means."""
    if (lack := unwritten(answer)) is not None:
        return lack
    try:
        with time_limit(SECONDS):
            score = score_of(answer)
    except OutOfTime:
        return Finding(
            "wrong", f"It took more than {SECONDS} seconds for all rules together: take fewer samples."
        )
    if score.blank:
        return Finding("blank", NOTHING)
    if score.odd:
        return Finding("wrong", sentence(score.odd))
    if not score.alarms and len(score.found) >= ENOUGH:
        return Finding("right", PRAISE, score_text(score))
    message, name = diagnosis(score)
    return Finding("wrong", message, score_text(score), name)


def diagnosis(score: Score) -> tuple[str, str]:
    """Returns what to say about a test that falls short, and which typical test it is like."""
    name = pattern(score)
    if name:
        return next(wrong.message for wrong in WRONG if wrong.name == name), name
    return (
        f"It finds {len(score.found)} of {len(BUGS)} bugs; {ENOUGH} are wanted. Look at those it misses.",
        "",
    )


def pattern(score: Score) -> str:
    """Returns the typical test whose pattern of alarms this is, or an empty string."""
    shipped, other_numbers, coupled = (name in score.alarms for name in SOUND)
    if shipped:
        return (
            "always-false" if len(score.alarms + score.found) == len(SOUND) + len(BUGS) else "too-few-samples"
        )
    if other_numbers:
        return "same-draws"
    if coupled:
        return "acceptance"
    if not score.found:
        return "always-true"
    if len(score.found) <= 2:
        return "temperature-0"
    return "one-place" if set(score.found) <= set(ONE_PLACE) else ""


def score_text(score: Score) -> str:
    """Writes the score as a list."""
    lines = [
        f"bugs found: {len(score.found)} of {len(BUGS)}, false alarms: {len(score.alarms)} of {len(SOUND)}"
    ]
    lines += [f"! alarm at a right rule: {name}" for name in score.alarms]
    lines += [
        f"{'✓ found ' if bug in score.found else '– missed'} {bug}: {mutant_named(bug).title}" for bug in BUGS
    ]
    return "\n".join(lines)


EXERCISE = Exercise(
    key="write-a-test",
    title="Write a test that finds bugs",
    notebook=9,
    difficulty=3,
    minutes=20,
    stub=STUB,
    hints=(
        "Take p = (3, 2, 1)/6 and q = (1, 1, 4)/6, 20,000 rows, K = 1: does token 0 come first in half "
        "of them?",
        "With K = 2, put verdict.token behind the kept tokens, and compare how often each pair of first and "
        "second token comes with p; where none was kept there is only a first one. Allow 5 · 0.5/√n.",
    ),
    goal=GOAL,
    judge=judge_test,
    wrong=WRONG,
    praise=PRAISE,
)
