"""The proof: every branch of the shipped loop on small models, and samples of the trained pair.

The enumeration is exact, but models that can be enumerated are small. The samples come from the pair that
users run, but can only show that a difference is smaller than something. Each covers what the other cannot.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from minispec.drafters.registry import DRAFTERS
from minispec.evidence.proof.cases import Case
from minispec.evidence.proof.distributions import (
    Distribution,
    exact_distributions,
    largest_error,
    speculative_distributions,
    target_only_distributions,
)
from minispec.evidence.proof.families import FAMILIES, TABLES, describe, family_cases
from minispec.evidence.theory.statistics import Sampled
from minispec.native.backend import TORCH, Backend

LARGEST_ERROR = 1e-10  # float64 sums of some thousand products stay far below


@dataclass(frozen=True)
class ProvedCase:
    """What one case has shown."""

    name: str  #: of the case
    branches: int  #: how many were enumerated
    error: float  #: the largest difference of any outcome's probability from the exact one, speculative
    target_only_error: float  #: the same for `generate`

    @property
    def passed(self) -> bool:
        """Whether both agree with the exact distribution up to rounding, in one branch at least."""
        return self.branches > 0 and max(self.error, self.target_only_error) <= LARGEST_ERROR


@dataclass(frozen=True)
class Proof:
    """All that was shown."""

    cases: tuple[ProvedCase, ...]  #: enumerated completely
    coverage: dict[str, int]  #: for each thing that must have come up, in how many branches it did
    sampled: tuple[Sampled, ...]  #: tests on samples
    left_out: tuple[str, ...] = ()  #: what was not tried, and why

    @property
    def instances(self) -> int:
        """How many cases were enumerated; none is never a pass."""
        return len(self.cases)

    @property
    def branches(self) -> int:
        """How many, all cases together."""
        return sum(case.branches for case in self.cases)

    @property
    def largest_error(self) -> float:
        """The largest of all."""
        return max((max(case.error, case.target_only_error) for case in self.cases), default=0.0)

    @property
    def passed(self) -> bool:
        """Whether every distribution is right, everything came up, and every sampled test passed.

        Where nothing was enumerated, nothing was proved.
        """
        results = [result.passed for result in self.cases] + [result.passed for result in self.sampled]
        return self.instances > 0 and all(results) and all(self.coverage.values())


def prove(
    cases: Iterable[Case],
    sampled: Callable[[], list[Sampled]],
    tell: Callable[[str], None],
    backends: Sequence[Backend] = (TORCH,),
    drafters: Sequence[str] = tuple(DRAFTERS),
) -> Proof:
    """Enumerates cases such as `few_cases` on each backend, counts what came up, and runs sampled tests.

    Cases of other drafters than those that are named are left out.
    """
    coverage = Counter(dict.fromkeys(required_marks(drafters), 0))
    proved: list[ProvedCase] = []
    skipped: Counter[str] = Counter()
    for case in cases:
        if case.drafts_with not in drafters:
            skipped[case.drafts_with] += 1
            continue
        exact = exact_distributions(case)
        for backend in backends:
            backend_case = case.on(backend)
            tell(backend_case.name)
            proved.append(prove_case(backend_case, coverage, exact))
    tell("samples")
    left_out = tuple(f"{count} cases of the drafter {name}" for name, count in skipped.items())
    return Proof(tuple(proved), dict(coverage), tuple(sampled()), left_out)


def prove_case(case: Case, coverage: Counter[str], exact: Sequence[Distribution]) -> ProvedCase:
    """Enumerates one case, compares it with the exact distributions, and adds to the counts what came up."""
    enumerated = speculative_distributions(case)
    branch_counts = {**enumerated.coverage, f"warp {describe(case.warp)}": enumerated.branches}
    branch_counts[case.verifier.name] = enumerated.branches
    coverage.update({mark: n for mark, n in branch_counts.items() if mark in coverage})
    both_loops = (enumerated.distributions, target_only_distributions(case))
    errors = [max(map(largest_error, distributions, exact)) for distributions in both_loops]
    return ProvedCase(case.name, enumerated.branches, *errors)


def required_marks(drafters: Sequence[str] = tuple(DRAFTERS)) -> list[str]:
    """Lists what must come up in some branch, with drafters by name; else the proof is not one."""
    return [mark for name in drafters for mark in TABLES["marks"][name]]


def few_cases() -> Iterator[Case]:
    """Yields cases that bring up everything, with some ten thousand branches together."""
    for family in FAMILIES:
        yield from family_cases(family, seed=0, longer=0)


def all_cases() -> Iterator[Case]:
    """Yields more models and longer texts: some hundred thousand branches together."""
    for seed, family in product((0, 1, 2), [family for family in FAMILIES if family != "gpt"]):
        yield from family_cases(family, seed, longer=1)
    for seed in (0, 1):
        yield from family_cases("gpt", seed, longer=seed)
