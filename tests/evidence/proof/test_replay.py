"""Replay: the library takes every branch of the core's code, and what it says is what counts."""

from collections import Counter
from types import SimpleNamespace

import pytest
import torch
from native_models import needs_compiler

from minispec import check_verifier
from minispec.core.rng import CERTAIN
from minispec.evidence.checker.instance import CHOICES
from minispec.evidence.checker.instances import greedy_instances, standard_instances, tree_instances
from minispec.evidence.proof.distributions import (
    exact_distributions,
    largest_error,
    speculative_distributions,
    target_only_distributions,
)
from minispec.evidence.proof.enumeration import (
    enumerate_branches,
)
from minispec.evidence.proof.families import family_cases
from minispec.evidence.proof.replay import Differs, ends, interval_of
from minispec.evidence.zoo.mutants import mutant_named
from minispec.evidence.zoo.mutation import planted
from minispec.native import decisions
from minispec.native.backend import NATIVE
from minispec.native.decisions import NATIVE_CHAINS, native_rejection, native_tree, native_tree_greedy
from minispec.native.drafter import Chain, NativeDrafter, NativeTreeDrafter
from minispec.native.model import NativeGPT
from minispec.native.structs import Rule
from minispec.verifiers.registry import CHAINS, TREES

THIRDS = [0.25, 0.5, 0.25]


def inverted(numbers, thresholds):
    """Decides as the library does: for each threshold a number, and yes below it."""
    return len(thresholds), torch.tensor([float(n) < t for n, t in zip(numbers, thresholds, strict=False)])


def coins(thresholds, heads=(0.3, 0.6)):
    """Returns a run that throws a coin for each of `heads`, and a library's by its own thresholds."""

    def run(rng, keys):
        def core():
            return [rng.bernoulli(torch.tensor([p], dtype=torch.float64)) for p in heads]

        return [tuple(rng.decide(4, lambda numbers: inverted(numbers, thresholds), core).tolist())]

    return run


def test_what_the_library_says_counts_with_the_branchs_probability():
    """Right thresholds: four branches, each with its probability."""
    distributions = {answers: weight for _, answers, weight in enumerate_branches(coins((0.3, 0.6)), [0], 1)}
    assert distributions[True, True] == pytest.approx(0.18)
    assert distributions[False, True] == pytest.approx(0.42)
    assert len(distributions) == 4 and sum(distributions.values()) == pytest.approx(1)


@pytest.mark.parametrize("off", [1e-2, -1e-2, 3e-9, -3e-9])
def test_a_threshold_that_is_off_is_found(off):
    """By a hundredth, and by some billionths of the interval."""
    with pytest.raises(Differs, match="two ends"):
        list(enumerate_branches(coins((0.3, 0.6 + off)), [0], 1))
    assert len(list(enumerate_branches(coins((0.3, 0.6 + 1e-15)), [0], 1))) == 4  # rounding passes


@pytest.mark.parametrize("thresholds", [(0.3,), (0.3, 0.6, 0.5)])
def test_a_number_too_few_or_too_many_is_found(thresholds):
    """Each open decision has a number of its own."""
    with pytest.raises(
        Differs, match=f"2 decisions are open, and the C\\+\\+ used {len(thresholds)} numbers"
    ):
        list(enumerate_branches(coins(thresholds), [0], 1))


def test_what_is_certain_has_no_number():
    """Also what the core's generator takes to be certain, next to 1; then there is no other branch."""
    (leaf,) = enumerate_branches(coins((), (1.0, CERTAIN, 0.0)), [0], 1)
    assert leaf == (0, (), 1.0)


@pytest.mark.parametrize(
    ("probabilities", "choice", "interval"),
    [(THIRDS, 0, (0, 0.25)), (THIRDS, 2, (0.75, 1)), ([1e-12, 1 - 1e-12], 0, (0, 1e-12))],
)
def test_numbers_lie_inside_the_interval(probabilities, choice, interval):
    """Next to both ends, and further inside than sums are rounded by."""
    low, high = interval_of(probabilities, choice)
    assert (low, high) == interval
    first, last = ends((low, high))
    assert low + 1e-15 < first < last < high - 1e-15 and last - first > 0.9 * (high - low)


@pytest.fixture
def calls(monkeypatch):
    """How often the library was called for what, and how often the core decided in its place."""
    count = Counter()
    real = decisions.native_functions

    def watched(dtype):
        functions = real(dtype)
        return SimpleNamespace(
            type=functions.type,
            distributions=functions.distributions,
            choose=counted(lambda *_: "choose", functions.choose),
            decide=counted(lambda _, rule, *__: rule, functions.decide),
        )

    def counted(name, function):
        def call(*arguments):
            count[name(*arguments)] += 1
            return function(*arguments)

        return call

    def core(decide):
        def call(draft, target_probs, rng):
            inner = rng.source
            count["fallback"] += getattr(inner, "_rng", inner)._intervals is None
            return decide(draft, target_probs, rng)

        return call

    monkeypatch.setattr(decisions, "native_functions", watched)
    for original in (*CHAINS.values(), *TREES.values()):
        monkeypatch.setitem(vars(original), "decide", core(original.decide))
    return count


@needs_compiler
@pytest.mark.parametrize(
    "case",
    [
        *family_cases("table", 0, 0),
        *list(family_cases("gpt", 0, 0))[:4],
        *[case for case in family_cases("rule", 0, 0) if case.verifier.name in NATIVE_CHAINS],
        *list(family_cases("tree", 0, 0))[:5],
    ],
    ids=lambda case: case.name,
)
def test_every_decision_is_made_in_cpp(case, calls, monkeypatch):
    """Rules, draws and draft steps of a case on the native backend; each branch at both ends."""
    moved = case.on(NATIVE)
    drafted = Counter()
    real = Chain.draw
    monkeypatch.setattr(Chain, "draw", lambda *a, **k: (drafted.update(["draft"]), real(*a, **k))[1])
    distributions = speculative_distributions(moved).distributions
    alone = target_only_distributions(moved)
    assert max(map(largest_error, distributions + alone, 2 * exact_distributions(case))) < 1e-12
    rule = moved.verifier.rule
    assert calls["choose"] > 0 and calls[rule] > 0 and calls["fallback"] == 0
    assert calls.keys() <= {"choose", "fallback", rule}
    in_cpp = isinstance(moved.make_drafter(), NativeDrafter | NativeTreeDrafter)
    assert (drafted["draft"] > 0) == (in_cpp and isinstance(moved.draft, NativeGPT))
    greedy = moved.verifier.greedy
    assert calls["choose"] % 2 == drafted["draft"] % 2 == 0 and (greedy or calls[rule] % 2 == 0)


@needs_compiler
def test_the_checker_judges_the_library(calls):
    """A few instances of each native rule, exactly, and never by the core's code."""
    for verifier in (*NATIVE_CHAINS.values(), native_tree):
        calls.clear()
        instances = greedy_instances() if verifier.greedy else standard_instances()
        if verifier is native_tree:
            instances = tree_instances()
        report = check_verifier(verifier, instances=instances[:60:6])
        assert report.passed and report.method == "exact", verifier.name
        assert calls[verifier.rule] > 10
        assert calls["fallback"] == 0 and calls.keys() <= {"fallback", verifier.rule}


@pytest.mark.evidence
@needs_compiler
def test_the_checker_reaches_the_library(calls):
    """All instances of every native rule, exactly, and never by the core's code."""
    for verifier in NATIVE_CHAINS.values():
        calls.clear()
        report = check_verifier(verifier, instances=greedy_instances() if verifier.greedy else None)
        assert report.passed and report.method == "exact", verifier.name
        assert verifier.greedy or (report.instances == 305 and report.branches > 2_900)
        assert calls[verifier.rule] > (300 if verifier.greedy else 1_000)
        assert calls["fallback"] == 0 and calls.keys() <= {"fallback", verifier.rule}
    calls.clear()
    for choice in CHOICES:
        assert check_verifier(native_tree, instances=tree_instances(choice)).passed
    assert check_verifier(native_tree_greedy, instances=tree_instances(certain=True)).passed
    assert calls[Rule.TREE] > 300 and calls[Rule.TREE_GREEDY] > 100 and calls["fallback"] == 0


@pytest.mark.evidence
@needs_compiler
@pytest.mark.parametrize("name", ["native-residual-reversed", "native-number-used-twice"])
def test_the_checker_finds_a_bug_of_the_library(name):
    """By what comes out, with its damage; or by the numbers that are used."""
    with planted(mutant_named(name)):
        report = check_verifier(native_rejection, instances=standard_instances()[:60])
    assert not report.passed and report.counterexample.k == 1
    assert (report.damage is not None) == (name == "native-residual-reversed")
