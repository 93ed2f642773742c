"""The dynamic programme for trees: against every tree of few tokens, and against what is known of chains."""

import pytest
from all_trees import most_yielded
from refusals import refused

from minispec.evidence.theory.formulas import expected_tokens
from minispec.evidence.theory.trees import most_tokens


@pytest.mark.parametrize("rates", [(0.5, 0.3, 0.1), (0.2, 0.45, 0.3), (0.1, 0.0, 0.8)], ids=str)
def test_no_tree_of_up_to_six_tokens_is_better_and_one_is_as_good(rates):
    """Each token may follow any before it; also where rates rise, or are 0."""
    assert most_tokens(rates, 6) == pytest.approx([most_yielded(n, [rates] * 6) for n in range(7)])


def test_one_candidate_a_position_is_a_chain():
    assert most_tokens([0.7], 12) == pytest.approx([expected_tokens(0.7, k) for k in range(13)])


@pytest.mark.parametrize("rates", [(), (0.7, -0.1), (0.7, 0.4)], ids=str)
def test_rates_that_cannot_be_are_refused(rates):
    with refused("their sum is at most 1"):
        most_tokens(rates, 3)
