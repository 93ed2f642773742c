"""Is an accept rule lossless? `check_verifier` finds out, for anybody's rule.

It tries the rule on some 300 small instances. The draft is drawn from its own distributions, the rule
decides, the target finishes the text; the joint distribution of K+1 tokens must be the target's. For a tree
of candidates it is one token more than the tree is deep. Every branch is enumerated if the rule draws from
its `rng`; the rule is sampled if it has a random number generator of its own. The first instance that fails
is the smallest of those tried.

What a pass means: on these instances, nothing else. A rule that is wrong only beyond K = 4, or V = 5, passes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from minispec.core.rng import SeededRng
from minispec.core.verify import Verifier
from minispec.evidence.checker.calls import Broken, decide
from minispec.evidence.checker.instance import Instance, PossibleDrafts
from minispec.evidence.checker.instances import standard_instances
from minispec.evidence.checker.report import FALSE_ALARM, Report
from minispec.evidence.checker.trials import (
    MOST_ROWS,
    SMALL,
    InstanceResult,
    compare_exactly,
    compare_samples,
    repeats_itself,
)
from minispec.evidence.proof.enumeration import NotScripted

TOLERANCE = 1e-10
SAMPLES = 50_000  # of an instance, where rows go in batches
SINGLY = 20  # where they go one by one, samples are so many times fewer
SAMPLED_INSTANCES = 24
SINGLY_INSTANCES = 12
SAMPLED_DRAFTS = 27  # no more drafts than this in an instance that is sampled


def check_verifier(
    rule: Verifier,
    *,
    instances: Sequence[Instance] | None = None,
    tolerance: float = TOLERANCE,
    samples: int = SAMPLES,
    seed: int = 0,
) -> Report:
    """Finds out whether an accept rule keeps the target's distribution.

    Args:
        rule: (draft, target_probs [B, K+1, V], rng) -> Verdict; see `Verifier`.
        instances: what to try; by default `standard_instances()`. For a rule that only claims temperature 0
            give `greedy_instances()`; for a rule for trees `tree_instances()`, of the kinds that it claims.
        tolerance: probabilities of texts may differ by this, where they are exact.
        samples: how many to draw of an instance, if the rule has to be sampled; a twentieth of it, if it
            takes one row at a time.
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
        return Checker(rule, tried, tolerance, samples, seed).judge()


@dataclass(frozen=True)
class Checker:
    """A rule under test, and how it is tested: the arguments of `check_verifier`."""

    rule: Verifier
    family: Sequence[Instance]
    tolerance: float
    samples: int
    seed: int

    def judge(self) -> Report:
        """Enumerates if the rule can be enumerated, in batches or row by row; samples if not."""
        refusal = self.refuses_batches()
        if refusal is None:
            results, stopped = self.enumerate_all(self.family, MOST_ROWS)
            if stopped is None:
                return self.report(self.with_diagnosis(results), "exact")
            notes = [f"in a batch it follows no script: {stopped}"]
        else:
            notes = [f"it takes one row at a time: {refusal}"]
        small = [instance for instance in self.family if instance.vocab_size**instance.k <= SMALL]
        results, stopped = self.enumerate_all(small, 1)
        if stopped is not None:
            notes.append(f"alone it follows no script: {stopped}")
            # What it did that no rule may do holds however it draws; its distribution was luck.
            broken = [one for one in results if one.reason and one.distance is None]
            return self.report([*broken, *self.sample_all(refusal is not None)], "sampled", *notes)
        notes.append(f"row by row {len(small)} small instances were enumerated")
        if refusal is not None:
            return self.report(results, "exact", *notes)
        drawn = self.sample_all(one_by_one=False)
        notes.append(f"{len(drawn)} were sampled in batches")
        return self.report(self.with_diagnosis([*results, *drawn]), "exact", *notes)

    def report(
        self, results: Sequence[InstanceResult], method: Literal["exact", "sampled"], *notes: str
    ) -> Report:
        """Sorts results by size and leaves out what was skipped."""
        tried = sorted((one for one in results if not one.skipped), key=lambda one: one.instance.size)
        if len(tried) < len(results):
            notes += (f"{len(results) - len(tried)} with too many branches were left out",)
        return Report(tuple(tried), method, notes)

    def refuses_batches(self) -> str | None:
        """Says why the rule takes each row, but not several at once; None if it takes several."""
        batches = (one.drafts() for one in self.family if one.k)
        drafts = next((drafts for drafts in batches if len(drafts) > 1), None)
        if drafts is None:
            return None
        every = torch.arange(len(drafts))
        refusal = self.complaint(drafts, every)
        return None if any(self.complaint(drafts, row) for row in every.split(1)) else refusal

    def complaint(self, drafts: PossibleDrafts, rows: Tensor) -> str | None:
        """Says what goes wrong when the rule is called on some rows [B], whatever comes out."""
        try:
            decide(self.rule, drafts, rows, SeededRng(0))
        except Broken as broken:
            return str(broken)
        return None

    def enumerate_all(
        self, family: Sequence[Instance], most_rows: int
    ) -> tuple[list[InstanceResult], str | None]:
        """Enumerates all instances, or until the rule leaves its script; says why it stopped, if it did."""
        results: list[InstanceResult] = []
        confirmed = False
        for instance in family:
            try:
                result = compare_exactly(self.rule, instance, most_rows, self.tolerance)
                if result.texts and not confirmed:  # a wrong distribution, or luck that looked like one
                    repeats_itself(self.rule, instance, most_rows)
                    confirmed = True
                results.append(result)
            except NotScripted as stopped:
                return results, str(stopped)
        return results, None

    def sample_all(self, one_by_one: bool) -> list[InstanceResult]:
        """Samples instances that are spread over the family, each with its share of the false alarm."""
        fit = [instance for instance in self.family if instance.vocab_size**instance.k <= SAMPLED_DRAFTS]
        most = SINGLY_INSTANCES if one_by_one else SAMPLED_INSTANCES
        chosen = fit[:: max(1, -(-len(fit) // most))]
        count = max(1, self.samples // SINGLY) if one_by_one else self.samples
        share = FALSE_ALARM / max(1, len(chosen))
        return [
            compare_samples(self.rule, instance, count, share, self.seed + 2 * number, one_by_one)
            for number, instance in enumerate(chosen)
        ]

    def with_diagnosis(self, results: list[InstanceResult]) -> list[InstanceResult]:
        """Adds to the first failure whether it happens in batches only."""
        first = min((one for one in results if one.reason), key=lambda one: one.instance.size, default=None)
        if first is None:
            return results
        try:
            alone = compare_exactly(self.rule, first.instance, 1, self.tolerance)
        except NotScripted:
            return results
        if alone.reason or alone.skipped:
            return results
        told = replace(first, reason=f"{first.reason}; each row alone is right")
        return [told if one is first else one for one in results]
