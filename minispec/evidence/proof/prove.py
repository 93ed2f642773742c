"""The proof: every branch of the shipped loop on small models, and samples of the trained pair.

The enumeration is exact, but models that can be enumerated are small. The samples come from the pair that
users run, but can only show that a difference is smaller than something. Each covers what the other cannot.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from minispec.core.model import LanguageModel
from minispec.core.verify import verify_greedy
from minispec.core.warp import Warp
from minispec.drafters.exit import EarlyExitGPT, Exit
from minispec.evidence.proof.cases import (
    OTHERS,
    TREES,
    Case,
    automatic,
    fixed_tree,
    learning_to_stop,
    repeating_tree,
    stopping,
    tree,
)
from minispec.evidence.proof.distributions import (
    APART,
    Distribution,
    exact_distributions,
    largest_error,
    speculative_distributions,
    target_only_distributions,
)
from minispec.evidence.proof.models import table_pair, tiny_gpt_pair, with_normals
from minispec.evidence.theory.statistics import Sampled
from minispec.native.backend import TORCH, Backend
from minispec.rules.block import verify_block
from minispec.rules.compare import verify_compare
from minispec.rules.coupled import verify_coupled
from minispec.rules.several import verify_k_sequential
from minispec.rules.tree import verify_tree, verify_tree_greedy

LARGEST_ERROR = 1e-10  # float64 sums of some thousand products stay far below
WIDTHS = (1, 2, 3, 4)  # the values of K that are enumerated
PROMPTS = ((0,), (1, 0), (0, 1, 1))  # of different lengths: their branches are rows of ragged batches
REPEATING = ((0,), (1, 0), (0, 1, 0, 1, 0))  # a look-up finds nothing, or much
DRAFTERS = ("model", *OTHERS)  # by the names of the command line
LOOK_UPS = ("ngram", "suffix")
CHAINS = ("exit", "eagle", "parallel")
TWO_HEADS = ("drafted 0", "drafted 2", "accepted 0", "accepted 1", "accepted 2")
WARPS = (
    Warp(temperature=0),
    Warp(temperature=0.7),
    Warp(temperature=1.5),
    Warp(top_k=2),
    Warp(top_p=0.8),
    Warp(temperature=1.3, top_k=2, top_p=0.9),
)


@dataclass(frozen=True)
class Proved:
    """What one case has shown."""

    name: str  #: of the case
    branches: int  #: how many were enumerated
    error: float  #: the largest difference of any outcome's probability from the exact one, speculative
    target_only_error: float  #: the same for `generate`

    @property
    def passed(self) -> bool:
        """Whether both agree with the exact distribution up to rounding."""
        return max(self.error, self.target_only_error) <= LARGEST_ERROR


@dataclass(frozen=True)
class Proof:
    """All that was shown."""

    cases: tuple[Proved, ...]  #: enumerated completely
    coverage: dict[str, int]  #: for each thing that must have come up, in how many branches it did
    sampled: tuple[Sampled, ...]  #: tests on samples

    @property
    def branches(self) -> int:
        """How many, all cases together."""
        return sum(case.branches for case in self.cases)

    @property
    def largest_error(self) -> float:
        """The largest of all."""
        return max(max(case.error, case.target_only_error) for case in self.cases)

    @property
    def passed(self) -> bool:
        """Whether every distribution is right, everything came up, and every sampled test passed."""
        shown = [one.passed for one in self.cases] + [one.passed for one in self.sampled]
        return all(shown) and all(self.coverage.values())


def prove(
    cases: Iterable[Case],
    sampled: Callable[[], list[Sampled]],
    tell: Callable[[str], None],
    backends: Sequence[Backend] = (TORCH,),
    drafters: Sequence[str] = DRAFTERS,
) -> Proof:
    """Enumerates cases such as `few_cases` on each backend, counts what came up, and runs sampled tests.

    Cases of other drafters than those that are named are left out.
    """
    coverage = Counter(dict.fromkeys(wanted(drafters), 0))
    proved = []
    for case in (case for case in cases if case.drafts_with in drafters):
        exact = exact_distributions(case)
        for backend in backends:
            moved = case.on(backend)
            tell(moved.name)
            proved.append(prove_case(moved, coverage, exact))
    tell("samples")
    return Proof(tuple(proved), dict(coverage), tuple(sampled()))


def prove_case(case: Case, coverage: Counter[str], exact: Sequence[Distribution]) -> Proved:
    """Enumerates one case, compares it with the exact distributions, and adds to the counts what came up."""
    found = speculative_distributions(case)
    rule = case.verifier.__name__  # type: ignore[attr-defined]
    seen = {**found.coverage, f"warp {describe(case.warp)}": found.branches, rule: found.branches}
    coverage.update({mark: n for mark, n in seen.items() if mark in coverage})
    both = (found.distributions, target_only_distributions(case))
    errors = [max(map(largest_error, ours, exact)) for ours in both]
    return Proved(case.name, found.branches, *errors)


def wanted(drafters: Sequence[str] = DRAFTERS) -> list[str]:
    """Lists what must come up in some branch, with drafters by name; else the proof is not one."""
    looked = [name for name in LOOK_UPS if name in drafters]
    return [
        *(mark for mark in of_the_model() if "model" in drafters),
        *(f"{name}: {what} {n}" for name in looked for what in ("drafted", "accepted") for n in range(4)),
        *(f"{name}: {APART}" for name in looked),
        *(f"{name}: accepted {n}" for name in CHAINS if name in drafters for n in range(4)),
        *(f"{make.__name__}: accepted {n}" for make in TREES if "tree" in drafters for n in range(3)),
        *(rule.__name__ for rule in (verify_block, verify_compare) if "model" in drafters),
        *(rule.__name__ for rule in (verify_k_sequential,) if "tree" in drafters),
        *(f"medusa_tree: accepted {n}" for n in range(3) if "medusa-tree" in drafters),
        *(f"medusa: {what}" for what in (*TWO_HEADS, APART) if "medusa" in drafters),
    ]


def of_the_model() -> list[str]:
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
        *(f"learning_to_stop: drafted {n}" for n in range(4)),
        f"stopping: {APART}",
        *(f"warp {describe(warp)}" for warp in (Warp(), *WARPS)),
    ]


def describe(warp: Warp) -> str:
    """Names a warp by its settings."""
    parts = [f"T {warp.temperature:g}"]
    parts += [f"top-k {warp.top_k}"] if warp.top_k is not None else []
    parts += [f"top-p {warp.top_p:g}"] if warp.top_p is not None else []
    return ", ".join(parts)


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


def table_cases(seed: int, longer: int) -> Iterator[Case]:
    """Yields cases of table models; longer: how many more tokens than the least."""
    target, draft = table_pair(3, seed)
    base = Case(f"table {seed}, K 2", target, draft, PROMPTS, 2, 3 + longer, eos=(2,))
    yield base
    for k in (1, 3):
        yield replace(base, name=f"table {seed}, K {k}", k=k)
    small, guess = table_pair(2, seed)
    binary = Case(f"two tokens {seed}, K 4", small, guess, PROMPTS, 4, 5 + longer, eos=(1,))
    yield binary
    yield replace(binary, name=f"two tokens {seed}, no end, K 3", k=3, eos=())
    for warp in WARPS:
        yield replace(base, name=f"table {seed}, warp {describe(warp)}", warp=warp)
    greedy = replace(base, warp=Warp(temperature=0), verifier=verify_greedy)
    yield replace(greedy, name=f"table {seed}, greedy")
    yield replace(greedy, name=f"table {seed}, greedy after sampled drafts", draft_warp=Warp())
    yield replace(base, name=f"table {seed}, the draft hotter", draft_warp=Warp(temperature=2))
    yield replace(base, name=f"table {seed}, a greedy draft", draft_warp=Warp(temperature=0))
    yield replace(base, name=f"table {seed}, coupled", verifier=verify_coupled)
    short = table_pair(3, seed, max_length=5 + longer)
    yield replace(
        base, name=f"table {seed}, short context", target=short[0], draft=short[1], max_new_tokens=9
    )


def gpt_cases(seed: int, longer: int) -> Iterator[Case]:
    """Yields cases of tiny GPTs, with their real cache; longer: how many more tokens than the least."""
    target, draft = tiny_gpt_pair(seed)
    base = Case(f"GPT {seed}, K 2", target, draft, PROMPTS, 2, 3 + longer, eos=(2,))
    yield base
    for k in (1, 3):
        yield replace(base, name=f"GPT {seed}, K {k}", k=k)
    yield replace(base, name=f"GPT {seed}, a warp", warp=Warp(temperature=1.3, top_k=2, top_p=0.9))
    small, guess = tiny_gpt_pair(seed, vocab_size=2, max_length=7 + longer)
    yield Case(f"GPT {seed}, short context, K 4", small, guess, PROMPTS, 4, 9, eos=(1,))


def length_cases(seed: int, longer: int) -> Iterator[Case]:
    """Yields cases of drafters that choose how many tokens they draft.

    The first two learn from all rows of a batch, so their branches run one by one.
    """
    target, draft = table_pair(2, seed)
    base = Case(
        f"two tokens {seed}, automatic K", target, draft, PROMPTS[:1], 3, 5, drafter=automatic, rows=1
    )
    yield base
    yield replace(base, name=f"two tokens {seed}, learning to stop", drafter=learning_to_stop)
    big, small = tiny_gpt_pair(seed, vocab_size=2)
    yield replace(base, name=f"GPT {seed}, automatic K", target=big, draft=small, max_new_tokens=4)
    stops = Case(f"two tokens {seed}, stop rule", target, draft, PROMPTS, 3, 5 + longer, drafter=stopping)
    yield stops
    yield replace(stops, name=f"two tokens {seed}, stop rule, EOS", eos=(1,), warp=Warp(temperature=0.7))
    yield replace(stops, name=f"GPT {seed}, stop rule", target=big, draft=small)


def lookup_cases(seed: int, longer: int) -> Iterator[Case]:
    """Yields cases of drafters that look the draft up in the text, with every rule."""
    target, draft = table_pair(2, seed)
    wide, gpts = table_pair(3, seed), tiny_gpt_pair(seed, vocab_size=2)
    for name in LOOK_UPS:
        least = Case(f"two tokens {seed}, {name}", target, draft, REPEATING, 3, 6 + longer)
        least = replace(least, drafter=OTHERS[name])
        yield least
        yield replace(least, name=f"two tokens {seed}, {name}, EOS", eos=(1,), warp=Warp(temperature=0.7))
        yield replace(least, name=f"GPT {seed}, {name}", target=gpts[0], draft=gpts[1], max_new_tokens=4)
        least = replace(least, name=f"table {seed}, {name}", target=wide[0], draft=wide[1], eos=(2,))
        least = replace(least, max_new_tokens=4 + longer)
        yield least
        yield replace(least, name=f"table {seed}, {name}, coupled", verifier=verify_coupled)
        greedy = replace(least, warp=Warp(temperature=0), verifier=verify_greedy)
        yield replace(greedy, name=f"table {seed}, {name}, greedy")


def self_drafting_cases(seed: int, longer: int) -> Iterator[Case]:
    """Yields cases of drafters that live on a tiny GPT which is the target, with its real cache."""
    for vocab_size, tokens in ((2, 4 + longer), (3, 3)):
        model, _ = tiny_gpt_pair(seed, vocab_size)
        early = EarlyExitGPT(model, with_normals(Exit(model.config.width, 1), seed))
        for name in ("medusa", *CHAINS):
            target: LanguageModel = early if name == "exit" else model
            what = f"GPT {seed}, {vocab_size} tokens, {name}"
            least = Case(what, target, target, PROMPTS, 3, tokens, drafter=OTHERS[name])
            yield least
            yield replace(least, name=f"{what}, EOS", eos=(1,), warp=Warp(temperature=0.7))
            greedy = replace(least, warp=Warp(temperature=0), verifier=verify_greedy)
            yield replace(greedy, name=f"{what}, greedy")
            yield replace(least, name=f"{what}, hotter", draft_warp=Warp(temperature=2))
    model, _ = tiny_gpt_pair(seed, 2, max_length=6)
    early = EarlyExitGPT(model, with_normals(Exit(model.config.width, 1), seed))
    short = Case(f"GPT {seed}, short context, exit", early, early, PROMPTS, 4, 9, drafter=OTHERS["exit"])
    yield short
    parallel = replace(short, name=f"GPT {seed}, short context, parallel", drafter=OTHERS["parallel"])
    yield replace(parallel, target=model, draft=model)


def tree_cases(seed: int, longer: int) -> Iterator[Case]:
    """Yields cases of trees on a tiny GPT: every way to choose candidates, with the rules for trees."""
    for vocab_size, make in product((2, 3), TREES):
        big, small = tiny_gpt_pair(seed, vocab_size)
        what = f"GPT {seed}, {vocab_size} tokens, {make.__name__}"
        cap = 4 + longer if vocab_size == 2 and make is not repeating_tree else 3
        least = Case(what, big, small, PROMPTS, 4, cap, drafter=make, verifier=verify_tree)
        if (vocab_size, make) != (3, repeating_tree):  # some 30,000 branches
            yield least
        yield replace(least, name=f"{what}, a warp", warp=Warp(0.7, top_k=2), eos=(1,))
        yield replace(least, name=f"{what}, T 0", warp=Warp(temperature=0))
        greedy = replace(least, warp=Warp(temperature=0), verifier=verify_tree_greedy)
        yield replace(greedy, name=f"{what}, greedy")
        yield replace(greedy, name=f"{what}, greedy after sampled drafts", draft_warp=Warp())
        if make is fixed_tree:
            heads = replace(least, name=f"GPT {seed}, {vocab_size} tokens, medusa-tree", draft=big)
            heads = replace(heads, drafter=OTHERS["medusa-tree"], max_new_tokens=4 + longer)
            if vocab_size == 2:  # with three some 15,000 branches
                yield heads
            yield replace(heads, name=f"{heads.name}, a warp", eos=(1,), warp=Warp(0.7, top_k=2))
            greedy = replace(heads, warp=Warp(temperature=0), verifier=verify_tree_greedy)
            yield replace(greedy, name=f"{heads.name}, greedy")
    big, small = tiny_gpt_pair(seed, 2, max_length=7 + longer)
    yield Case(
        f"GPT {seed}, short context, tree", big, small, PROMPTS, 4, 9, drafter=tree, verifier=verify_tree
    )


def rule_cases(seed: int, longer: int) -> Iterator[Case]:
    """Yields cases of rules that look beyond a rejection, or draw the target's token first."""
    small, table, gpts = table_pair(2, seed), table_pair(3, seed), tiny_gpt_pair(seed, 2)
    for rule in (verify_block, verify_compare):
        what = rule.__name__
        base = Case(f"GPT {seed}, {what}", *gpts, PROMPTS, 2, 3 + longer, verifier=rule)
        yield base
        base = replace(base, name=f"two tokens {seed}, {what}, waiting", target=small[0], draft=small[1])
        yield replace(base, eos=(1,), waiting=True)
    base = replace(base, verifier=verify_block)
    least = replace(base, name=f"two tokens {seed}, verify_block, K 3", k=3, max_new_tokens=4 + longer)
    yield least
    yield replace(least, name=f"two tokens {seed}, verify_block, stop rule", drafter=stopping)
    yield Case(f"table {seed}, verify_block", *table, PROMPTS, 2, 3, Warp(1.3), (2,), verify_block)
    least = Case(f"GPT {seed}, verify_k_sequential", *gpts, PROMPTS, 4, 3, verifier=verify_k_sequential)
    least = replace(least, drafter=repeating_tree)
    yield least
    yield replace(least, name=f"{least.name}, EOS", warp=Warp(0.7), eos=(1,))


def waiting_cases(seed: int, longer: int) -> Iterator[Case]:
    """Yields cases in which one of three rows waits for one that is done."""
    table, guess = table_pair(2, seed)
    base = Case(f"two tokens {seed}, waiting", table, guess, PROMPTS, 2, 3 + longer, eos=(1,), waiting=True)
    yield base
    yield replace(base, name=f"two tokens {seed}, waiting, coupled", verifier=verify_coupled)
    big, small = tiny_gpt_pair(seed, 2)
    early = EarlyExitGPT(big, with_normals(Exit(big.config.width, 1), seed))
    base = replace(base, name=f"GPT {seed}, waiting", target=big, draft=small, rows=64)
    yield base
    for name in ("ngram", *CHAINS, "medusa", "tree"):
        target: LanguageModel = early if name == "exit" else big
        draft: LanguageModel = small if name == "tree" else target
        rule = verify_tree if name == "tree" else base.verifier
        case = replace(base, name=f"GPT {seed}, waiting, {name}", drafter=OTHERS[name], verifier=rule)
        yield replace(case, target=target, draft=draft)


FAMILIES = (length_cases, lookup_cases, self_drafting_cases, tree_cases, rule_cases, waiting_cases)
