"""The distribution of one token under a rule, against what was worked out by hand."""

from fractions import Fraction

import pytest
import torch

from minispec.classroom.rules import rule_with
from minispec.core.verify import verify_greedy, verify_rejection
from minispec.evidence.proof.first_token import first_token, parts
from minispec.verifiers.coupled import verify_coupled

P = (3 / 6, 2 / 6, 1 / 6)
Q = (1 / 6, 1 / 6, 4 / 6)
ALWAYS_C = (0.0, 0.0, 1.0)

# By hand: what is kept and what is said, in twelfths.
BY_HAND = {
    "top match": (verify_greedy, Q, None, (2, 0, 0), (10, 0, 0)),
    "fresh draw": (verify_coupled, Q, None, (1, Fraction(2, 3), Fraction(4, 3)), None),
    "from p": (rule_with("correction-from-p"), Q, None, (2, 2, 2), (3, 2, 1)),
    "residual": (verify_rejection, Q, None, (2, 2, 2), (4, 2, 0)),
    "greedy draft, softmax q": (verify_rejection, Q, ALWAYS_C, (0, 0, 3), (6, 3, 0)),
    "greedy draft, its own q": (verify_rejection, ALWAYS_C, None, (0, 0, 2), (6, 4, 0)),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_distributions_are_those_worked_out_by_hand(name):
    """On p = (3, 2, 1)/6 and q = (1, 1, 4)/6 both parts are what paper and pencil say."""
    rule, q, drawn_from, accepted, correction = BY_HAND[name]
    result = first_token(rule, P, q, drawn_from)
    assert [12 * x for x in result.accepted] == pytest.approx([float(x) for x in accepted], abs=1e-12)
    if correction is not None:
        assert [12 * x for x in result.correction] == pytest.approx(correction, abs=1e-12)
    assert sum(result.distribution) == pytest.approx(1, abs=1e-12)
    assert result.acceptance == pytest.approx(float(sum(accepted)) / 12, abs=1e-12)


def test_tensors_and_lists_are_the_same():
    """Nothing is rounded to float32 on the way; tokens that are never drafted need no branch."""
    from_lists = first_token(verify_rejection, P, Q)
    from_tensors = first_token(verify_rejection, *torch.tensor([P, Q], dtype=torch.float64))
    assert from_lists == from_tensors and from_lists.distribution == pytest.approx(P, abs=1e-15)


def test_distributions_must_fit():
    """Distributions over different tokens are refused."""
    with pytest.raises(ValueError, match="same tokens"):
        first_token(verify_rejection, P, (0.5, 0.5))


def test_parts_are_written_as_people_do():
    """Whole numbers without a point, others in three digits."""
    assert parts((0.5, 1 / 3, 1 / 6), 12) == "(6, 4, 2)/12"
    assert parts((1 / 18,), 12) == "(0.667)/12"
