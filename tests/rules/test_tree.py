"""Trees are verified without a change of the distribution, and a chain is the tree with one branch."""

import pytest
import tiny
import torch

from minispec import Draft, ModelDrafter, SeededRng, Warp, speculate, verify_greedy, verify_rejection
from minispec.drafters.tree import TreeDrafter
from minispec.rules.tree import verify_tree, verify_tree_greedy

TARGET, DRAFT = tiny.gpt_pair()
PAIR_OF_RULES = [(verify_tree, verify_rejection), (verify_tree_greedy, verify_greedy)]


def distributions(generator, *shape):
    """Returns random distributions of float64."""
    return torch.rand(*shape, generator=generator, dtype=torch.float64).softmax(-1) ** 3


def a_chain(seed, rows=64, k=4, v=3):
    """Returns a draft whose rows have different lengths, drawn from its q, and the target's distributions."""
    generator = torch.Generator().manual_seed(seed)
    q, p = (torch.rand(rows, n, v, generator=generator).double().mul(4).softmax(-1) for n in (k, k + 1))
    tokens = torch.multinomial(q.flatten(0, 1), 1, generator=generator).view(rows, k)
    return Draft(tokens, q, torch.randint(k + 1, (rows,), generator=generator)), p


@pytest.mark.parametrize(("of_trees", "of_chains"), PAIR_OF_RULES)
@pytest.mark.parametrize("seed", range(5))
def test_a_chain_is_the_tree_with_one_branch(seed, of_trees, of_chains):
    """The same random numbers, the same accepted tokens, the same next one."""
    draft, p = a_chain(seed)
    rows, k = draft.tokens.shape
    tree = Draft(draft.tokens, draft.probs, draft.lengths, torch.arange(k).expand(rows, k))
    found, wanted = of_trees(tree, p, SeededRng(seed)), of_chains(draft, p, SeededRng(seed))
    assert torch.equal(found.accepted, wanted.accepted) and torch.equal(found.token, wanted.token)
    assert found.kept() == wanted.kept() and torch.equal(found.last, wanted.last)
    assert len(set(found.accepted.tolist())) > 2


@pytest.mark.parametrize("warp", [Warp(), Warp(0.7, top_k=5), Warp(temperature=0)], ids=str)
def test_the_loop_says_the_same_with_a_tree_of_one_branch(warp):
    """Seed by seed the same texts, in the same rounds, for the model's chain and the tree's only path."""
    settings = {"k": 3, "max_new_tokens": 20, "warp": warp, "eos": 4}
    for seed in range(3):
        chain = ModelDrafter(DRAFT), verify_rejection
        tree = TreeDrafter(DRAFT, range(3)), verify_tree
        one, other = (
            [
                (r.emitted, r.verdict.accepted.tolist(), [r.kind(row) for row in range(3)])
                for r in speculate(
                    TARGET, drafter, tiny.PROMPTS, verifier=rule, rng=SeededRng(seed), **settings
                )
            ]
            for drafter, rule in (chain, tree)
        )
        assert one == other


def two_candidates(q_second, first=0, second=1):
    """Enumerates a tree of two candidates for one position, drawn from q and then from q_second(first).

    Returns:
        The distribution of the token that comes out, and the probability that a candidate is accepted.
    """
    p, q = (
        torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64),
        torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64),
    )
    out, accepted = torch.zeros(3).double(), 0.0
    for one in range(3):
        then = q_second(q, one)
        for two in then.nonzero()[:, 0].tolist():
            draft = Draft(
                torch.tensor([[one, two]]), torch.stack([q, then])[None], parents=torch.zeros(1, 2).long()
            )
            ways = tiny.branches(lambda rng, draft=draft: verify_tree(draft, p.expand(1, 3, 3), rng))
            for verdict, weight in ways:
                token = (one, two)[verdict.kept()[0][0]] if int(verdict.accepted) else int(verdict.token)
                weight = float(q[one] * then[two]) * weight
                out[token] += weight
                accepted += weight * int(verdict.accepted)
    return out, p, q, accepted


def test_candidates_drawn_again_from_the_same_q_leave_the_target():
    """Recursive rejection: 0.5, 0.3, 0.2 come out, whichever q; acceptance by hand.

    The first is accepted with Σ min(p, q) = 0.7. What is left is all on token 0, where q has 0.2.
    """
    out, p, _, accepted = two_candidates(lambda q, one: q)
    assert (out - p).abs().max() < 1e-15
    assert accepted == pytest.approx(0.7 + 0.3 * 0.2, abs=1e-15)


def test_candidates_drawn_without_replacement_leave_the_target():
    """q without the first candidate, renormalised. Only token 2 is ever rejected; then 0 has 0.2 / 0.5."""

    def without(q, one):
        left = q.clone()
        left[one] = 0
        return left / left.sum()

    out, p, _, accepted = two_candidates(without)
    assert (out - p).abs().max() < 1e-15
    assert accepted == pytest.approx(0.7 + 0.3 * 0.4, abs=1e-15)


def test_fixed_candidates_leave_the_target():
    """One-hot distributions: accepted with what p has on both of them, p(0) + p(1)."""
    p = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    draft = Draft(torch.tensor([[0, 1]]), torch.eye(3).double()[None, :2], parents=torch.zeros(1, 2).long())
    out, accepted = torch.zeros(3).double(), 0.0
    for verdict, weight in tiny.branches(lambda rng: verify_tree(draft, p.expand(1, 3, 3), rng)):
        out[verdict.kept()[0][0] if int(verdict.accepted) else int(verdict.token)] += weight
        accepted += weight * int(verdict.accepted)
    assert (out - p).abs().max() < 1e-15 and accepted == pytest.approx(0.8, abs=1e-15)


def test_a_path_is_kept_and_its_leaf_is_followed():
    """Certain p: after the pending token 2, after that 1. The path is tokens 1 and 4; then comes 0."""
    tokens, parents = torch.tensor([[0, 2, 1, 0, 1]]), torch.tensor([[0, 0, 1, 2, 2]])
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
    settings = {"k": 3, "max_new_tokens": 9, "warp": Warp(), "rng": SeededRng(0)}
    with pytest.raises(ValueError, match="this rule verifies a chain, and a tree was drafted"):
        list(
            speculate(TARGET, TreeDrafter(DRAFT, [0, 0, 1]), [[1, 2]], verifier=verify_rejection, **settings)
        )


@pytest.mark.parametrize("parents", [[1], [0, 2], [0, 0, 1, 0], [-1]])
def test_what_is_no_tree_is_refused(parents):
    """A parent after its child, one that does not ascend, one that is not there."""
    with pytest.raises(ValueError, match="the parents in a tree must ascend"):
        TreeDrafter(DRAFT, parents)
    k = len(parents)
    with pytest.raises(ValueError, match="the parents in a tree must ascend"):
        Draft(torch.zeros(1, k).long(), torch.zeros(1, k, 3), parents=torch.tensor([parents]))
