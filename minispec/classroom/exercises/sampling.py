"""Exercises on sampled text: write the verifier, and write a test that finds wrong ones."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from minispec.classroom.batches import follows_scripts, row_by_row, rows_that_influence, samples_in_time
from minispec.classroom.exercise import Judgement, as_sentence, equal_values, exercise, judge_fault
from minispec.classroom.parts import RowRng
from minispec.classroom.rules import BUGS, RIGHT_RULES, RULES, rule_with
from minispec.classroom.running import (
    NO_RETURN,
    TIMED_OUT,
    Malformed,
    Outcome,
    as_tuples,
    call_answer,
    run_answer,
    time_limit,
)
from minispec.core.records import Verdict
from minispec.core.rng import SeededRng
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
BUGS_WANTED = 6  # bugs for a test to find


# The verifier.

# Where rules show who they are: zeros, several positions, distributions that differ by position, and padding.
VARIED_POSITIONS = (
    ((fractions(3, 1),), (fractions(1, 2),), (fractions(2, 3),)),
    ((fractions(1, 1),), (fractions(3, 1),)),
)
TELLING_INSTANCES = (
    one_token(fractions(3, 2, 1), fractions(1, 1, 4)),
    one_token(fractions(3, 2, 1), fractions(1, 1, 4), fractions(1, 1, 2)),
    Instance(*VARIED_POSITIONS),
    Instance(*VARIED_POSITIONS, (1, 2)),
)


def distributions_of(rule: Verifier) -> tuple[Any, ...]:
    """Returns the distributions of a rule on the telling instances, exactly."""
    distributions: list[Any] = []
    for instance in TELLING_INSTANCES:
        drafts = instance.drafts()
        try:
            leaves = enumerate_rule(rule, drafts, 1).values()
            distributions.append(as_tuples(text_distribution(leaves, instance, drafts).tolist()))
        except (Broken, NotScripted, Refused, TooMany) as error:
            distributions.append(str(error))
    return tuple(distributions)


def judge_verifier(answer: Any) -> Judgement:
    """Asks `check_verifier`, and looks whether the rule is a well-known wrong one."""
    rule = as_verifier(answer)
    row = TELLING_INSTANCES[1].drafts().rows(torch.tensor([2]))  # one drafted token, three ids
    try:
        with time_limit(SECONDS):
            outcome = run_answer(call_answer, rule.decide, (*row, RowRng(SeededRng(0))), read_verdict)
            if outcome.kind:
                return judge_fault(outcome)
            report, dependence = check_rule(rule)
            distributions = () if report.passed else distributions_of(rule)
    except OutOfTime:
        return judge_fault(TIMED_OUT)
    if report.passed and dependence:
        return Judgement("wrong", ROWS_DEPEND, dependence)
    if report.passed:
        praise = VERIFIER.praise if report.method == "exact" else ONLY_SAMPLED
        return Judgement("right", praise, str(report))
    messages = (
        message
        for message, wrong in VERIFIER.wrong.values()
        if equal_values(distributions, distributions_of(wrong))
    )
    return Judgement("wrong", next(messages, as_sentence(report.reason or "it failed")), str(report))


def read_verdict(value: Any) -> Verdict:
    """Reads a Verdict."""
    if not isinstance(value, Verdict):
        raise Malformed(f"a Verdict(accepted, token) is wanted, and it returned a {type(value).__name__}")
    return value


def check_rule(rule: Verifier) -> tuple[Report, str]:
    """Asks `check_verifier`: with one drafted token first, then with two, where nearly all bugs show.

    A rule whose batches cannot be enumerated is handed one row at a time, and then pairs of rows; one that
    draws from a generator of its own is sampled for some seconds. Returns the report, and a description of
    rows that influence each other; empty if none do.
    """
    checkable = rule
    samples = SAMPLES
    scripted = follows_scripts(rule, TELLING_INSTANCES)
    if not scripted and follows_scripts(row_by_row(rule), TELLING_INSTANCES):
        checkable = row_by_row(rule)
    elif not scripted:
        samples = samples_in_time(rule, TELLING_INSTANCES[-1])
    for lengths in LENGTH_GROUPS if scripted else LENGTH_GROUPS[-1:]:  # else each instance once is enough
        instances = [instance for instance in standard_instances() if instance.k in lengths]
        report = check_verifier(checkable, instances=instances, samples=samples)
        if not report.passed:
            break
    by_row = report.passed and checkable is not rule
    return report, rows_that_influence(rule, TELLING_INSTANCES) if by_row else ""


LENGTH_GROUPS = ((1,), (2,), tuple(range(9)))  # drafted tokens; a draft of none explains little
ONLY_SAMPLED = "No counterexample, but it was only sampled: it has random numbers of its own. Draw with rng."
ROWS_DEPEND = "Each row alone is right, and in a batch they influence each other. Draw for each row anew."
KNOWN_BUGS = (
    "correction-from-p",
    "ratio-inverted",
    "going-on-after-a-rejection",
    "bonus-from-the-place-before",
    "padding-tested",
)
VERIFIER = exercise(
    "write-the-verifier",
    wrong={bug: rule_with(bug) for bug in KNOWN_BUGS} | {"greedy": verify_greedy},
    right=accept_rejection,
    judged_by=judge_verifier,
)


# The test.


def judge_test(answer: Any) -> Judgement:
    """Asks a test about all rules, and says what its pattern of alarms means."""
    outcomes: dict[str, Outcome] = {}
    try:
        with time_limit(SECONDS):
            for name, rule in RULES.items():
                outcome = run_answer(call_answer, answer, (rule,), bool)
                if outcome.blank:
                    return judge_fault(outcome)
                if name in RIGHT_RULES and outcome.kind not in ("", NO_RETURN, "AssertionError"):
                    return judge_fault(replace(outcome, fault=f"with {name}, {outcome.fault}"))
                outcomes[name] = outcome
    except OutOfTime:
        fault = f"after {SECONDS} seconds it had come to an end for {len(outcomes)} of {len(RULES)} rules"
        advice = "Call the verifier once, with a draft of many rows."
        return judge_fault(replace(TIMED_OUT, fault=f"{fault}. {advice}"))
    # With asserts, to return nothing is to pass; a bug may break anything, also a test.
    silent = [outcome for outcome in outcomes.values() if outcome.kind == NO_RETURN]
    if len(silent) == len(RULES):
        return judge_fault(silent[0])
    alarms = [n for n, outcome in outcomes.items() if outcome not in silent and outcome.value is not True]
    bugs = [name for name in alarms if name in BUGS]
    if bugs == alarms and len(bugs) >= BUGS_WANTED:
        return Judgement("right", TEST.praise, describe_alarms(alarms))
    message = f"It finds {len(bugs)} of {len(BUGS)} bugs; {BUGS_WANTED} are wanted. Look at those it misses."
    typical = typical_test(alarms)
    return Judgement("wrong", TEST.wrong[typical][0] if typical else message, describe_alarms(alarms))


def describe_alarms(alarms: Sequence[str]) -> str:
    """Writes which bugs a test has found, and which right rules it called wrong."""
    false_alarms = [name for name in alarms if name in RIGHT_RULES]
    count = len(alarms) - len(false_alarms)
    lines = [f"bugs found: {count} of {len(BUGS)}, false alarms: {len(false_alarms)} of {len(RIGHT_RULES)}"]
    lines += [f"! alarm at a right rule: {name}" for name in false_alarms]
    for bug in BUGS:
        lines.append(f"{'✓ found ' if bug in alarms else '– missed'} {bug}: {mutant_named(bug).title}")
    return "\n".join(lines)


def typical_test(alarms: Sequence[str]) -> str:
    """Returns the typical test whose pattern of alarms this is, or an empty string."""
    shipped, other_numbers, coupled = (name in alarms for name in RIGHT_RULES)
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


SHALLOW_TESTS = ("always-true", "always-false", "temperature-0", "same-draws", "acceptance", "one-token")
TEST = exercise(
    "write-a-test", wrong=dict.fromkeys((*SHALLOW_TESTS, "too-few-samples")), judged_by=judge_test
)
