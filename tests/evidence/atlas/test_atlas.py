"""The atlas: known figures, rules against closed forms, the optimum by both ways, chains by coins."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import linprog

from minispec.core.verify import verify_rejection
from minispec.evidence.atlas.atlas import chain_means, entries, measure
from minispec.evidence.atlas.family import candidates, chain, positions, recorded
from minispec.evidence.atlas.measure import every_branch, expected_accepted, outcome
from minispec.evidence.atlas.optimum import by_subsets, set_probabilities
from minispec.evidence.atlas.rules import RULES, Rule
from minispec.evidence.checker.instance import CHOICES
from minispec.evidence.proof.enumeration import enumerate_branches
from minispec.verifiers.block import verify_block
from minispec.verifiers.lossy import verify_typical
from minispec.verifiers.tree import verify_tree

P, Q = positions()
NAMED = {rule.name: rule for rule in RULES}


def test_the_family_is_the_same_everywhere():
    """Half flat, half peaked, three to six tokens; and all of it by one number."""
    assert P[0].tolist()[3:] == [0, 0, 0] and ((P > 0).sum(-1) == torch.arange(300) % 4 + 3).all()
    assert float((P[:4][P[:4] > 0]).min()) > 0.05 > float(P[4:8][P[4:8] > 0].min())
    weights = torch.arange(1, P.numel() + 1).view(P.shape)
    assert float(((P + 2 * Q) * weights).sum()) == pytest.approx(809798.03, abs=0.01)
    assert not torch.equal(positions(1)[0], P)


KNOWN = [
    ("token", 1, 0.605, None),
    ("recursive-with-replacement", 3, 0.720, None),
    ("k-sequential", 3, 0.741, 0.776),
    ("recursive-without-replacement", 3, 0.873, 0.914),
    ("greedy-drafting", 3, 0.902, None),
]


@pytest.mark.evidence
@pytest.mark.parametrize(("name", "k", "accepted", "optimum"), KNOWN)
def test_accepted_as_in_an_earlier_trial(name, k, accepted, optimum):
    """On 300 instances of the same kind, within 0.01; and the optimum, for two ways to draw."""
    result = measure(NAMED[name], k, P, Q)
    assert result.accepted == pytest.approx(accepted, abs=0.01)
    assert optimum is None or result.optimum == pytest.approx(optimum, abs=0.01)
    assert result.largest < 1e-12 and result.accepted <= result.optimum + 1e-12


@pytest.mark.evidence
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_lossless_is_exact_and_lossy_is_its_closed_form(rule):
    """Of every rule, on 40 positions with each number of candidates, and on the recorded ones."""
    real = recorded()
    result = [measure(rule, k, P[:40], Q[:40]) for k in rule.candidates]
    if rule.candidates == (1,):
        result.append(measure(rule, 1, real.target_probs[:, 0], real.draft.probs[:, 0]))
    for measured in result:
        assert (measured.largest < 1e-12) == rule.verify.lossless
        assert rule.weight is None or measured.total_variation == pytest.approx(
            measured.closed_form, abs=1e-12
        )
        assert not rule.verify.lossless or measured.accepted <= measured.optimum + 1e-12


def by_programme(p, sets):
    """Returns the optimum of one position by linear programming: p is [V], sets [2^V].

    What is sought is how often each set comes with each of its tokens as output: all together as often as
    possible, with no set more often than it is drawn, and no token more often than p says.
    """
    members = sets.nonzero()[:, 0]
    set_ids, token = ((members[:, None] >> torch.arange(len(p))) & 1).nonzero(as_tuple=True)
    column = torch.arange(len(token))
    bounds = torch.cat([sets[members], p]).numpy()
    constraints = np.zeros((len(bounds), len(token)))
    constraints[set_ids, column] = 1
    constraints[len(members) + token, column] = 1
    return -float(linprog(-np.ones(len(token)), constraints, bounds, method="highs").fun)


@pytest.mark.evidence
@pytest.mark.parametrize("name", CHOICES)
def test_the_optimum_by_two_ways(name):
    """Subsets and linear programmes agree within 1e-9, for three candidates, on 30 positions."""
    sets = set_probabilities(candidates(P[:30], Q[:30], name, 3))
    assert torch.allclose(sets.sum(-1), torch.ones(30, dtype=torch.float64))
    best = by_subsets(P[:30], sets)
    assert [by_programme(*position) for position in zip(P[:30], sets, strict=True)] == pytest.approx(
        best, abs=1e-9
    )


def test_the_optimum_by_hand():
    """p = (1/2, 1/2), q = (1/4, 3/4), two independent candidates.

    In 16 draws they are {a} once, {b} nine times, both six times. So a is among them 7 times, one less than
    p asks for, and b more often than the 8 times that it can come out: 15/16.
    """
    p = torch.tensor([[0.5, 0.5]]).double()
    q = torch.tensor([[0.25, 0.75]]).double()
    sets = set_probabilities(candidates(p, q, "with replacement", 2))
    assert (16 * sets).tolist() == [[0, 1, 9, 6]]
    assert float(by_subsets(p, sets)) == by_programme(p[0], sets[0]) == 15 / 16


@pytest.mark.evidence
def test_branches_of_many_rows_are_those_of_each():
    """The same distribution, numbers drawn and acceptance as by the proof's scripts, row by row."""
    drafts = candidates(P[:8], Q[:8], "without replacement", 2)
    result = outcome(verify_tree, drafts)
    emitted = torch.zeros_like(result.emitted)
    accepted = torch.zeros_like(result.accepted)

    def run(rng, keys):
        draft, target_probs = drafts.rows(torch.tensor(keys))
        verdict = verify_tree(draft, target_probs, rng)
        accepted_ids = verdict.path.long().argmax(-1)[:, None]
        first = torch.where(verdict.accepted > 0, draft.tokens.gather(1, accepted_ids)[:, 0], verdict.token)
        return list(zip(first.tolist(), (verdict.accepted > 0).tolist(), strict=True))

    for key, (first, kept), weight in enumerate_branches(run, range(len(drafts.weights))):
        here = drafts.prefixes[key, 0], weight * float(drafts.weights[key])
        emitted[here[0], first] += here[1]
        accepted[here[0]] += here[1] * kept
    assert torch.allclose(result.emitted, emitted, atol=1e-12, rtol=0)
    assert torch.allclose(result.accepted, accepted, atol=1e-12, rtol=0)


def test_random_numbers_are_counted():
    """Token, p = (3/4, 1/4), q = (1/4, 3/4): b is tested 3 times in 4, and nothing else is open."""
    p = torch.tensor([[0.75, 0.25]]).double()
    result = outcome(verify_rejection, candidates(p, p.flip(1), "with replacement", 1))
    assert float(result.draws) == pytest.approx(0.75) and float(result.accepted) == pytest.approx(0.5)
    compare = outcome(NAMED["compare"].verify, candidates(p, p.flip(1), "with replacement", 1))
    assert float(compare.draws) == 1 and float(compare.accepted) == pytest.approx(3 / 8)


@pytest.mark.evidence
def test_token_and_block_in_chains():
    """10/9 and 11/9 on the smallest; 2.85 and 3.19 tokens a round were known for V = 8, K = 5, ± 0.05."""
    result = {means.name: means for means in chain_means()}
    assert (result["thirds"].token, result["thirds"].block) == pytest.approx((10 / 9, 11 / 9), abs=1e-12)
    assert (1 + result["family"].token, 1 + result["family"].block) == pytest.approx((2.85, 3.19), abs=0.05)
    assert result["recorded"].block > result["recorded"].token + 0.02


@pytest.mark.evidence
@pytest.mark.parametrize("rule", [verify_rejection, verify_block])
def test_coins_are_enough(rule):
    """Accepted by the coins alone, against every branch."""
    p, q = (dists[:, :4] / dists[:, :4].sum(-1, keepdim=True) for dists in (P[[5, 9, 13]], Q[[5, 9]]))
    drafts = chain(p, q)
    result = torch.zeros_like(drafts.weights)
    for branch in every_branch(rule, drafts):
        result[branch.rows] += branch.weights * branch.verdict.accepted
    assert torch.allclose(result, expected_accepted(rule, drafts), atol=1e-12, rtol=0)


@pytest.mark.evidence
def test_a_rule_that_claims_too_much_fails():
    """One that says it is lossless and is not; one that is, passes."""
    claims = Rule("wrong", replace(verify_typical, lossless=True))
    bad, good = entries([claims, NAMED["compare"]])
    assert bad.lossless and not bad.passed and good.passed
    assert good.texts < 1e-12 < bad.texts
