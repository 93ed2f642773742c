"""Exercises on sampled text: write the verifier, and write a test that finds wrong ones."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from minispec.classroom.batches import follows_scripts, row_by_row, rows_that_influence, samples_in_time
from minispec.classroom.exercise import Judgement, equal, exercise, failed, sentence
from minispec.classroom.parts import RowRng
from minispec.classroom.rules import BUGS, RULES, SOUND, rule_with
from minispec.classroom.running import (
    LATE,
    NO_RETURN,
    Malformed,
    Outcome,
    attempt,
    called,
    nested,
    time_limit,
)
from minispec.core.records import Draft, Verdict
from minispec.core.rng import RoundRng, SeededRng
from minispec.core.verify import Verifier, accept_rejection, as_verifier, verify_greedy
from minispec.evidence.checker.calls import Broken, Refused
from minispec.evidence.checker.check import SAMPLES, check_verifier
from minispec.evidence.checker.guard import OutOfTime
from minispec.evidence.checker.instance import Instance
from minispec.evidence.checker.instances import fractions, one_token, standard_instances
from minispec.evidence.checker.report import Report
from minispec.evidence.checker.trials import TooMany, enumerate_rule, text_distribution
from minispec.evidence.proof.enumeration import NotScripted
from minispec.evidence.zoo.mutants import mutant_named

SECONDS = 60
ENOUGH = 6  # bugs for a test to find


# The verifier.

# What a rule is called with first: one drafted token, three ids.
P = torch.tensor([[3.0, 2.0, 1.0], [1.0, 1.0, 4.0], [2.0, 3.0, 1.0]]).double() / 6
Q = torch.tensor([[1.0, 1.0, 4.0], [3.0, 1.0, 2.0]]).double() / 6
# Where rules show who they are: zeros, several positions, distributions that differ by position, and padding.
VARIED = (
    ((fractions(3, 1),), (fractions(1, 2),), (fractions(2, 3),)),
    ((fractions(1, 1),), (fractions(3, 1),)),
)
TELLING = (
    one_token(fractions(3, 2, 1), fractions(1, 1, 4)),
    one_token(fractions(3, 2, 1), fractions(1, 1, 4), fractions(1, 1, 2)),
    Instance(*VARIED),
    Instance(*VARIED, (1, 2)),
)


def bonus_after_rejection(draft: Draft, target_probs: Tensor, rng: RoundRng) -> Verdict:
    """A wrong rule: a row's last token comes from the bonus's distribution also after a rejection.

    target_probs is [B, K+1, V].
    """
    accepted = accept_rejection(draft, target_probs, rng).accepted
    rows = torch.arange(len(accepted))
    return Verdict(accepted, rng.categorical(target_probs[rows, draft.lengths]))


def distributions_of(rule: Verifier) -> tuple[Any, ...]:
    """Returns what a rule says on the telling instances, exactly."""
    distributions: list[Any] = []
    for instance in TELLING:
        drafts = instance.drafts()
        try:
            leaves = enumerate_rule(rule, drafts, 1).values()
            distributions.append(nested(text_distribution(leaves, instance, drafts).tolist()))
        except (Broken, NotScripted, Refused, TooMany) as error:
            distributions.append(str(error))
    return tuple(distributions)


def judge_verifier(answer: Any) -> Judgement:
    """Asks `check_verifier`, and looks whether the rule is a well-known wrong one."""
    rule = as_verifier(answer)
    draft = Draft(torch.tensor([[2]]), Q[None, :1])
    try:
        with time_limit(SECONDS):
            outcome = attempt(called, rule.decide, (draft, P[None, :2], RowRng(SeededRng(0))), verdict)
            if outcome.kind:
                return failed(outcome)
            report, between = checked(rule)
            distributions = () if report.passed else distributions_of(rule)
    except OutOfTime:
        return failed(LATE)
    if report.passed and between:
        return Judgement("wrong", NOT_APART, between)
    if report.passed:
        praise = VERIFIER.praise if report.method == "exact" else SAMPLED
        return Judgement("right", praise, str(report))
    messages = (
        message for message, wrong in VERIFIER.wrong.values() if equal(distributions, distributions_of(wrong))
    )
    return Judgement("wrong", next(messages, sentence(report.reason or "it failed")), str(report))


def verdict(value: Any) -> Verdict:
    """Reads a Verdict."""
    if not isinstance(value, Verdict):
        raise Malformed(f"a Verdict(accepted, token) is wanted, and it returned a {type(value).__name__}")
    return value


def checked(rule: Verifier) -> tuple[Report, str]:
    """Asks `check_verifier`: with one drafted token first, then with two, where nearly all bugs show.

    A rule whose batches cannot be enumerated is handed one row at a time, and then pairs of rows; one that
    draws from a generator of its own is sampled for some seconds. Returns the report, and a description of
    rows that influence each other; empty if none do.
    """
    checkable = rule
    samples = SAMPLES
    scripted = follows_scripts(rule, TELLING)
    if not scripted and follows_scripts(row_by_row(rule), TELLING):
        checkable = row_by_row(rule)
    elif not scripted:
        samples = samples_in_time(rule, TELLING[-1])
    groups = FEW_FIRST if scripted else FEW_FIRST[-1:]  # row by row or sampled, each instance once is enough
    for few in groups:
        instances = [instance for instance in standard_instances() if instance.k in few]
        report = check_verifier(checkable, instances=instances, samples=samples)
        if not report.passed:
            break
    by_row = report.passed and checkable is not rule
    return report, rows_that_influence(rule, TELLING) if by_row else ""


FEW_FIRST = ((0, 1), (2,), tuple(range(9)))  # drafted tokens
SAMPLED = "No counterexample, but it was only sampled: it has random numbers of its own. Draw with rng."
NOT_APART = "Each row alone is right, and in a batch they influence each other. Draw for each row anew."
KNOWN = (
    "correction-from-p",
    "ratio-inverted",
    "going-on-after-a-rejection",
    "bonus-from-the-place-before",
    "padding-tested",
)
VERIFIER = exercise(
    "write-the-verifier",
    wrong={bug: rule_with(bug) for bug in KNOWN}
    | {"bonus-after-a-rejection": bonus_after_rejection, "greedy": verify_greedy},
    judged_by=judge_verifier,
)


# The test.


def judge_test(answer: Any) -> Judgement:
    """Asks a test about all rules, and says what its pattern of alarms means."""
    outcomes: dict[str, Outcome] = {}
    try:
        with time_limit(SECONDS):
            for name, rule in RULES.items():
                outcome = attempt(called, answer, (rule,), bool)
                if outcome.blank:
                    return failed(outcome)
                if name in SOUND and outcome.kind not in ("", NO_RETURN, "AssertionError"):
                    return failed(replace(outcome, fault=f"with {name}, {outcome.fault}"))
                outcomes[name] = outcome
    except OutOfTime:
        return failed(too_slow(len(outcomes)))
    # With asserts, to return nothing is to pass; a bug may break anything, also a test.
    silent = [outcome for outcome in outcomes.values() if outcome.kind == NO_RETURN]
    if len(silent) == len(RULES):
        return failed(silent[0])
    alarms = [n for n, outcome in outcomes.items() if outcome not in silent and outcome.value is not True]
    bugs = [name for name in alarms if name in BUGS]
    if bugs == alarms and len(bugs) >= ENOUGH:
        return Judgement("right", TEST.praise, score(alarms))
    message = f"It finds {len(bugs)} of {len(BUGS)} bugs; {ENOUGH} are wanted. Look at those it misses."
    typical = pattern(alarms)
    return Judgement("wrong", TEST.wrong[typical][0] if typical else message, score(alarms))


def too_slow(count: int) -> Outcome:
    """Says how far a test came in its time, and what makes it faster."""
    fault = f"after {SECONDS} seconds it had come to an end for {count} of {len(RULES)} rules"
    return replace(LATE, fault=f"{fault}. Call the verifier once, with a draft of many rows.")


def score(alarms: Sequence[str]) -> str:
    """Writes which bugs a test has found, and which right rules it called wrong."""
    false = [name for name in alarms if name in SOUND]
    count = len(alarms) - len(false)
    lines = [f"bugs found: {count} of {len(BUGS)}, false alarms: {len(false)} of {len(SOUND)}"]
    lines += [f"! alarm at a right rule: {name}" for name in false]
    for bug in BUGS:
        lines.append(f"{'✓ found ' if bug in alarms else '– missed'} {bug}: {mutant_named(bug).title}")
    return "\n".join(lines)


def pattern(alarms: Sequence[str]) -> str:
    """Returns the typical test whose pattern of alarms this is, or an empty string."""
    shipped, other_numbers, coupled = (name in alarms for name in SOUND)
    if shipped:
        return "always-false" if len(alarms) == len(RULES) else "too-few-samples"
    if other_numbers:
        return "same-draws"
    if coupled:
        return "acceptance"
    if not alarms:
        return "always-true"
    if len(alarms) <= 2:
        return "temperature-0"
    return "one-token" if set(alarms) <= set(BUGS[:5]) else ""


SHALLOW = ("always-true", "always-false", "temperature-0", "same-draws", "acceptance", "one-token")
TEST = exercise("write-a-test", wrong=dict.fromkeys((*SHALLOW, "too-few-samples")), judged_by=judge_test)
