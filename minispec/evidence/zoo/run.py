"""The zoo: every bug we know of, planted in the shipped code, and the check that finds it.

For each mutant the smallest case that shows its damage is looked for. There every check is asked. A mutant
that no check of ours kills is a survivor: it says that the checks are too weak. The unmutated code must pass
all of them on all cases: else they are too strict, or the code is wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from math import prod
from time import perf_counter

from minispec.core.rng import SeededRng
from minispec.evidence.proof.branches import branches, outcomes
from minispec.evidence.proof.cases import Case, size_ordered_cases
from minispec.evidence.proof.distributions import (
    Distribution,
    Enumerated,
    exact_distributions,
    speculative_distributions,
    total_variation,
)
from minispec.evidence.theory.statistics import check_sample
from minispec.evidence.zoo.checks import CHECKS, Check
from minispec.evidence.zoo.kill_matrix import EXACT, Cell, Damage, Specimen, Zoo
from minispec.evidence.zoo.mutants import MUTANTS
from minispec.evidence.zoo.mutation import Mutant, planted

SAMPLES = 10_000  # rows per prompt, where damage cannot be walked through
MOST_WAYS = 200  # where rows influence each other, batches are walked through one branch at a time
FALSE_ALARM = 1e-9  # of each sampled damage
GENERATOR = "minispec.core.rng:SeededRng"  # its bugs are not met by a walk, which brings its own chance


def zoo(
    mutants: Sequence[Mutant] = MUTANTS,
    cases: Sequence[Case] | None = None,
    checks: Sequence[Check] = CHECKS,
    seed: int = 0,
    tell: Callable[[str], None] = lambda _: None,
) -> Zoo:
    """Plants every mutant, and asks every check.

    Args:
        mutants: to plant, one at a time.
        cases: from the smallest up; by default the ladder.
        checks: to ask.
        seed: of the ladder's models, and of sampled damage.
        tell: told what is being done.
    """
    started = perf_counter()
    cases = size_ordered_cases(seed) if cases is None else cases
    unmutated = {}
    for case in cases:
        tell(f"the shipped code: {case.name}")
        unmutated[case.name] = {check.name: ask(check, case) for check in checks}
    sound: dict[tuple[str, bool], tuple[list[Distribution], Enumerated]] = {}
    specimens = []
    for mutant in mutants:
        tell(mutant.name)
        specimens.append(examine(mutant, cases, checks, seed, sound))
    return Zoo(tuple(specimens), tuple(checks), unmutated, perf_counter() - started)


def examine(
    mutant: Mutant,
    cases: Sequence[Case],
    checks: Sequence[Check],
    seed: int,
    sound: dict[tuple[str, bool], tuple[list[Distribution], Enumerated]],
) -> Specimen:
    """Finds the smallest case that shows a mutant and on which a check of ours kills it.

    Where no case shows what the mutant is said to do, the first one on which it is killed will do.

    Args:
        mutant: to plant.
        cases: from the smallest up.
        checks: to ask.
        seed: of sampled damage.
        sound: what is known of the cases without the mutant; what is missing is added.
    """
    for must_show in (True, False):
        for case in cases:
            key = (case.name, mutant.crosses_rows)
            if mutant.crosses_rows and ways_together(case) > MOST_WAYS:
                continue
            if key not in sound:
                sound[key] = (exact_distributions(case), speculative_distributions(case, mutant.crosses_rows))
            with planted(mutant):
                damage = damage_of(mutant, case, seed, *sound[key])
                if must_show and not damage.shows(mutant.effect):
                    continue
                cells = {check.name: ask(check, case) for check in checks}
            if any(cells[check.name].killed for check in checks if check.ours):
                return Specimen(mutant, case.name, damage, cells)
    return Specimen(mutant, None, damage, cells)


def ways_together(case: Case) -> int:
    """Returns how many ways chance can take in a batch of all prompts: the product of the rows' own."""
    ways = [0] * len(case.prompts)
    for branch in branches(case):
        ways[branch.prompt] += 1
    return prod(ways)


def ask(check: Check, case: Case) -> Cell:
    """Asks a check; an exception is an answer too."""
    try:
        reason = check.ask(case)
    except Exception as error:  # a bug may do anything
        return Cell(True, describe(error), crashed=True)
    return Cell(reason is not None, reason)


def damage_of(
    mutant: Mutant, case: Case, seed: int, exact: Sequence[Distribution], sound: Enumerated
) -> Damage:
    """Measures what a planted mutant does.

    Args:
        mutant: planted already.
        case: the setting.
        seed: of samples.
        exact: the right law of each prompt.
        sound: the figures without the mutant.
    """
    try:
        if mutant.effect == "biased" and mutant.function.startswith(GENERATOR):
            distances = [
                sampled_distance(case, prompt, seed, exact[i]) for i, prompt in enumerate(case.prompts)
            ]
            same = (sound.acceptance, sound.acceptance), (sound.tokens_per_call, sound.tokens_per_call)
            return Damage(max(distances), False, *same)
        found = speculative_distributions(case, mutant.crosses_rows)
    except Exception as error:  # a bug may do anything
        nothing = (sound.acceptance, None), (sound.tokens_per_call, None)
        return Damage(None, True, *nothing, crash=describe(error))
    distances = [total_variation(got, want) for got, want in zip(found.distributions, exact, strict=True)]
    worst = max(distances)
    return Damage(
        worst if not worst <= EXACT else 0.0,
        True,
        (sound.acceptance, found.acceptance),
        (sound.tokens_per_call, found.tokens_per_call),
    )


def sampled_distance(case: Case, prompt: tuple[int, ...], seed: int, law: Distribution) -> float:
    """Returns the total variation between samples and a law; 0 where the samples could be the law's.

    Rows of one batch are the samples. With samples of the law itself the result is above 0 with a chance of
    1e-9 at most; a law that is off by 0.1 is seen almost surely (see `check_sample`).
    """
    rows = [prompt] * SAMPLES
    counts = Counter(outcomes(list(case.rounds(rows, SeededRng(seed))), SAMPLES))
    test = check_sample(case.name, counts, law, FALSE_ALARM)
    return 0.0 if test.passed else test.distance


def describe(error: Exception) -> str:
    """Returns an exception in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())
