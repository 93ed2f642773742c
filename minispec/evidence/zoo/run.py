"""The zoo: every bug we know of, planted in the shipped code, and the checks that find it.

For each mutant the smallest case that shows its damage is looked for, and all checks are made there. A mutant
that no check of ours kills is a survivor: the checks are too weak. The unmutated code must pass all of them
on all cases: else they are too strict, or the code is wrong.

Bugs of the C++ are planted and found in the same way, on the cases as the native backend decodes them. Where
there is no native backend they are left out.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from math import prod
from time import perf_counter

from minispec.core.model import GPT
from minispec.evidence.checker.calls import one_line
from minispec.evidence.proof.cases import Case, Text
from minispec.evidence.proof.distributions import (
    Distribution,
    Enumerated,
    branches,
    exact_distributions,
    speculative_distributions,
    total_variation,
)
from minispec.evidence.proof.families import read_cases
from minispec.evidence.proof.sampling import Experiment
from minispec.evidence.theory.statistics import check_sample
from minispec.evidence.zoo.check_distributions import EXACT
from minispec.evidence.zoo.checks import CHECKS, Check, on_native
from minispec.evidence.zoo.matrix import CheckResult, Damage, Specimen, Zoo
from minispec.evidence.zoo.mutants import MUTANTS
from minispec.evidence.zoo.mutation import Mutant, called_code, find_patch, planted
from minispec.io.files import read_table
from minispec.native.decisions import NativeRng
from minispec.native.library import why_missing

SAMPLES = 10_000  # rows per prompt, where damage cannot be enumerated
NATIVE_ROWS = 2_500  # of a batch in C++
MAX_JOINT_BRANCHES = 200  # where rows influence each other, batches are enumerated one branch at a time
FALSE_ALARM = 1e-9  # of each sampled damage
GENERATOR = "minispec.core.rng:SeededRng"  # an enumeration brings its own rng, and does not meet its bugs


def size_ordered_cases(seed: int = 0) -> tuple[Case, ...]:
    """Returns the cases on which the zoo looks for a bug, smallest first; the seed is that of the models.

    They are read from cases.toml; its first lines say in which order they stand.
    """
    return tuple(read_cases(read_table(__file__, "cases.toml")["groups"], seed))


def zoo(
    mutants: Sequence[Mutant] = MUTANTS,
    cases: Sequence[Case] | None = None,
    checks: Sequence[Check] = CHECKS,
    seed: int = 0,
    tell: Callable[[str], None] = lambda _: None,
) -> Zoo:
    """Plants every mutant, one at a time, and makes every check, on cases from the smallest up.

    By default these are `size_ordered_cases`. The seed is of the cases' models, and of sampled damage.
    """
    started = perf_counter()
    cases = size_ordered_cases(seed) if cases is None else cases
    if not cases:
        raise ValueError("there is no case to try; give at least one")
    native_count = sum(mutant.is_native for mutant in mutants)
    left_out = None
    if native_count and (reason := why_missing()):
        left_out = f"{native_count} mutants: {reason}"
        mutants = [mutant for mutant in mutants if not mutant.is_native]
        checks = [check for check in checks if not check.native]
    # Tests of other projects ignore the case.
    foreign_results = {check: run_check(check, cases[0]) for check in checks if not check.ours}
    foreign_code = {check: called_code(partial(run_check, check, cases[0])) for check in foreign_results}
    unmutated = {}
    for case in cases:
        tell(f"the shipped code: {case.name}")
        results = {check.name: foreign_results.get(check) or run_check(check, case) for check in checks}
        unmutated[case.name] = results
    case_code = {case: called_code(partial(speculative_distributions, case)) for case in cases}
    specimens = []
    for mutant in mutants:
        tell(mutant.name)
        function = find_patch(mutant).function
        code = None if function is None else function.__code__
        unaffected = {
            check: foreign_results[check] for check in foreign_code if code not in foreign_code[check]
        }
        if code is None:
            table_cases = mutant.path.endswith("decisions.h")  # table models come to the decisions only
            affected_cases = [case for case in cases if table_cases or isinstance(case.target, GPT)]
        else:
            affected_cases = [case for case in cases if code in case_code[case]]
        specimens.append(find_specimen(mutant, affected_cases or cases, checks, seed, unaffected))
    return Zoo(tuple(specimens), tuple(checks), unmutated, perf_counter() - started, left_out)


def find_specimen(
    mutant: Mutant,
    cases: Sequence[Case],
    checks: Sequence[Check],
    seed: int,
    unaffected: Mapping[Check, CheckResult],
) -> Specimen:
    """Finds the smallest case that shows a mutant and on which a check of ours kills it.

    Where no case shows the effect that the mutant should have, the first one on which it is killed will do.
    `unaffected` has the results of checks that do not call the mutated code.
    """
    for needs_effect in (True, False):
        for case in cases:
            if mutant.crosses_rows and count_joint_branches(case) > MAX_JOINT_BRANCHES:
                continue
            exact, shipped = references(case, mutant.crosses_rows)
            with planted(mutant):
                damage = measure_damage(mutant, case, seed, exact, shipped)
                if needs_effect and not damage.shows(mutant.effect):
                    continue
                cells = {check.name: unaffected.get(check) or run_check(check, case) for check in checks}
            if any(cells[check.name].killed for check in checks if check.ours):
                return Specimen(mutant, case.name, damage, cells)
    return Specimen(mutant, None, damage, cells)


@cache
def count_joint_branches(case: Case) -> int:
    """Returns how many branches a batch of all prompts has: the product over its rows."""
    return prod(Counter(branch.prompt for branch in branches(case)).values())


@cache
def references(case: Case, together: bool) -> tuple[list[Distribution], Enumerated]:
    """Returns the exact distributions, and what the shipped loop does; call it before a bug is planted."""
    return exact_distributions(case), speculative_distributions(case, together)


def run_check(check: Check, case: Case) -> CheckResult:
    """Makes a check; an exception counts as a kill."""
    try:
        reason = check.ask(case)
    except Exception as error:  # a bug may do anything
        return CheckResult(True, one_line(error), crashed=True)
    return CheckResult(reason is not None, reason)


def measure_damage(
    mutant: Mutant, case: Case, seed: int, exact: Sequence[Distribution], shipped: Enumerated
) -> Damage:
    """Measures what a mutant, planted already, does to a case, beside what is right and what is shipped.

    The generators' bugs are seen in samples only, and so are those of the C++: enumeration compares it with
    the core, branch by branch, and ends at the first difference.
    """
    sampled = mutant.effect == "biased" and (mutant.is_native or mutant.function.startswith(GENERATOR))
    mutated = shipped
    distances = [0.0]
    try:
        if sampled:
            experiment = Experiment(case, SAMPLES)
            if mutant.is_native:
                experiment = Experiment(on_native(case), SAMPLES, NATIVE_ROWS, rng=NativeRng)
            distances = [
                measure_sampled_distance(experiment, prompt, expected, seed)
                for prompt, expected in zip(case.prompts, exact, strict=True)
            ]
        elif not mutant.is_native:
            mutated = speculative_distributions(case, mutant.crosses_rows)
            distances = list(map(total_variation, mutated.distributions, exact))
    except Exception as error:  # a bug may do anything
        crash = one_line(error)
        return Damage(None, True, (shipped.acceptance, None), (shipped.tokens_per_call, None), crash)
    max_distance = max(distances)
    return Damage(
        max_distance if not max_distance <= EXACT else 0.0,
        not sampled,
        (shipped.acceptance, mutated.acceptance),
        (shipped.tokens_per_call, mutated.tokens_per_call),
    )


def measure_sampled_distance(experiment: Experiment, prompt: Text, exact: Distribution, seed: int) -> float:
    """Returns the total variation between samples and what is right; 0 where the samples could be right.

    Rows of one batch are the samples. For right samples the result is above 0 with a probability of 1e-9 at
    most; a distribution that is off by 0.1 is seen almost surely (see `check_sample`).
    """
    counts = replace(experiment, case=replace(experiment.case, prompts=(prompt,))).draw(seed)
    expected = {tokens: p for (tokens, _), p in exact.items()}
    test = check_sample(experiment.case.name, counts, expected, FALSE_ALARM)
    return 0.0 if test.passed else test.distance
