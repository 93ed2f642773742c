"""Is this accept rule lossless? Ask for anybody's.

`check_verifier` tries a rule on some 300 small instances. The draft draws by its own laws, the rule decides,
the target finishes the text; the joint law of K+1 tokens must be the target's. Chance is walked through
branch by branch if the rule draws from its `rng`, and sampled if it has a source of its own. The first
instance that fails is the smallest of those tried.

What a pass means: on these instances, nothing else. A rule that is wrong only beyond K = 4, or V = 5, passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from minispec.core.rng import SeededRng
from minispec.core.verify import Verifier
from minispec.evidence.checker.families import standard_instances
from minispec.evidence.checker.instances import Instance, Rows
from minispec.evidence.checker.play import MOST_ROWS, Broken, NotScripted, decide
from minispec.evidence.checker.report import Damage, Report
from minispec.evidence.checker.trial import TWICE, Finding, repeats_itself, sample, walk_through

__all__ = ["Damage", "Instance", "Report", "check_verifier"]

TOLERANCE = 1e-10
FALSE_ALARM = 1e-6  # for all sampled instances together
SAMPLES = 50_000  # of an instance, where rows go in batches
SINGLY = 20  # where they go one by one, samples are so many times fewer
SAMPLED_INSTANCES = 24
SINGLY_INSTANCES = 12
SAMPLED_DRAFTS = 27  # no more drafts than this in an instance that is sampled


@dataclass(frozen=True)
class Series:
    """Findings on several instances, and why the walk through them had to stop, if it had to."""

    findings: tuple[Finding, ...]
    stopped: str | None = None


def check_verifier(
    rule: Verifier,
    *,
    instances: Sequence[Instance] | None = None,
    tolerance: float = TOLERANCE,
    samples: int = SAMPLES,
    false_alarm: float = FALSE_ALARM,
    seed: int = 0,
) -> Report:
    """Finds out whether an accept rule keeps the target's law.

    Args:
        rule: (draft, target_probs [B, K+1, V], rng) -> Verdict; see `Verifier`.
        instances: what to try; by default `standard_instances()`. For a rule that only claims temperature 0
            give `greedy_instances()`.
        tolerance: chances of texts may differ by this, where they are exact.
        samples: how many to draw of an instance, if the rule has to be sampled; a twentieth of it, if it
            takes one row at a time.
        false_alarm: the chance that a right rule fails, over all that is sampled.
        seed: of everything that is drawn. Torch's own generator is seeded too, for rules that use it, and is
            put back.

    Returns:
        The report; print it.

    Raises:
        ValueError: if there is no instance.
        ImportError: if the rule needs what is not installed.
    """
    tried = sorted(standard_instances() if instances is None else instances, key=lambda one: one.size)
    if not tried:
        raise ValueError("there is no instance to try; give at least one")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return judge(rule, tried, tolerance, samples, false_alarm, seed)


def judge(
    rule: Verifier, family: Sequence[Instance], tolerance: float, samples: int, false_alarm: float, seed: int
) -> Report:
    """Walks if the rule lets itself be walked, in batches or row by row; samples if not."""
    notes: list[str] = []
    refusal = refuses_batches(rule, family)
    if refusal is None:
        series = walk_all(rule, family, MOST_ROWS, tolerance)
        if series.stopped is None:
            return report(with_diagnosis(rule, series, tolerance), "exact", 0.0, notes)
        notes.append(f"in a batch it follows no script: {series.stopped}")
    else:
        notes.append(f"it takes one row at a time: {refusal}")
    small = [instance for instance in family if instance.vocab_size**instance.k <= TWICE]
    series = walk_all(rule, small, 1, tolerance)
    if series.stopped is not None:
        notes.append(f"alone it follows no script: {series.stopped}")
        drawn = sample_all(rule, family, samples, false_alarm, seed, refusal is not None)
        return report(together(plainly_wrong(series), drawn), "sampled", false_alarm, notes)
    notes.append(f"row by row {len(small)} small instances were walked through")
    if refusal is not None:
        return report(series, "exact", 0.0, notes)
    drawn = sample_all(rule, family, samples, false_alarm, seed, False)
    notes.append(f"{len(drawn.findings)} were sampled in batches")
    return report(with_diagnosis(rule, together(series, drawn), tolerance), "exact", false_alarm, notes)


def refuses_batches(rule: Verifier, family: Sequence[Instance]) -> str | None:
    """Says why a rule does not take several rows at once, though it takes each of them; None if it does."""
    for instance in family:
        rows = instance.rows()
        if instance.k and len(rows) > 1:
            every = torch.arange(len(rows))
            refusal = complaint(rule, rows, every)
            if refusal is None or any(complaint(rule, rows, one[None]) for one in every):
                return None
            return refusal
    return None


def complaint(rule: Verifier, rows: Rows, starts: Tensor) -> str | None:
    """Says what goes wrong when a rule is called on some rows, whatever comes out.

    starts: [B], which of `rows` to call it on.
    """
    try:
        decide(rule, rows, starts, SeededRng(0))
    except Broken as broken:
        return str(broken)
    return None


def walk_all(rule: Verifier, family: Sequence[Instance], most_rows: int, tolerance: float) -> Series:
    """Walks through all instances, or until the rule leaves its script."""
    findings: list[Finding] = []
    confirmed = False
    for instance in family:
        try:
            found = walk_through(rule, instance, most_rows, tolerance)
            if found.lines and not confirmed:  # a wrong law, or luck that looked like one
                repeats_itself(rule, instance, most_rows)
                confirmed = True
            findings.append(found)
        except NotScripted as stopped:
            return Series(tuple(findings), str(stopped))
    return Series(tuple(findings))


def sample_all(
    rule: Verifier, family: Sequence[Instance], samples: int, false_alarm: float, seed: int, one_by_one: bool
) -> Series:
    """Samples instances that are spread over the family, each with its share of the false alarm."""
    fit = [instance for instance in family if instance.vocab_size**instance.k <= SAMPLED_DRAFTS]
    most = SINGLY_INSTANCES if one_by_one else SAMPLED_INSTANCES
    chosen = fit[:: max(1, -(-len(fit) // most))]
    count = max(1, samples // SINGLY) if one_by_one else samples
    share = false_alarm / max(1, len(chosen))
    return Series(
        tuple(
            sample(rule, instance, count, share, seed + 2 * number, one_by_one)
            for number, instance in enumerate(chosen)
        )
    )


def plainly_wrong(series: Series) -> Series:
    """Keeps the findings that hold however a rule draws: not its law, but what it did that no rule may."""
    return Series(tuple(one for one in series.findings if one.reason and one.distance is None))


def together(first: Series, second: Series) -> Series:
    """Puts two series together, smallest instance first."""
    both = sorted((*first.findings, *second.findings), key=lambda one: one.instance.size)
    return Series(tuple(both))


def with_diagnosis(rule: Verifier, series: Series, tolerance: float) -> Series:
    """Adds to the first failure whether it is one of batches only."""
    for number, one in enumerate(series.findings):
        if one.reason:
            try:
                alone = walk_through(rule, one.instance, 1, tolerance)
            except NotScripted:
                return series
            if alone.reason is None and not alone.skipped:
                told = replace(one, reason=f"{one.reason}; each row alone is right")
                return Series((*series.findings[:number], told, *series.findings[number + 1 :]))
            return series
    return series


def report(
    series: Series, method: Literal["exact", "sampled"], false_alarm: float, notes: Sequence[str]
) -> Report:
    """Sums findings up."""
    tried = [one for one in series.findings if not one.skipped]
    first = next((one for one in tried if one.reason), None)
    damage = None
    if first is not None and first.distance is not None:
        largest = max(one.distance for one in tried if one.reason and one.distance is not None)
        damage = Damage(
            max(0.0, first.distance - first.margin), min(1.0, first.distance + first.margin), largest
        )
    if len(tried) < len(series.findings):
        notes = [*notes, f"{len(series.findings) - len(tried)} with too many branches were left out"]
    return Report(
        passed=first is None,
        reason=first.reason if first else None,
        counterexample=first.instance if first else None,
        damage=damage,
        method=method,
        instances=len(tried),
        branches=sum(one.branches for one in tried),
        samples=sum(one.samples for one in tried),
        largest_error=max((one.error for one in tried if not one.reason), default=0.0),
        false_alarm=false_alarm,
        detects=max((one.detects for one in tried if one.samples), default=None),
        lines=first.lines if first else (),
        notes=tuple(notes),
    )
