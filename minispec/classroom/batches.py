"""Accept rules that take a batch row by row: how they are called, so that every branch is still enumerated.

A rule may loop over the rows of a batch and ask for the draws of one row at a time. Such requests do not say
for which row, so a batch of branches cannot be told apart. Handed its rows one by one, it can be enumerated.
That its rows do not influence each other is enumerated in batches of two.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from time import perf_counter

import torch
from torch import Tensor

from minispec.classroom.trials import enumerate_values, first_dependence
from minispec.core.records import Draft, Verdict
from minispec.core.rng import RoundPlan, RoundRng, SeededRng
from minispec.core.verify import Verifier
from minispec.evidence.checker.calls import Broken, CheckedRng, Refused, decide
from minispec.evidence.checker.check import SAMPLED_INSTANCES, SAMPLES
from minispec.evidence.checker.instance import Instance, PossibleDrafts
from minispec.evidence.checker.trials import TooMany, enumerate_rule, same_leaves
from minispec.evidence.proof.enumeration import EnumeratingRng, NotScripted

SECONDS = 5.0  # of sampling, where a rule draws from a generator of its own
TIMED_ROWS = 64
LEAST_SAMPLES = 500  # fewer can show nothing
RowVerdict = tuple[int, int]  # how many drafted tokens a row keeps, and the token after them


def row_by_row(rule: Verifier) -> Verifier:
    """Returns a rule for batches that calls another one once for each row."""

    def each_row(draft: Draft, target_probs: Tensor, rng: RoundRng) -> Verdict:
        accepted = []
        tokens = []
        for b, prompt_id in enumerate(rng.plan.prompt_ids):
            row = slice(b, b + 1)
            row_draft = Draft(draft.tokens[row], draft.probs[row], draft.lengths[row])
            row_plan = RoundPlan.unlimited(1, target_probs.device)._replace(prompt_ids=(prompt_id,))
            verdict = rule.decide(row_draft, target_probs[row], RoundRng(rng.source, row_plan))
            if not isinstance(verdict, Verdict) or verdict.accepted.shape != (1,):
                raise Broken("for one row it did not return a Verdict of one row")
            accepted.append(verdict.accepted)
            tokens.append(verdict.token)
        return Verdict(torch.cat(accepted), torch.cat(tokens))

    return replace(rule, decide=each_row)


def follows_scripts(rule: Verifier, instances: Sequence[Instance]) -> bool:
    """Whether a rule draws for all rows at once, so that batches of branches can be told apart.

    False also for a rule that draws from a generator of its own. A rule that refuses batches, or breaks,
    follows scripts as far as is known.
    """
    for instance in instances:
        drafts = instance.drafts()
        try:
            if not same_leaves(enumerate_rule(rule, drafts), enumerate_rule(rule, drafts, reverse=True)):
                return False
        except (Broken, Refused, TooMany):
            continue
        except NotScripted:
            return False
    return True


def samples_in_time(rule: Verifier, instance: Instance) -> int:
    """Returns how many samples of each instance a rule takes in five seconds for all of them, 500 at least.

    It is timed on 64 rows of one instance. There are no more than `check_verifier` takes by itself.
    """
    drafts = instance.drafts()
    rows = torch.arange(TIMED_ROWS) % len(drafts)
    started = perf_counter()
    try:
        decide(rule, drafts, rows, SeededRng(0))
    except (Broken, Refused):
        return SAMPLES  # it refuses this batch, and whoever samples it finds that out
    per_row = (perf_counter() - started) / TIMED_ROWS
    return max(LEAST_SAMPLES, min(SAMPLES, int(SECONDS / per_row / SAMPLED_INSTANCES)))


def rows_that_influence(rule: Verifier, instances: Sequence[Instance]) -> str:
    """Enumerates a rule on all pairs of neighbouring drafts; describes the first pair that goes wrong.

    In a batch of two, what comes of both rows must be as probable as what comes of each alone, multiplied.
    The text is empty if it is, or if the rule takes no batch at all.

    Raises:
        Broken: if the rule takes one of the rows neither in a batch nor alone.
        NotScripted: if it draws from a generator of its own.
    """
    for instance in instances:
        drafts = instance.drafts()
        single = [verdicts_on(rule, drafts, [row]) for row in range(len(drafts))]
        for first, second in pairwise(range(len(drafts))):
            try:
                joint = verdicts_on(rule, drafts, [first, second])
            except (Broken, Refused):
                return ""
            dependence = first_dependence(single[first], single[second], joint)
            if dependence is not None:
                return describe_pair(drafts, (first, second), *dependence)
    return ""


def verdicts_on(
    rule: Verifier, drafts: PossibleDrafts, rows: Sequence[int]
) -> dict[tuple[RowVerdict, ...], float]:
    """Enumerates a rule on a batch of rows as a whole; returns what comes of all rows, and how probably."""

    def run(rng: EnumeratingRng) -> tuple[RowVerdict, ...]:
        last, token = decide(rule, drafts, torch.tensor(rows), CheckedRng(rng))
        return tuple(zip(last.tolist(), token.tolist(), strict=True))

    return dict(enumerate_values(run))


def describe_pair(
    drafts: PossibleDrafts,
    rows: tuple[int, int],
    verdicts: tuple[RowVerdict, ...],
    expected: float,
    actual: float,
) -> str:
    """Writes down two rows, what may come of them, and the probabilities that differ."""
    lines = ["two rows in one batch"]
    for row, (kept, token) in zip(rows, verdicts, strict=True):
        tokens = drafts.draft.tokens[row, : int(drafts.draft.lengths[row])].tolist()
        lines.append(f"  drafted {tokens}: keeps {kept}, then {token}")
    lines.append(f"both together should have probability {expected:.4g}; it is {actual:.4g}")
    return "\n".join(lines)
