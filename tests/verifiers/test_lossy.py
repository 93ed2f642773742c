"""Lossy rules: at one position by closed forms, elsewhere by what enumeration finds."""

from math import fsum

import pytest
import tiny
import torch

from minispec import Draft, ModelDrafter, SeededRng, Warp, check_verifier
from minispec.evidence.checker.instances import standard_instances
from minispec.verifiers.lossy import (
    threshold,
    verify_lenient,
    verify_mixture,
    verify_relaxed,
    verify_typical,
    with_parameters,
)

SINGLE = [one for one in standard_instances() if one.k == 1 and one.lengths == (1,)][::2]


def apart(out, p):
    """Returns the total variation."""
    return fsum(abs(a - b) for a, b in zip(out, p, strict=True)) / 2


def likely(p, q, accepted):
    """Returns what comes out where some tokens are accepted, the others replaced by a draw from p."""
    reached = fsum(b for b, on in zip(q, accepted, strict=True) if on)
    return [b * on + (1 - reached) * a for a, b, on in zip(p, q, accepted, strict=True)]


def typical(p, q):
    entropy = -sum(x * torch.tensor(x).double().log().item() for x in p if x > 0)
    return likely(p, q, [x > min(0.09, 0.3 * 2.718281828459045**-entropy) for x in p])


def relaxed(p, q, most=2):
    return likely(p, q, [x >= max(sorted(p)[-most:][0], max(p) - 0.6) for x in p])


def mixture(p, q, w=0.7):
    return [w * a + (1 - w) * b for a, b in zip(p, q, strict=True)]


def lenient(p, q, lenience=0.5):
    kept = [min(a / lenience, b) for a, b in zip(p, q, strict=True)]
    lacking = [max(a - lenience * b, 0.0) for a, b in zip(p, q, strict=True)]
    return [k + (1 - fsum(kept)) * x / fsum(lacking) for k, x in zip(kept, lacking, strict=True)]


RULES = [
    (verify_typical, typical),
    (with_parameters(verify_relaxed, most=2), relaxed),
    (with_parameters(verify_mixture, weight=0.7), mixture),
    (verify_lenient, lenient),
]


@pytest.mark.parametrize(("rule", "form"), RULES, ids=[verifier.name for verifier, _ in RULES])
def test_the_damage_at_one_position_is_the_closed_form(rule, form):
    """On every instance of one drafted token, enumerated by `check_verifier`; the rule says that it loses."""
    report = check_verifier(rule, instances=SINGLE)
    assert report.method == "exact" and len(report.results) == len(SINGLE) > 50 and not rule.lossless
    for found in report.results:
        p, q = ([*map(float, tables[0][0])] for tables in (found.instance.p, found.instance.q))
        assert found.distance == pytest.approx(apart(form(p, q), p), abs=1e-12)
    assert max(found.distance for found in report.results) > 0.29


def test_a_mixtures_bonus_is_the_targets():
    """After a row's end p is not mixed with what is padding."""
    p = torch.eye(3).double()[None]
    q = torch.full((1, 2, 3), 1 / 3).double()
    found = verify_mixture(Draft(torch.tensor([[0, 0]]), q, torch.tensor([1])), p, SeededRng(0))
    assert found.accepted.tolist() == [1] and found.token.tolist() == [1]


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


@pytest.mark.parametrize("lossy", [verify_typical, verify_relaxed, verify_lenient])
def test_at_temperature_0_it_is_the_greedy_rule(lossy):
    """A mixture has the draft's tokens even there."""
    target, draft = tiny.gpt_pair()
    settings = {"verifier": lossy, "eos": 4}
    rounds = tiny.targets_own_text(target, ModelDrafter(draft), **settings)
    mixed = tiny.decode(
        target, ModelDrafter(draft), **settings | {"verifier": verify_mixture, "warp": Warp(0)}
    )
    assert [r.emitted for r in rounds] != [r.emitted for r in mixed]
