"""Trees are verified without a change of the distribution, and a chain is the tree with one branch."""

from dataclasses import replace

import pytest
import tiny
import torch
from drafts import decides_alike, random_draft
from refusals import refused

from minispec import Draft, SeededRng, verify_greedy, verify_rejection
from minispec.drafters.tree import TreeDrafter
from minispec.verifiers.tree import verify_tree, verify_tree_greedy

TARGET, DRAFT = tiny.gpt_pair()
PAIR_OF_RULES = [(verify_tree, verify_rejection), (verify_tree_greedy, verify_greedy)]


@pytest.mark.parametrize(("of_trees", "of_chains"), PAIR_OF_RULES)
@pytest.mark.parametrize("seed", range(5))
def test_a_chain_is_the_tree_with_one_branch(seed, of_trees, of_chains):
    """The same random numbers, the same accepted tokens, the same next one."""
    draft, p = random_draft(64, 4, 3, seed, short=True, dtype=torch.float64)
    tree = replace(draft, parents=torch.arange(4).expand(64, 4))
    found = decides_alike(of_trees, lambda _, *given: of_chains(draft, *given), tree, p, seed)
    chain = of_chains(draft, p, SeededRng(seed))
    assert found.kept() == chain.kept() and torch.equal(found.last, chain.last)
    assert len(set(found.accepted.tolist())) > 2


def test_a_path_is_kept_and_its_leaf_is_followed():
    """Certain p: after the pending token 2, after that 1. The path is tokens 1 and 4; then comes 0."""
    tokens = torch.tensor([[0, 2, 1, 0, 1]])
    parents = torch.tensor([[0, 0, 1, 2, 2]])
    p = torch.eye(3).double()[[2, 0, 1, 0, 0, 0]][None]
    q = torch.full((1, 5, 3), 1 / 3).double()
    for rule in (verify_tree, verify_tree_greedy):
        verdict = rule(Draft(tokens, q, parents=parents), p, SeededRng(0))
        assert verdict.kept() == [[1, 4]] and verdict.accepted.tolist() == [2]
        assert verdict.last.tolist() == [5] and verdict.token.tolist() == [0]
        cut = Draft(tokens, q, torch.tensor([4]), parents)  # the fifth token is padding
        assert rule(cut, p, SeededRng(0)).kept() == [[1]]


def test_a_rule_for_chains_refuses_a_tree():
    """It would take siblings for a text; the loop says which rule to use."""
    with refused("the rejection verifier verifies a chain, and a tree was drafted"):
        list(tiny.decode(TARGET, TreeDrafter(DRAFT, [0, 0, 1])))
