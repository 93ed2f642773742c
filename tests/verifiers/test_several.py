"""Several candidates for one position: k-sequential selection and greedy drafting, enumerated and by hand."""

from math import fsum

import pytest
import tiny
import torch
from drafts import decides_alike, random_draft
from refusals import refused

from minispec import Draft, SeededRng, check_verifier, observe, speculate, verify_rejection
from minispec.drafters.medusa import Medusa, MedusaTreeDrafter
from minispec.drafters.tree import (
    TreeDrafter,
    greedy_drafting,
    most_probable,
    with_replacement,
    without_replacement,
)
from minispec.evidence.checker.instances import Instance, tree_instances
from minispec.evidence.checker.trials import enumerate_rule
from minispec.evidence.proof.models import with_normals
from minispec.native import loop as native
from minispec.verifiers import tree
from minispec.verifiers.tree import scale, verify_k_sequential, verify_tree

P = (0.5, 0.3, 0.2)
Q = (0.2, 0.3, 0.5)


def kept(rule, choice, p=P, q=Q, k=2, length=None):
    """Returns how often one of k candidates for a position is accepted."""
    one = Instance(((tuple(p),),) * 2, ((tuple(q),),), (length or k,), (0,) * k, choice)
    return fsum(leaf.weight for leaf in enumerate_rule(rule, one.drafts()).values() if leaf.last)


def test_k_sequential_by_hand():
    """γ = 2 − b, and b = 0.2 + 0.5/γ, so γ = 0.9 + √0.31; it accepts γ·b = 0.5 + 0.2·γ."""
    gamma = 0.9 + 0.31**0.5
    p, q = (torch.tensor([dist], dtype=torch.float64) for dist in (P, Q))
    assert float(scale(p, q, torch.tensor([2]))) == pytest.approx(gamma, abs=1e-15)
    found = kept(verify_k_sequential, "with replacement")
    assert found == pytest.approx(0.5 + 0.2 * gamma, abs=1e-15)
    assert found > kept(verify_tree, "with replacement")


def test_a_row_with_one_candidate_is_tested_as_with_one():
    """The second is padding: γ = 1, and Σ min(p, q) = 0.7."""
    found = kept(verify_k_sequential, "with replacement", length=1)
    assert found == pytest.approx(0.7, abs=1e-15)


def test_k_sequential_is_lossless_for_candidates_of_one_q(monkeypatch):
    """Exactly so on trees and ragged rows; with a γ of 1 it is not."""
    ours = tree_instances("with replacement")
    report = check_verifier(verify_k_sequential, instances=ours)
    assert report.passed and report.method == "exact" and report.omitted == ()
    assert max(one.distance for one in report.results) < 1e-12
    monkeypatch.setattr(tree, "scale", lambda p, q, candidates: torch.ones_like(p[:, 0]))
    assert not check_verifier(verify_k_sequential, instances=ours[:15]).passed


@pytest.mark.parametrize("choice", ["without replacement", "most probable", "greedy drafting"])
def test_candidates_that_k_sequential_is_not_for_are_left_out_by_name(choice):
    """They would fail: the same rule without its claim does. With nothing else to try it is no pass."""
    others = tree_instances(choice)[:18]
    assert not check_verifier(verify_k_sequential.decide, instances=others).passed
    report = check_verifier(verify_k_sequential, instances=others)
    assert not report.passed and report.instances == 0 and len(report.omitted) == len(others)
    (why,) = report.left_out
    assert "k-sequential" in why and choice in why
    both = check_verifier(verify_k_sequential, instances=[*others, *tree_instances("with replacement")[::6]])
    assert both.passed and both.left_out == report.left_out


TARGET, DRAFT = tiny.gpt_pair()
SHAPE = (0, 0, 1, 1)
HEADS = with_normals(Medusa(TARGET.config.width, TARGET.vocab_size, 2), 3)


@pytest.mark.parametrize("run", [speculate, observe, native.observe])
@pytest.mark.parametrize(
    "drafter",
    [TreeDrafter(DRAFT, SHAPE, choice) for choice in (without_replacement, most_probable, greedy_drafting(2))]
    + [MedusaTreeDrafter(HEADS, TARGET, SHAPE)],
    ids=["without_replacement", "most_probable", "greedy_drafting", "heads"],
)
def test_k_sequential_refuses_candidates_that_it_is_not_for(drafter, run):
    """Before it decides anything on them; the drafter then serves with the rule that was named instead."""
    with refused("the k-sequential verifier .* independent.* with_replacement.* verify_tree"):
        list(tiny.decode(TARGET, drafter, how=run, verifier=verify_k_sequential))
    assert list(tiny.decode(TARGET, drafter, how=run, verifier=verify_tree))


def test_only_siblings_that_are_proposed_must_share_q():
    """Tokens of different positions, rows without siblings and padding may have any q; also by hand."""
    draft, p = random_draft(3, 3, 4, 0, dtype=torch.float64)
    q = draft.probs.clone()
    q[:, 1] = q[:, 0]
    tokens = q.argmax(-1)
    siblings = torch.tensor([[0, 0, 1], [0, 1, 2], [0, 0, 0]])
    fits = Draft(tokens, q, torch.tensor([3, 3, 2]), siblings)
    assert fits.has_independent_candidates and verify_k_sequential(fits, p, SeededRng(0)).path is not None
    wrong = Draft(tokens, q, torch.tensor([3, 3, 3]), siblings)
    with refused("the k-sequential verifier"):
        verify_k_sequential(wrong, p, SeededRng(0))
    assert draft.has_independent_candidates  # a chain
    drafter = TreeDrafter(DRAFT, SHAPE, with_replacement)
    assert list(tiny.decode(TARGET, drafter, verifier=verify_k_sequential))


def test_a_chain_is_verified_as_by_rejection():
    """One candidate at each position: the same decisions with the same numbers."""
    draft, p = random_draft(64, 4, 3, 0, short=True, dtype=torch.float64)
    decides_alike(verify_k_sequential, verify_rejection, draft, p)


@pytest.mark.parametrize(
    ("choice", "wanted"),
    [
        # The first from q: Σ min(p, q) = 0.7. Of what is left, all on token 0, q has 0.2 or, without 2, 0.4.
        ("with replacement", 0.7 + 0.3 * 0.2),
        ("without replacement", 0.7 + 0.3 * 0.4),
        ("most probable", 0.2 + 0.3),  # fixed: what p has on both of them
        ("greedy drafting", 0.7 + 0.2),  # the first comes from (0.4, 0.6, 0), then comes 2
    ],
)
def test_two_candidates_for_one_position_leave_the_target(choice, wanted):
    """Recursive rejection: the target's distribution comes out, whichever q; acceptance by hand."""
    assert kept(verify_tree, choice) == pytest.approx(wanted, abs=1e-15)
    assert check_verifier(verify_tree, instances=tree_instances(choice)[::3]).passed


@pytest.mark.parametrize("k", [2, 3])
def test_greedy_drafting_accepts_what_the_paper_says(k):
    """P(top) + Σ min(p, q′) outside; it is another number for the other choices."""
    p, q = torch.rand(2, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    p, q = p / p.sum(), q / q.sum()
    top = q.argsort(descending=True)[: k - 1]
    outside = q.index_fill(0, top, 0)
    wanted = float(p[top].sum() + torch.minimum(p.index_fill(0, top, 0), outside / outside.sum()).sum())
    found = [
        kept(verify_tree, choice, p.tolist(), q.tolist(), k)
        for choice in ("greedy drafting", "without replacement", "most probable")
    ]
    assert found[0] == pytest.approx(wanted, abs=1e-14) and len({round(one, 3) for one in found}) == 3


def test_where_nothing_is_left_the_most_probable_others_come():
    """At temperature 0 all candidates are fixed: the second best first, then the best, then the third."""
    logits = torch.tensor([[1.0, 4.0, 3.0, 2.0]])
    chosen = torch.zeros(1, 4, dtype=torch.bool)
    order = []
    for _ in range(3):
        dist = greedy_drafting(2)(torch.tensor([[0.0, 1, 0, 0]]), logits, chosen)
        order.append(int(dist.argmax()))
        assert float(dist.max()) == 1
        chosen[0, order[-1]] = True
    assert order == [2, 1, 3]
