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
from minispec.core.rng import SeededRng
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
from minispec.evidence.proof.sampling import Experiment
from minispec.evidence.theory.statistics import check_sample
from minispec.evidence.zoo.cases import size_ordered_cases
from minispec.evidence.zoo.check_distributions import EXACT
from minispec.evidence.zoo.check_native import on_native
from minispec.evidence.zoo.checks import CHECKS, Check
from minispec.evidence.zoo.matrix import CheckResult, Damage, Specimen, Zoo
from minispec.evidence.zoo.mutants import MUTANTS
from minispec.evidence.zoo.mutation import Mutant, code_run, patch_of, planted
from minispec.native.decisions import NativeRng
from minispec.native.library import why_missing

SAMPLES = 10_000  # rows per prompt, where damage cannot be enumerated
NATIVE_ROWS = 2_500  # of a batch in C++
MOST_BRANCHES = 200  # where rows influence each other, batches are enumerated one branch at a time
FALSE_ALARM = 1e-9  # of each sampled damage
GENERATOR = "minispec.core.rng:SeededRng"  # an enumeration brings its own rng, and does not meet its bugs


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
    in_cpp = sum(mutant.is_native for mutant in mutants)
    left_out = None
    if in_cpp and (reason := why_missing()):
        left_out = f"{in_cpp} mutants: {reason}"
        mutants = [mutant for mutant in mutants if not mutant.is_native]
        checks = [check for check in checks if not check.native]
    peer_results = {
        check: answer(check, cases[0]) for check in checks if not check.ours
    }  # they look at no case
    code_of = {check: code_run(partial(answer, check, cases[0])) for check in peer_results}
    unmutated = {}
    for case in cases:
        tell(f"the shipped code: {case.name}")
        unmutated[case.name] = {
            check.name: peer_results.get(check) or answer(check, case) for check in checks
        }
    code_of_case = {case: code_run(partial(speculative_distributions, case)) for case in cases}
    specimens = []
    for mutant in mutants:
        tell(mutant.name)
        function = patch_of(mutant).function
        if function is None:
            known_results = peer_results
            in_tables = mutant.path.endswith("decisions.h")  # table models come to the decisions only
            meeting = [case for case in cases if in_tables or isinstance(case.target, GPT)]
        else:
            code = function.__code__
            known_results = {
                check: result for check, result in peer_results.items() if code not in code_of[check]
            }
            meeting = [case for case in cases if code in code_of_case[case]]
        specimens.append(
            examine(mutant, meeting or cases, checks, seed, known_results)
        )  # or only a check meets it
    return Zoo(tuple(specimens), tuple(checks), unmutated, perf_counter() - started, left_out)


def examine(
    mutant: Mutant,
    cases: Sequence[Case],
    checks: Sequence[Check],
    seed: int,
    known_results: Mapping[Check, CheckResult],
) -> Specimen:
    """Finds the smallest case that shows a mutant and on which a check of ours kills it.

    Where no case shows the effect that the mutant should have, the first one on which it is killed will do.
    Checks that do not come to it have the `known_results`, as for the shipped code.
    """
    for must_show in (True, False):
        for case in cases:
            if mutant.crosses_rows and branches_together(case) > MOST_BRANCHES:
                continue
            exact, shipped = references(case, mutant.crosses_rows)
            with planted(mutant):
                damage = damage_of(mutant, case, seed, exact, shipped)
                if must_show and not damage.shows(mutant.effect):
                    continue
                cells = {check.name: known_results.get(check) or answer(check, case) for check in checks}
            if any(cells[check.name].killed for check in checks if check.ours):
                return Specimen(mutant, case.name, damage, cells)
    return Specimen(mutant, None, damage, cells)


@cache
def branches_together(case: Case) -> int:
    """Returns how many branches a batch of all prompts has: the product of the rows' own."""
    return prod(Counter(branch.prompt for branch in branches(case)).values())


@cache
def references(case: Case, together: bool) -> tuple[list[Distribution], Enumerated]:
    """Returns the right distributions, and what the shipped loop does; not for a planted bug to see."""
    return exact_distributions(case), speculative_distributions(case, together)


def answer(check: Check, case: Case) -> CheckResult:
    """Makes a check; an exception is an answer too."""
    try:
        reason = check.ask(case)
    except Exception as error:  # a bug may do anything
        return CheckResult(True, one_line(error), crashed=True)
    return CheckResult(reason is not None, reason)


def damage_of(
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
            experiment = Experiment(case, SAMPLES, rng=SeededRng)
            if mutant.is_native:
                experiment = Experiment(on_native(case), SAMPLES, NATIVE_ROWS, rng=NativeRng)
            pairs = zip(case.prompts, exact, strict=True)
            distances = [sampled_distance(experiment, prompt, want, seed) for prompt, want in pairs]
        elif not mutant.is_native:
            mutated = speculative_distributions(case, mutant.crosses_rows)
            distances = list(map(total_variation, mutated.distributions, exact))
    except Exception as error:  # a bug may do anything
        unknown = (shipped.acceptance, None), (shipped.tokens_per_call, None)
        return Damage(None, True, *unknown, crash=one_line(error))
    worst = max(distances)
    speed = (shipped.acceptance, mutated.acceptance), (shipped.tokens_per_call, mutated.tokens_per_call)
    return Damage(worst if not worst <= EXACT else 0.0, not sampled, *speed)


def sampled_distance(experiment: Experiment, prompt: Text, exact: Distribution, seed: int) -> float:
    """Returns the total variation between samples and what is right; 0 where the samples could be right.

    Rows of one batch are the samples. For right samples the result is above 0 with a probability of 1e-9 at
    most; a distribution that is off by 0.1 is seen almost surely (see `check_sample`).
    """
    counts = replace(experiment, case=replace(experiment.case, prompts=(prompt,))).draw(seed)
    expected = {tokens: p for (tokens, _), p in exact.items()}
    test = check_sample(experiment.case.name, counts, expected, FALSE_ALARM)
    return 0.0 if test.passed else test.distance
