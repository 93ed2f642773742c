"""Typical acceptance is lossy: at one position by a closed form, elsewhere by what enumeration finds."""

from dataclasses import replace

import pytest
import tiny
import torch
from tiny import PROMPTS, outcome

from minispec import Draft, ModelDrafter, SeededRng, Warp, check_verifier, generate, speculate, verify_greedy
from minispec.evidence.checker.instance import as_floats
from minispec.evidence.checker.instances import standard_instances
from minispec.evidence.proof.distributions import branches
from minispec.evidence.proof.lossy import damage, lossy_cases
from minispec.evidence.proof.prove import all_cases
from minispec.rules.lossy import threshold, verify_typical


def lost(p, q):
    """Returns the total variation at one position: q(A)·TV(q given A, p), A being what is likely enough."""
    p, q = (torch.tensor(dist, dtype=torch.float64) for dist in (p, q))
    entropy = -sum(x * x.log() for x in p if x > 0)
    accepted = p > min(0.09, 0.3 * torch.exp(-entropy))
    reached = q[accepted].sum()
    return float(0.5 * (q * accepted - reached * p).abs().sum())


def test_its_damage_at_one_position_is_the_closed_form():
    """On every instance of one drafted token, enumerated by `check_verifier`."""
    single = [one for one in standard_instances() if one.k == 1 and one.lengths == (1,)]
    report = check_verifier(verify_typical, instances=single)
    assert report.method == "exact" and len(report.results) == len(single) > 50
    for found in report.results:
        p, q = (as_floats(tables[0][0]) for tables in (found.instance.p, found.instance.q))
        assert found.distance == pytest.approx(lost(p, q), abs=1e-12)
    assert max(found.distance for found in report.results) > 0.7


def test_check_verifier_finds_that_it_is_lossy():
    """Many instances show it; none breaks a rule's other promises, such as never to say the impossible."""
    report = check_verifier(verify_typical)
    wrong = [one for one in report.results if one.reason]
    assert not report.passed and len(wrong) > 100
    assert all("distribut" in one.reason for one in wrong)
    assert not verify_typical.lossless


@pytest.mark.parametrize(
    ("p", "accepted"),
    [
        ([0.90, 0.05, 0.05], [True, False, False]),  # H = 0.394, 0.3·e^−H = 0.202: above 0.09 is enough
        ([0.91, 0.09, 0.00], [True, False, False]),  # not above
        ([0.90, 0.10, 0.00], [True, True, False]),
        ([0.12] * 4 + [0.052] * 10, [True] * 14),  # H = 2.555, 0.3·e^−H = 0.0233
        ([0.12] * 4 + [0.06] * 8 + [0.02] * 2, [True] * 12 + [False] * 2),  # H = 2.524, 0.0240
    ],
)
def test_what_is_likely_enough(p, accepted):
    """Worked out by hand, for each token of p, whatever the draft says of it."""
    target = torch.tensor([[p, p]] * len(p), dtype=torch.float64)
    tokens = torch.arange(len(p))[:, None]
    draft = Draft(tokens, torch.ones(len(p), 1, len(p)) / len(p))
    found = verify_typical(draft, target, SeededRng(0))
    assert found.accepted.tolist() == [int(one) for one in accepted]
    assert threshold(target).shape == (len(p), 2)


def test_it_stops_at_the_first_rejection_and_at_the_end_of_a_row():
    """What is likely after a rejection, or is padding, is not accepted; then p itself is drawn from."""
    p = torch.zeros(3, 4, 5, dtype=torch.float64)
    for i in range(4):
        p[:, i, i] = 1
    tokens = torch.tensor([[0, 1, 2], [0, 3, 2], [0, 1, 2]])
    draft = Draft(tokens, torch.full((3, 3, 5), 0.2), torch.tensor([3, 3, 1]))
    found = verify_typical(draft, p, SeededRng(0))
    assert (found.accepted.tolist(), found.token.tolist()) == ([3, 1, 1], [3, 1, 1])
    none = verify_typical(Draft.empty(3, 5), p[:, :1], SeededRng(0))
    assert (none.accepted.tolist(), none.token.tolist()) == ([0, 0, 0], [0, 0, 0])


def test_at_temperature_0_it_is_the_greedy_rule():
    """Round for round."""
    target, draft = tiny.gpt_pair()
    settings = {"k": 3, "max_new_tokens": 15, "warp": Warp(temperature=0), "eos": 4}
    runs = [
        list(speculate(target, ModelDrafter(draft), PROMPTS, verifier=rule, rng=SeededRng(0), **settings))
        for rule in (verify_typical, verify_greedy)
    ]
    assert [r.emitted for r in runs[0]] == [r.emitted for r in runs[1]]
    steps = list(generate(target, PROMPTS, rng=SeededRng(0), **{k: settings[k] for k in list(settings)[1:]}))
    texts, _ = outcome(runs[0], len(PROMPTS))
    assert texts == [[s[row] for s in steps if s[row] is not None] for row in range(len(PROMPTS))]


def test_heads_through_the_loop_lose_what_the_closed_form_says():
    """Two tokens of text: one is drafted. The loop reports p and q of that round."""
    for case in lossy_cases():
        case = replace(case, prompts=((1, 0),), k=1, max_new_tokens=2)
        first = next(branches(case)).steps[0]
        assert len(first.drafted) == 1
        assert damage(case).total_variation == pytest.approx(lost(first.p[0], first.q[0]), abs=1e-12)


def test_longer_texts_lose_no_less():
    """The first token's damage is a part of the text's; rejection on the same cases loses nothing."""
    for case in lossy_cases((1,)):
        found = [damage(replace(case, max_new_tokens=n)).total_variation for n in (1, 2, 3)]
        assert found[0] < 1e-12 < 0.01 < found[1] <= found[2]


def test_the_proof_does_not_claim_it():
    """No case that `minispec prove` calls lossless has a rule that says it is not."""
    assert all(getattr(case.verifier, "lossless", True) for case in all_cases())
