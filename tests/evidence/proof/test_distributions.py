"""The joint distribution of whole outputs: the shipped loop against the chain rule, branch by branch."""

from collections import Counter
from dataclasses import replace

import pytest
import torch
from examples import PROMPTS as SOME_PROMPTS
from examples import TABLES, examples
from hypothesis import given
from hypothesis import strategies as st

from minispec import Warp, verify_coupled, verify_rejection
from minispec.classroom.rules import rule_with
from minispec.drafters.registry import DRAFTERS
from minispec.evidence.proof.by_hand import rounded
from minispec.evidence.proof.cases import Case
from minispec.evidence.proof.distributions import (
    exact_distributions,
    largest_error,
    speculative_distributions,
    target_only_distributions,
    total_variation,
)
from minispec.evidence.proof.models import TableModel, table_model, table_pair, tiny_gpt_pair
from minispec.evidence.proof.prove import few_cases, prove

PROMPTS = ((0,), (1, 0), (0, 1, 1))


@pytest.fixture(scope="module")
def cases():
    """The cases of all drafters."""
    return list(few_cases())


@pytest.mark.parametrize("name", DRAFTERS)
def test_the_distribution_is_the_targets(name, cases):
    """Speculative, target-only and chain rule agree to 1e-10 on every outcome, and all that must comes up."""
    proof = prove(cases, list, lambda _: None, drafters=(name,))
    assert [case for case in proof.cases if not case.passed] == []
    assert [mark for mark, count in proof.coverage.items() if count == 0] == []
    assert proof.passed and proof.branches > 100


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


def test_probabilities_are_written_with_four_digits():
    """Those of a check's message, that people are to read."""
    assert rounded([1 / 3, 2 / 3]) == [0.3333, 0.6667]


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


CASES = st.builds(
    Case,
    st.just("drawn"),
    st.none(),
    st.none(),
    SOME_PROMPTS,
    k=st.sampled_from([2, 3, 1]),
    max_new_tokens=st.sampled_from([3, 2] * 3 + [1]),
    eos=st.sampled_from([(), (2,), (0, 1)]),
    warp=st.builds(
        Warp,
        temperature=st.sampled_from([1, 0.3, 2.5] * 2 + [0]),
        top_k=st.sampled_from([None, 2, 1]),
        top_p=st.sampled_from([None, 0.9, 0.5]),
    ),
    verifier=st.sampled_from([verify_rejection, verify_coupled]),
    draft_warp=st.sampled_from([None, Warp(0), Warp(2.0), Warp(top_k=1)]),
)


def test_the_distribution_is_the_targets_whatever_the_setting():
    """Hypothesis picks models, prompts, K, warps, ends and caps; the verdict is exact.

    At least half of the examples sample, several tokens and with two different models.
    """
    seen = Counter()

    @examples(100)
    @given(
        case=CASES,
        tables=TABLES,
        scale=st.sampled_from([1, 1, 30]),
        equal=st.sampled_from([False] * 7 + [True]),
    )
    def all_three_agree(case, tables, scale, equal):
        target, draft = (TableModel(scale * torch.tensor(table).double()) for table in tables)
        case = replace(case, target=target, draft=target if equal else draft)
        exact = exact_distributions(case)
        for distributions in (speculative_distributions(case).distributions, target_only_distributions(case)):
            assert max(map(largest_error, distributions, exact)) < 1e-10
        seen[not case.warp.is_greedy and not equal and case.max_new_tokens > 1] += 1

    all_three_agree()
    assert seen[True] >= seen[False]


def test_models_are_pure_functions_of_their_seed():
    """The same seed gives the same numbers, and torch's global generator stays where it was."""
    state = torch.get_rng_state()
    assert torch.equal(table_model(3, 5).table, table_model(3, 5).table)
    model = tiny_gpt_pair(4)[0]
    two = tiny_gpt_pair(4)[0]
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), two.parameters(), strict=True))
    assert torch.equal(torch.get_rng_state(), state)
