"""The zoo: every bug we know of, planted in the shipped code, and the checks that find it.

For each mutant the smallest case that shows its damage is looked for, and all checks are made there. A mutant
that no check of ours kills is a survivor: the checks are too weak. The unmutated code must pass all of them
on all cases: else they are too strict, or the code is wrong.

Bugs of the C++ are planted and found in the same way, on the cases as the native backend decodes them. Where
there is no native backend they are left out.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from math import prod
from time import perf_counter
from typing import Any

from minispec.core.model import GPT
from minispec.core.rng import SeededRng
from minispec.evidence.proof.cases import Case
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
from minispec.evidence.zoo.check_native import no_library, on_native
from minispec.evidence.zoo.checks import CHECKS, Check
from minispec.evidence.zoo.mutants import MUTANTS
from minispec.evidence.zoo.mutation import Effect, Mutant, build_all, code_run, find_function, planted
from minispec.native.decisions import NativeRng

EXACT = 1e-10  # what differs by less differs by rounding
SAMPLES = 10_000  # rows per prompt, where damage cannot be enumerated
AT_ONCE = 2_500  # rows of a batch in C++
MOST_BRANCHES = 200  # where rows influence each other, batches are enumerated one branch at a time
FALSE_ALARM = 1e-9  # of each sampled damage
GENERATOR = "minispec.core.rng:SeededRng"  # an enumeration brings its own rng, and does not meet its bugs

Unmutated = tuple[list[Distribution], Enumerated]  # the right distributions, and what the shipped loop does


@dataclass(frozen=True)
class CheckResult:
    """What one check said: whether it found something wrong, what, and whether that is an exception."""

    killed: bool
    reason: str | None = None
    crashed: bool = False


@dataclass(frozen=True)
class Damage:
    """What a mutant does to one case.

    Attributes:
        total_variation: between the distribution of its output and the right one, the worst of the case's
            prompts; None if it crashes.
        exact: whether that was enumerated; else it was sampled, and is 0 where a sample saw nothing.
        acceptance: accepted over tested tokens, without and with the mutant.
        tokens_per_call: tokens per target call of a row, without and with the mutant.
        crash: the exception, if there was one.
    """

    total_variation: float | None
    exact: bool
    acceptance: tuple[float | None, float | None]
    tokens_per_call: tuple[float | None, float | None]
    crash: str | None = None

    def shows(self, effect: Effect) -> bool:
        """Whether the case shows what the mutant is said to do."""
        if self.crash or effect == "breaks":
            return True
        if effect == "biased":
            return self.total_variation is not None and not self.total_variation <= EXACT
        return any(a - b > EXACT for _, a, b in self.changes())

    def changes(self) -> list[tuple[str, float, float]]:
        """Returns what the mutant changes in speed: name, without it, with it."""
        named = (("acceptance", self.acceptance), ("tokens per call", self.tokens_per_call))
        return [(name, a, b) for name, (a, b) in named if a is not None and b is not None and a != b]


@dataclass(frozen=True)
class Specimen:
    """One mutant, the name of the smallest case that shows it, its damage there, and what the checks said."""

    mutant: Mutant
    instance: str | None
    damage: Damage
    cells: dict[str, CheckResult]

    @property
    def harm(self) -> str:
        """What the mutant spoils, and by how much, in a few words."""
        if self.instance is None:
            return "none was found"
        if self.damage.crash:
            return f"crash: {self.damage.crash}"
        if self.mutant.effect == "breaks":
            return self.mutant.harm
        if self.mutant.effect == "biased":
            sampled = "" if self.damage.exact else ", sampled"
            return f"total variation {self.damage.total_variation:.2g}{sampled}"
        return ", ".join(f"{name} {a:.3f} → {b:.3f}" for name, a, b in self.damage.changes())

    def to_json(self) -> dict[str, Any]:
        """Returns everything as plain data, but for who kills it."""
        return {
            **self.mutant.to_json(),
            "harm": self.harm,
            "instance": self.instance,
            "damage": vars(self.damage),
            "cells": {name: vars(cell) for name, cell in self.cells.items()},
        }


@dataclass(frozen=True)
class Zoo:
    """The kill matrix: a specimen per mutant, and for each case what each check said of the shipped code.

    `left_out` says why there are no mutants of the C++; it is None if there are.
    """

    specimens: tuple[Specimen, ...]
    checks: tuple[Check, ...]
    unmutated: dict[str, dict[str, CheckResult]]
    seconds: float
    left_out: str | None = None

    def killers(self, specimen: Specimen) -> list[str]:
        """Returns the names of our checks that kill a mutant."""
        return [check.name for check in self.checks if check.ours and specimen.cells[check.name].killed]

    @property
    def survivors(self) -> list[str]:
        """The mutants that no check of ours kills."""
        return [specimen.mutant.name for specimen in self.specimens if not self.killers(specimen)]

    @property
    def false_alarms(self) -> list[str]:
        """What was said against the shipped code: case, check and reason."""
        return [
            f"{case}: {check}: {cell.reason}"
            for case, cells in self.unmutated.items()
            for check, cell in cells.items()
            if cell.killed
        ]

    @property
    def passed(self) -> bool:
        """Whether every mutant is killed, and the shipped code is not."""
        return not self.survivors and not self.false_alarms

    def missed(self, check: str) -> list[str]:
        """Returns the mutants that a check misses."""
        return [specimen.mutant.name for specimen in self.specimens if not specimen.cells[check].killed]

    def to_json(self) -> dict[str, Any]:
        """Returns everything as plain data."""
        checks = []
        for check in self.checks:
            missed = self.missed(check.name)
            kills = len(self.specimens) - len(missed)
            about = {"name": check.name, "promise": check.promise, "ours": check.ours}
            checks.append({**about, "kills": kills, "misses": missed})
        return {
            "passed": self.passed,
            "mutants": [{**one.to_json(), "killed_by": self.killers(one)} for one in self.specimens],
            "survivors": self.survivors,
            "unmutated": {
                "cases": list(self.unmutated),
                "killed_by": sorted({alarm.split(": ")[1] for alarm in self.false_alarms}),
                "reasons": self.false_alarms,
            },
            "checks": checks,
            "left_out": self.left_out,
            "seconds": self.seconds,
        }


def zoo(
    mutants: Sequence[Mutant] = MUTANTS,
    cases: Sequence[Case] | None = None,
    checks: Sequence[Check] = CHECKS,
    seed: int = 0,
    tell: Callable[[str], None] = lambda _: None,
) -> Zoo:
    """Plants every mutant, and makes every check.

    Args:
        mutants: to plant, one at a time.
        cases: from the smallest up; by default `size_ordered_cases`.
        checks: to make.
        seed: of the cases' models, and of sampled damage.
        tell: told what is being done.
    """
    started = perf_counter()
    tell("building")
    cases = size_ordered_cases(seed) if cases is None else cases
    left_out = no_library() if any(one.is_native for one in mutants) else None
    if left_out is not None:
        mutants = [mutant for mutant in mutants if not mutant.is_native]
        checks = [check for check in checks if not check.native]
    build_all(mutants)
    unmutated = {}
    theirs = {check: answer(check, cases[0]) for check in checks if not check.ours}  # they look at no case
    for case in cases:
        tell(f"the shipped code: {case.name}")
        unmutated[case.name] = {check.name: theirs.get(check) or answer(check, case) for check in checks}

    @cache
    def sound(case: Case, together: bool) -> Unmutated | None:
        """Returns what is known of a case without a mutant; None if its batch has too many branches."""
        if together and branches_together(case) > MOST_BRANCHES:
            return None
        return exact_distributions(case), speculative_distributions(case, together)

    called = {case: code_run(partial(speculative_distributions, case)) for case in cases}

    def met(mutant: Mutant) -> Sequence[Case]:
        """Returns the cases that come to a mutant; all of them, if only a check does."""
        if mutant.is_native:
            return [case for case in cases if meets(case, mutant)]
        code = find_function(mutant.function).__code__
        return [case for case in cases if code in called[case]] or cases

    specimens = []
    for mutant in mutants:
        tell(mutant.name)
        specimens.append(examine(mutant, met(mutant), checks, seed, sound))
    return Zoo(tuple(specimens), tuple(checks), unmutated, perf_counter() - started, left_out)


def examine(
    mutant: Mutant,
    cases: Sequence[Case],
    checks: Sequence[Check],
    seed: int,
    sound: Callable[[Case, bool], Unmutated | None],
) -> Specimen:
    """Finds the smallest case that shows a mutant and on which a check of ours kills it.

    Where no case shows what the mutant is said to do, the first one on which it is killed will do. `sound`
    returns what is known of a case without the mutant, or None if the case is too large.
    """
    for must_show in (True, False):
        for case in cases:
            if (unmutated := sound(case, mutant.crosses_rows)) is None:
                continue
            played = on_native(case) if mutant.is_native else case
            with planted(mutant):
                damage = damage_of(mutant, played, seed, *unmutated)
                if must_show and not damage.shows(mutant.effect):
                    continue
                cells = {check.name: answer(check, case) for check in checks}
            if any(cells[check.name].killed for check in checks if check.ours):
                return Specimen(mutant, case.name, damage, cells)
    return Specimen(mutant, None, damage, cells)


def meets(case: Case, mutant: Mutant) -> bool:
    """Whether a case comes to a mutant of the C++ at all: table models meet the decisions only."""
    return mutant.path.endswith("decisions.h") or isinstance(case.target, GPT)


def branches_together(case: Case) -> int:
    """Returns how many branches a batch of all prompts has: the product of the rows' own."""
    return prod(Counter(branch.prompt for branch in branches(case)).values())


def answer(check: Check, case: Case) -> CheckResult:
    """Makes a check; an exception is an answer too."""
    try:
        reason = check.ask(case)
    except Exception as error:  # a bug may do anything
        return CheckResult(True, in_one_line(error), crashed=True)
    return CheckResult(reason is not None, reason)


def damage_of(
    mutant: Mutant, case: Case, seed: int, exact: Sequence[Distribution], shipped: Enumerated
) -> Damage:
    """Measures what a mutant, planted already, does to a case.

    exact: the right distribution for each prompt; shipped: what the shipped code does.
    """
    by_numbers = mutant.function.startswith(GENERATOR) or mutant.is_native
    sampled = mutant.effect == "biased" and by_numbers
    try:
        if sampled:
            found = shipped
            rng = NativeRng if mutant.is_native else SeededRng
            rows = AT_ONCE if mutant.is_native else SAMPLES
            given = Experiment(case, SAMPLES, rows, rng=rng)
            pairs = zip(case.prompts, exact, strict=True)
            worst = max(sampled_distance(given, prompt, want, seed) for prompt, want in pairs)
        elif mutant.is_native:  # enumeration compares it with the core, branch by branch: it has no other
            found, worst = shipped, 0.0
        else:
            found = speculative_distributions(case, mutant.crosses_rows)
            both = zip(found.distributions, exact, strict=True)
            worst = max(total_variation(got, want) for got, want in both)
    except Exception as error:  # a bug may do anything
        unknown = (shipped.acceptance, None), (shipped.tokens_per_call, None)
        return Damage(None, True, *unknown, crash=in_one_line(error))
    speed = (shipped.acceptance, found.acceptance), (shipped.tokens_per_call, found.tokens_per_call)
    return Damage(worst if not worst <= EXACT else 0.0, not sampled, *speed)


def sampled_distance(given: Experiment, prompt: tuple[int, ...], exact: Distribution, seed: int) -> float:
    """Returns the total variation between samples and what is right; 0 where the samples could be right.

    Rows of one batch are the samples. For right samples the result is above 0 with a probability of 1e-9 at
    most; a distribution that is off by 0.1 is seen almost surely (see `check_sample`).
    """
    counts = replace(given, case=replace(given.case, prompts=(prompt,))).draw(seed)
    wanted = {tokens: p for (tokens, _), p in exact.items()}
    test = check_sample(given.case.name, counts, wanted, FALSE_ALARM)
    return 0.0 if test.passed else test.distance


def in_one_line(error: Exception) -> str:
    """Returns an exception in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())
