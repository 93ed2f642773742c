"""The rejection rule on instances that Hypothesis draws: every draft, every branch, exactly.

Hypothesis draws the instances, never the numbers of a verdict. So a failure is a fact, and shrinks to the
smallest p and q that show it.
"""

from fractions import Fraction

import pytest
import torch
from hypothesis import find, given, settings
from hypothesis import strategies as st

from minispec import Verdict, verify_coupled, verify_rejection
from minispec.evidence.checker.instances import Instance
from minispec.evidence.checker.trials import compare_exactly

EXACT = 1e-10
RARE = 10**9  # a weight next to which 1 is nearly nothing


@st.composite
def dists(draw, size):
    """A distribution over `size` ids, of small weights: zeros, ties and near certainty are common."""
    weights = draw(st.lists(st.sampled_from([1, 0, 2, 3, RARE]), min_size=size, max_size=size).filter(any))
    return tuple(Fraction(weight, sum(weights)) for weight in weights)


@st.composite
def draft_dists(draw, p):
    """A distribution to go with p: anything, p itself, p but for rounding, or one of disjoint support."""
    relation = draw(st.sampled_from(["free", "same", "rounded", "disjoint"]))
    free = draw(dists(len(p)))
    elsewhere = sum(b for a, b in zip(p, free, strict=True) if not a)
    if relation == "same":
        return p
    if relation == "rounded":
        return tuple(float(prob) * (1 + 2**-52) for prob in p)
    if relation == "disjoint" and elsewhere:
        return tuple(Fraction(0) if a else b / elsewhere for a, b in zip(p, free, strict=True))
    return free


@st.composite
def instances(draw, most_k=3, most_ids=3):
    """An instance: distributions that are the same after every prefix or not; rows of one or more lengths."""
    k = draw(st.integers(0, most_k))
    size = draw(st.integers(2, most_ids))
    in_context = draw(st.booleans())
    counts = [size**i if in_context else 1 for i in range(k + 1)]
    p = tuple(tuple(draw(dists(size)) for _ in range(count)) for count in counts)
    q = tuple(tuple(draw(draft_dists(dist)) for dist in table) for table in p[:k])
    lengths = draw(st.lists(st.integers(0, k), unique=True, max_size=k + 1))
    return Instance(p, q, tuple(lengths))


@pytest.mark.parametrize("rule", [verify_rejection, verify_coupled])
@given(instance=instances(), most_rows=st.sampled_from([1, 2, 3, 7, 512]))
def test_the_distribution_is_exactly_the_targets(rule, instance, most_rows):
    """Whatever p, q, K, the lengths of rows, and how many rows share a batch."""
    finding = compare_exactly(rule, instance, most_rows, EXACT)
    assert finding.reason is None and finding.error <= EXACT, finding.reason


@given(instance=instances(most_k=1, most_ids=6))
def test_the_distribution_is_exact_over_more_ids(instance):
    """The same over up to six ids."""
    assert compare_exactly(verify_rejection, instance, 512, EXACT).reason is None


@given(instance=instances())
def test_something_is_played(instance):
    """The probabilities of all drafts sum to 1, and the distribution that is compared with does."""
    assert float(instance.drafts().weights.sum()) == pytest.approx(1, abs=1e-12)
    assert float(instance.distribution().sum()) == pytest.approx(1, abs=1e-12)


def smallest(wrong):
    """The instance to which Hypothesis shrinks a failure; derandomized, so always the same."""
    fixed = settings(derandomize=True, database=None, deadline=None, max_examples=3000)
    return find(
        instances(), lambda one: compare_exactly(wrong, one, 512, EXACT).reason is not None, settings=fixed
    )


def planted(draft, target_probs, rng):
    """Draws from p after a rejection, not from the residual."""
    verdict = verify_rejection(draft, target_probs, rng)
    each = torch.arange(len(verdict.token))
    again = rng.categorical(target_probs[each, verdict.accepted])
    return Verdict(verdict.accepted, torch.where(verdict.accepted < draft.lengths, again, verdict.token))


def planted_bonus(draft, target_probs, rng):
    """Draws the bonus at the last drafted position."""
    verdict = verify_rejection(draft, target_probs, rng)
    at = (verdict.accepted - 1).clamp(min=0)
    again = rng.categorical(target_probs[torch.arange(len(at)), at])
    full = (verdict.accepted == draft.lengths) & (draft.lengths > 0)
    return Verdict(verdict.accepted, torch.where(full, again, verdict.token))


def test_a_failure_shrinks_to_the_smallest_p_and_q():
    """Drawing again from p: K = 1, two ids, halves against certainty."""
    instance = smallest(planted)
    half, sure = (Fraction(1, 2),) * 2, {(Fraction(1), Fraction(0)), (Fraction(0), Fraction(1))}
    assert (instance.k, instance.vocab_size, instance.lengths) == (1, 2, (1,))
    assert instance.p[0] == (half,) and instance.q[0][0] in sure
    assert len(instance.p[1]) == 1


def test_a_wrong_bonus_shrinks_to_two_different_distributions():
    """A bonus from the wrong row: K = 1, two ids, and a second distribution that is not the first."""
    instance = smallest(planted_bonus)
    assert (instance.k, instance.vocab_size, instance.lengths) == (1, 2, (1,))
    assert instance.p[0] != instance.p[1]
    assert max(prob.denominator for table in instance.p for dist in table for prob in dist) <= 2
