"""Block verification accepts the most, even among rules that know every p and q, as a linear programme shows.

A rule is handed the whole draft of a round, keeps a prefix of it and adds one token; everything after that
token is drawn from the target's own distributions. The unknowns of the programme are the probabilities of
each prefix and added token, for each draft. Its constraints say that each text comes out as often as the
target emits it. Nothing else is asked of a rule, so the maximum is over all of them.

All of it is exact except for rounding, so nothing here fails by chance.
"""

import random
from fractions import Fraction
from itertools import product
from math import fsum

import numpy as np
import pytest
from scipy.optimize import linprog

from minispec import verify_rejection
from minispec.evidence.checker.instance import Instance
from minispec.evidence.checker.instances import fractions
from minispec.evidence.checker.trials import enumerate_rule
from minispec.evidence.zoo.mutants import mutant_named
from minispec.evidence.zoo.mutation import planted
from minispec.verifiers.block import verify_block

SIZES = ((2, 2), (2, 3), (3, 2), (3, 3))  # K and V


def integer_weights(rng, v):
    """Returns a distribution with weights from 1 to 6, some of which are 0 instead."""
    weights = [rng.randint(1, 6) * (rng.random() > 0.2) for _ in range(v)]
    return fractions(*weights) if any(weights) else integer_weights(rng, v)


def small_weights(rng, v):
    """Returns a distribution with weights from 10^−5 to 1."""
    weights = [10 ** rng.uniform(-5, 0) for _ in range(v)]
    return tuple(weight / fsum(weights) for weight in weights)


def instances(distribution, per_size):
    """Returns instances whose p and q are drawn anew after every text."""
    rng = random.Random(0)

    def tables(v, depth):
        return tuple(tuple(distribution(rng, v) for _ in range(v**i)) for i in range(depth))

    return [Instance(tables(v, k + 1), tables(v, k)) for k, v in SIZES for _ in range(per_size)]


INTEGER = instances(integer_weights, per_size=4)
SMALL = instances(small_weights, per_size=4)


def accepted(rule, instance):
    """Returns how many tokens a rule accepts on average, over every draft and every branch of the rule."""
    return fsum(leaf.last * leaf.weight for leaf in enumerate_rule(rule, instance.drafts()).values())


def probability(tables, text):
    """Returns the probability of a text; the i-th table is of token i, as in an `Instance`."""
    v = len(tables[0][0])
    so_far = Fraction(1)
    prefix = 0
    for table, token in zip(tables, text, strict=False):
        so_far *= table[prefix if len(table) > 1 else 0][token]
        prefix = prefix * v + token
    return so_far


def most_accepted(instance):
    """Returns the maximum over all lossless rules that keep a prefix, add a token and leave the rest to p."""
    ids, k = range(instance.vocab_size), instance.k
    drafts = [draft for draft in product(ids, repeat=k) if probability(instance.q, draft)]
    texts = [text for text in product(ids, repeat=k + 1) if probability(instance.p, text)]
    outcomes = [  # (draft, how much of it is kept, the token added), where the target can emit the two
        (draft, kept, token)
        for draft, kept, token in product(drafts, range(k + 1), ids)
        if probability(instance.p, (*draft[:kept], token))
    ]
    shares = np.zeros((len(drafts) + len(texts), len(outcomes)))
    gains = np.zeros(len(outcomes))
    for column, (draft, kept, token) in enumerate(outcomes):
        drafted = probability(instance.q, draft)
        emitted = (*draft[:kept], token)
        gains[column] = kept * drafted
        shares[drafts.index(draft), column] = 1  # a draft has one outcome
        for row, text in enumerate(texts, start=len(drafts)):
            if text[: kept + 1] == emitted:  # the target goes on with the rest: it cancels
                shares[row, column] = drafted / probability(instance.p, emitted)
    found = linprog(-gains, A_eq=shares, b_eq=np.ones(len(shares)), method="highs")
    assert found.success, found.message
    return -found.fun


@pytest.mark.parametrize(("family", "tolerance"), [(INTEGER, 1e-12), (SMALL, 1e-8)])
def test_no_rule_accepts_more(family, tolerance):
    """Zeros are among the weights of the first family; in the second, probabilities go down to 10^−5."""
    differences = [accepted(verify_block, one) - most_accepted(one) for one in family]
    assert max(map(abs, differences)) < tolerance


@pytest.mark.parametrize(("p", "q", "most"), [((1, 2), (2, 1), 11 / 9), ((1, 3), (3, 1), 7 / 8)])
def test_the_maximum_by_hand(p, q, most):
    """Two drafted tokens with the same p and q at each position: thirds, and quarters as in problem 17."""
    instance = Instance(((fractions(*p),),) * 3, ((fractions(*q),),) * 2)
    assert most_accepted(instance) == pytest.approx(most, abs=1e-12)


def test_a_rule_that_falls_short_is_seen():
    """Rejection accepts less than the maximum on at least half of the instances, and never more."""
    short = [most_accepted(one) - accepted(verify_rejection, one) for one in INTEGER]
    assert min(short) > -1e-12 and sum(gap > 1e-3 for gap in short) >= len(short) / 2


@pytest.mark.parametrize(
    ("bug", "sign"), [("block-ends-at-the-first-no", -1), ("block-coin-without-the-next", 1)]
)
def test_a_fault_in_the_coins_is_seen(bug, sign):
    """One bug accepts less than is possible, the other more than a lossless rule can."""
    with planted(mutant_named(bug)):
        differences = [accepted(verify_block, one) - most_accepted(one) for one in INTEGER]
    assert max(sign * difference for difference in differences) > 0.01
