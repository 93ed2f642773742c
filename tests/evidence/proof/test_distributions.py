"""The joint distribution of whole outputs: the shipped loop against the chain rule, branch by branch."""

from collections import Counter
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from minispec import Warp, verify_coupled, verify_rejection
from minispec.classroom.rules import rule_with
from minispec.evidence.proof.cases import Case
from minispec.evidence.proof.distributions import (
    exact_distributions,
    largest_error,
    speculative_distributions,
    target_only_distributions,
    total_variation,
)
from minispec.evidence.proof.models import TableModel, table_model, table_pair, tiny_gpt_pair
from minispec.evidence.proof.prove import few_cases, prove_case, required_marks

CASES = list(few_cases())
PROMPTS = ((0,), (1, 0), (0, 1, 1))


@pytest.fixture(scope="module")
def coverage():
    """What came up in all cases together."""
    return Counter(dict.fromkeys(required_marks(), 0))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_distribution_is_the_targets(case, coverage):
    """Speculative, target-only and chain rule agree to 1e-10 on every outcome."""
    proved = prove_case(case, coverage, exact_distributions(case))
    assert proved.passed, proved


def test_everything_came_up_in_at_least_ten_thousand_branches(coverage):
    """After all cases: at least 10,000 branches, and nothing that must come up is missing."""
    branches = sum(count for mark, count in coverage.items() if mark.startswith("warp"))
    if branches == 0:
        pytest.skip("runs after the cases, not alone")
    assert [mark for mark, count in coverage.items() if count == 0] == []
    assert branches >= 10_000


def test_a_wrong_rule_has_a_wrong_distribution():
    """The enumeration finds a bias: it can fail."""
    target, draft = table_pair(3, 0)
    case = Case("wrong", target, draft, PROMPTS, 2, 3, verifier=rule_with("correction-from-p"))
    distributions = speculative_distributions(case).distributions
    for enumerated, exact in zip(distributions, exact_distributions(case), strict=True):
        assert total_variation(enumerated, exact) > 0.01


@pytest.mark.parametrize("cap", [0, 4])
def test_a_prompt_without_space_has_one_outcome(cap):
    """Its context is full, or the cap is 0: nothing is emitted, and all three ways know why."""
    full = Case("full", *table_pair(3, 0, max_length=3), ((0, 1, 1), (2,)), 2, cap)
    wanted = exact_distributions(full)
    assert wanted[0] == {((), "context"): 1.0} and (cap or wanted[1] == {((), "cap"): 1.0})
    for distributions in (speculative_distributions(full).distributions, target_only_distributions(full)):
        assert max(map(largest_error, distributions, wanted)) < 1e-12


def test_branches_do_not_depend_on_company():
    """Rows in batches of 7 and 512, and prompts alone, have the same branches: neighbours decide nothing."""
    target, draft = table_pair(2, 1)
    case = Case("alone", target, draft, PROMPTS, 3, 4, eos=(1,))
    together = speculative_distributions(case)
    assert speculative_distributions(replace(case, rows=7)).distributions == together.distributions
    apart = [speculative_distributions(replace(case, prompts=(prompt,))) for prompt in PROMPTS]
    assert together.branches == sum(enumerated.branches for enumerated in apart)
    for distributions, enumerated in zip(together.distributions, apart, strict=True):
        assert largest_error(distributions, enumerated.distributions[0]) < 1e-15


SETTINGS = st.fixed_dictionaries(
    {
        "k": st.integers(1, 3),
        "max_new_tokens": st.integers(0, 3),
        "eos": st.lists(st.integers(0, 2), max_size=2, unique=True).map(tuple),
        "verifier": st.sampled_from([verify_rejection, verify_coupled]),
        "draft_warp": st.sampled_from([None, Warp(0), Warp(2.0), Warp(top_k=1)]),
        "prompts": st.lists(
            st.lists(st.integers(0, 2), min_size=1, max_size=4).map(tuple), min_size=1, max_size=3
        ).map(tuple),
    }
)
SOME_WARPS = st.builds(
    Warp,
    temperature=st.sampled_from([0, 0.3, 1, 2.5]),
    top_k=st.sampled_from([None, 1, 2]),
    top_p=st.sampled_from([None, 0.5, 0.9]),
)
EXTREMES = st.sampled_from(["far", "equal", "ties", "sharp"])


def models_of(kind, seed):
    """Returns a target and a draft: unlike, equal, full of ties, or nearly deterministic."""
    target, draft = table_pair(3, seed, distance=4.0)
    if kind == "equal":
        return target, target
    if kind == "ties":
        return TableModel(target.table.round()), TableModel(draft.table.round())
    if kind == "sharp":
        return TableModel(30 * target.table), TableModel(30 * draft.table)
    return target, draft


@settings(max_examples=40)
@given(choice=SETTINGS, warp=SOME_WARPS, kind=EXTREMES, seed=st.integers(0, 1000))
def test_the_distribution_is_the_targets_whatever_the_setting(choice, warp, kind, seed):
    """Hypothesis picks models, prompts, K, warps, ends and caps; the verdict is exact."""
    target, draft = models_of(kind, seed)
    case = Case("drawn", target, draft, warp=warp, **choice)
    if not case.max_new_tokens:
        return
    exact = exact_distributions(case)
    for distributions in (speculative_distributions(case).distributions, target_only_distributions(case)):
        assert max(map(largest_error, distributions, exact)) < 1e-10


def test_models_are_pure_functions_of_their_seed():
    """The same seed gives the same numbers, and torch's global generator stays where it was."""
    state = torch.get_rng_state()
    assert torch.equal(table_model(3, 5).table, table_model(3, 5).table)
    model = tiny_gpt_pair(4)[0]
    two = tiny_gpt_pair(4)[0]
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), two.parameters(), strict=True))
    assert torch.equal(torch.get_rng_state(), state)
