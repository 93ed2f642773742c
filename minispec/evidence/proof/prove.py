"""The proof: every branch of the shipped loop on small models, and samples of the trained pair.

The enumeration is exact, but models that can be enumerated are small. The samples come from the pair that
users run, but can only show that a difference is smaller than something. Each covers what the other cannot.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from minispec.core.warp import Warp
from minispec.drafters.registry import DRAFTERS
from minispec.evidence.proof.cases import TREE_SHAPES, Case
from minispec.evidence.proof.distributions import (
    DIFFERENT_LENGTHS,
    Distribution,
    exact_distributions,
    largest_error,
    speculative_distributions,
    target_only_distributions,
)
from minispec.evidence.proof.families import (
    CHAINS,
    FAMILIES,
    LOOK_UPS,
    WARPS,
    describe,
    gpt_cases,
    table_cases,
)
from minispec.evidence.theory.statistics import Sampled
from minispec.native.backend import TORCH, Backend

LARGEST_ERROR = 1e-10  # float64 sums of some thousand products stay far below
WIDTHS = (1, 2, 3, 4)  # the values of K that are enumerated
TWO_HEADS = ("drafted 0", "drafted 2", "accepted 0", "accepted 1", "accepted 2")


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
    lengths = [f"{what} {n}" for what in ("drafted", "accepted") for n in range(4)]
    marks = {
        "model": [*model_marks(), "block", "compare"],
        **{name: [f"{name}: {what}" for what in (*lengths, DIFFERENT_LENGTHS)] for name in LOOK_UPS},
        **{name: [f"{name}: accepted {n}" for n in range(4)] for name in CHAINS},
        "medusa": [f"medusa: {what}" for what in (*TWO_HEADS, DIFFERENT_LENGTHS)],
        "medusa-tree": [f"medusa-tree: accepted {n}" for n in range(3)],
        "tree": [*(f"{name}: accepted {n}" for name in TREE_SHAPES for n in range(3)), "k-sequential"],
    }
    return [mark for name in drafters for mark in marks[name]]


def model_marks() -> list[str]:
    """Lists what must come up where a model drafts."""
    return [
        *(f"K = {k}: accepted {n}" for k in WIDTHS for n in range(k + 1)),
        "correction",
        "bonus",
        "EOS in an accepted draft",
        "EOS as correction",
        "EOS as bonus",
        "a block shortened by the cap",
        "the cap ends a row",
        "the context ends a row",
        "rows that finish at different rounds",
        *(f"automatic: drafted {n}" for n in range(3)),
        *(f"stopping: drafted {n}" for n in range(1, 4)),
        f"stopping: {DIFFERENT_LENGTHS}",
        *(f"warp {describe(warp)}" for warp in (Warp(), *WARPS)),
    ]


def few_cases() -> Iterator[Case]:
    """Yields cases that bring up everything, with some ten thousand branches together."""
    for make in (table_cases, gpt_cases, *FAMILIES):
        yield from make(seed=0, longer=0)


def all_cases() -> Iterator[Case]:
    """Yields more models and longer texts: some hundred thousand branches together."""
    for seed, make in product((0, 1, 2), (table_cases, *FAMILIES)):
        yield from make(seed, longer=1)
    for seed in (0, 1):
        yield from gpt_cases(seed, longer=seed)
