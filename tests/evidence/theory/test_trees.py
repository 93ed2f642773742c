"""The dynamic programme for trees: against every tree of few tokens, and against what is known of chains."""

from itertools import product

import pytest
from refusals import refused

from minispec.drafters.tree import grow
from minispec.evidence.theory.formulas import expected_tokens
from minispec.evidence.theory.trees import most_tokens

RATES = [(0.5, 0.3, 0.1), (0.2, 0.45, 0.3), (0.1, 0.0, 0.8), (1.0,)]


def yields(parents, rates):
    """Returns the expected tokens of one tree; 0 if a token has more candidates than there are rates."""
    kept = [1.0]
    for i, parent in enumerate(parents):
        rank = parents[:i].count(parent)
        if rank == len(rates):
            return 0.0
        kept.append(kept[parent] * rates[rank])
    return sum(kept)


@pytest.mark.parametrize("rates", RATES, ids=str)
def test_no_tree_of_up_to_six_tokens_is_better_and_one_is_as_good(rates):
    """Each token may follow any before it; also rates that rise, or are 0."""
    most = [max(yields(tree, rates) for tree in product(*map(range, range(1, n + 1)))) for n in range(7)]
    assert most_tokens(rates, 6) == pytest.approx(most)


def test_a_chain_is_bounded_and_a_tree_goes_on():
    """One rate gives 1 + α + … + α^K; where rates fall, best-first search grows a tree of the same value."""
    assert most_tokens([0.7], 12) == pytest.approx([expected_tokens(0.7, k) for k in range(13)])
    rates = (0.6, 0.2, 0.1, 0.05)
    for n in (1, 9, 40):
        parents, ranks = grow([rates] * n, n)
        kept = [1.0]
        for parent, rank in zip(parents, ranks, strict=True):
            kept.append(kept[parent] * rates[rank])
        assert most_tokens(rates, n)[n] == pytest.approx(sum(kept))


@pytest.mark.parametrize("rates", [(), (0.7, -0.1), (0.7, 0.4)], ids=str)
def test_rates_that_cannot_be_are_refused(rates):
    with refused("their sum is at most 1"):
        most_tokens(rates, 3)
