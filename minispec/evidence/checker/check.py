"""Is an acceptance rule lossless? `check_verifier` finds out, for anybody's rule.

It tries the rule on some 300 small instances. The draft is drawn from its own distributions, the rule
decides, the target finishes the text; the joint distribution of K+1 tokens must be the target's. For a tree
of candidates it is one token more than the tree is deep. Every branch is enumerated if the rule draws from
its `rng`; the rule is sampled if it has a random number generator of its own. The instance that is shown is
the smallest that fails; what is wrong is told by the one with the largest damage.

What a pass means: on these instances, nothing else. A rule that is wrong only beyond K = 4, or V = 5, passes.
A rule that takes none of them is tried on larger ones. What was left out, and why, stands in the report; a
report on no instance at all is no pass.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from minispec.core.rng import SEEDS, SeededRng, checked_seed
from minispec.core.verify import Decide, Verifier, as_verifier
from minispec.evidence.checker.calls import Broken, Refused, decide
from minispec.evidence.checker.guard import called, time_limit
from minispec.evidence.checker.instance import Instance, PossibleDrafts
from minispec.evidence.checker.instances import (
    greedy_instances,
    large_instances,
    standard_instances,
    tree_instances,
)
from minispec.evidence.checker.report import FALSE_ALARM, Report, worst_failure
from minispec.evidence.checker.trials import (
    BRANCHES,
    MAX_ROWS,
    SMALL,
    InstanceResult,
    compare_exactly,
    compare_samples,
    confirm_repeatable,
)
from minispec.evidence.proof.enumeration import NotScripted

TOLERANCE = 1e-10
MAX_TOLERANCE = 0.01  # what may differ by more is no rounding
SAMPLES = 50_000  # of an instance, where rows go in batches
SINGLY = 20  # where they go one by one, samples are so many times fewer
SAMPLED_INSTANCES = 24
SINGLY_INSTANCES = 12
SAMPLED_DRAFTS = 27  # no more drafts than this in an instance that is sampled


def check_verifier(
    verifier: Verifier | Decide,
    *,
    instances: Sequence[Instance] | None = None,
    tolerance: float = TOLERANCE,
    samples: int = SAMPLES,
    seed: int = 0,
    limit: float | None = None,
) -> Report:
    """Finds out whether an acceptance rule keeps the target's distribution.

    Args:
        verifier: a `Verifier`, or a function (draft, target_probs [B, K+1, V], rng) -> Verdict; rng is a
            `RoundRng`. It may refuse a draft that it was not made for: it raises NotImplementedError, and the
            instance is left out.
        instances: what to try; by default `standard_instances()`, or `greedy_instances()` for a verifier
            that needs temperature 0. If it takes none of these, `large_instances()` are tried. For trees give
            `tree_instances()`; those with other candidates than the `Verifier` is for are left out.
        tolerance: probabilities of texts may differ by this, where they are exact.
        samples: how many to draw of an instance, if the rule has to be sampled; a twentieth of it, if it
            takes one row at a time.
        seed: of everything that is drawn, 0 to 2³² − 1. Torch's own generator is seeded too, for rules that
            use it, and is put back.
        limit: seconds that one call of the rule may take, or None. It needs the main thread, and a system
            that has SIGALRM.

    Returns:
        The report; print it.

    Raises:
        ValueError: if there is no instance, or an argument is unusable.
        ImportError: if the rule needs what is not installed.
    """
    if not 0 <= tolerance <= MAX_TOLERANCE:
        raise ValueError(f"tolerance must be 0 to {MAX_TOLERANCE:g}, not {tolerance}")
    if samples < 1:
        raise ValueError(f"samples must be 1 or more, not {samples}")
    seed = checked_seed(seed)
    with time_limit(limit):
        pass  # whether it can be kept is found out before the rule is called
    verifier = as_verifier(verifier)
    if limit is not None:
        verifier = replace(verifier, decide=partial(called, verifier.decide, limit=limit))
    if instances is None:
        family: Sequence[Instance] = greedy_instances() if verifier.greedy else standard_instances()
    else:
        family = sorted(instances, key=lambda instance: instance.size)
    if not family:
        raise ValueError("there is no instance to try; give at least one")
    family, omitted = split_by_candidates(verifier, family)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        checker = Checker(verifier, family, tolerance, samples, seed)
        report = checker.judge()
        if instances is not None:
            return replace(report, omitted=(*omitted, *report.omitted))
        if not any(result.applies for result in report.results):
            larger = replace(checker, family=large_instances(certain=verifier.greedy), is_small=False).judge()
            if any(result.applies for result in larger.results):
                report = report.refused_for(larger)
        notes = report.notes
        if verifier.greedy:
            notes += ("it needs temperature 0, and was tried at temperature 0 only",)
        tree_drafts = tree_instances("with replacement")[0].drafts()
        if checker.call_error(tree_drafts, torch.arange(1)) is None:
            notes += ("it takes trees of candidates too, and was tried on chains only",)
    return replace(report, notes=notes)


def split_by_candidates(
    verifier: Verifier, family: Sequence[Instance]
) -> tuple[Sequence[Instance], list[InstanceResult]]:
    """Returns the instances whose candidates the rule is for, and the others with the reason to omit them."""
    if verifier.candidates == "any":
        return family, []
    kept = [instance for instance in family if verifier.accepts_candidates(instance.drafts().draft)]
    why = f"the {verifier.name} rule is for independent candidates, and these are not: "
    others = [instance for instance in family if instance not in kept]
    return kept, [InstanceResult(instance, left_out=why + instance.choice) for instance in others]


@dataclass(frozen=True)
class Checker:
    """A rule under test, and how it is tested: the arguments of `check_verifier`."""

    verifier: Verifier
    family: Sequence[Instance]
    tolerance: float
    samples: int
    seed: int
    is_small: bool = True  #: whether instances with many drafts are left out where the rule is slow

    def judge(self) -> Report:
        """Enumerates if the rule can be enumerated, in batches or row by row; samples if not."""
        refusal = self.refuses_batches()
        if refusal is None:
            results, reason = self.enumerate_all(self.family, MAX_ROWS)
            if reason is None:
                return self.with_single_rows(self.report(self.with_samples(results), "exact", why=BRANCHES))
            notes = [f"in a batch it follows no script: {reason}"]
        else:
            notes = [f"it takes one row at a time: {refusal}"]
        family = self.small_instances(SMALL)
        results, reason = self.enumerate_all(family, 1)
        if reason is not None:
            notes.append(f"alone it follows no script: {reason}")
            # What it did that no rule may do holds however it draws; its distribution was luck.
            broken = [result for result in results if result.reason and result.distance is None]
            sampled = self.sample_all(refusal is not None)
            why = "it is sampled, on some instances only"
            return self.report([*broken, *sampled], "sampled", *notes, why=why)
        notes.append(f"row by row {len(family)} small instances were enumerated")
        why = f"row by row, those with more than {SMALL} drafts take too long"
        if refusal is None:
            sampled = self.sample_all(one_by_one=False)
            notes.append(f"{len(sampled)} were sampled in batches")
            results += sampled
        return self.with_single_rows(self.report(results, "exact", *notes, why=why))

    def report(
        self,
        results: Sequence[InstanceResult],
        method: Literal["exact", "sampled"],
        *notes: str,
        why: str,
    ) -> Report:
        """Sorts results by size, and adds what was not tried at all; `why` says why it was not."""
        tried = {id(result.instance) for result in results}
        rest = [
            InstanceResult(instance, left_out=why) for instance in self.family if id(instance) not in tried
        ]
        results = sorted([*results, *rest], key=lambda result: result.instance.size)
        checked = tuple(result for result in results if result.left_out is None)
        omitted = tuple(result for result in results if result.left_out is not None)
        return Report(checked, method, notes, omitted)

    def small_instances(self, max_drafts: int) -> list[Instance]:
        """Returns the instances with at most so many drafts."""
        return [
            instance
            for instance in self.family
            if instance.vocab_size**instance.k <= max_drafts or not self.is_small
        ]

    def refuses_batches(self) -> str | None:
        """Says why the rule takes each row, but not several at once; None if it takes several.

        It is asked on the smallest instance of which it takes a row.
        """
        for drafts in (instance.drafts() for instance in self.family if instance.k):
            rows = torch.arange(len(drafts))
            if len(drafts) == 1 or not self.is_small and len(drafts) > SAMPLED_DRAFTS:
                continue
            refusal = self.call_error(drafts, rows)
            if refusal is None:
                return None
            if not any(self.call_error(drafts, row) for row in rows.split(1)):
                return refusal
        return None

    def call_error(self, drafts: PossibleDrafts, rows: Tensor) -> str | None:
        """Says what goes wrong when the rule is called on some rows [B], whatever comes out."""
        try:
            decide(self.verifier, drafts, rows, SeededRng(0))
        except (Broken, Refused) as broken:
            return str(broken)
        return None

    def enumerate_all(
        self, family: Sequence[Instance], max_rows: int
    ) -> tuple[list[InstanceResult], str | None]:
        """Enumerates all instances, or until the rule leaves its script; says why it stopped, if it did."""
        results: list[InstanceResult] = []
        confirmed = False
        for instance in family:
            try:
                result = compare_exactly(self.verifier, instance, max_rows, self.tolerance)
                if result.texts and not confirmed:  # a wrong distribution, or luck that looked like one
                    confirm_repeatable(self.verifier, instance, max_rows)
                    confirmed = True
                results.append(result)
            except NotScripted as error:
                return results, str(error)
        return results, None

    def with_samples(self, results: Sequence[InstanceResult]) -> list[InstanceResult]:
        """Samples some instances of those with too many branches to enumerate."""
        too_large = [result.instance for result in results if result.left_out == BRANCHES]
        enumerated = [result for result in results if result.left_out != BRANCHES]
        return [*enumerated, *self.sample(too_large[:SAMPLED_INSTANCES], one_by_one=False)]

    def sample_all(self, one_by_one: bool) -> list[InstanceResult]:
        """Samples instances that are spread over the family."""
        small = self.small_instances(SAMPLED_DRAFTS)
        most = SINGLY_INSTANCES if one_by_one else SAMPLED_INSTANCES
        chosen = small[:: max(1, -(-len(small) // most))]
        return self.sample(chosen, one_by_one)

    def sample(self, chosen: Sequence[Instance], one_by_one: bool) -> list[InstanceResult]:
        """Samples instances, each with its share of the false alarm."""
        share = FALSE_ALARM / max(1, len(chosen))
        count = max(1, self.samples // SINGLY) if one_by_one else self.samples
        return [
            compare_samples(
                self.verifier, instance, count, share, (self.seed + 2 * number) % SEEDS, one_by_one
            )
            for number, instance in enumerate(chosen)
        ]

    def with_single_rows(self, report: Report) -> Report:
        """Adds whether each row alone is right.

        That is tried where the rule is most wrong, of the instances that are small enough to be tried row by
        row.
        """
        small = [
            result
            for result in report.results
            if result.instance.vocab_size**result.instance.k <= SAMPLED_DRAFTS
        ]
        worst = worst_failure(small)
        if worst is None or not self.is_small:
            return report
        try:
            single = compare_exactly(self.verifier, worst.instance, 1, self.tolerance)
        except NotScripted:
            return report
        return replace(report, in_batches_only=single.reason is None and single.left_out is None)
