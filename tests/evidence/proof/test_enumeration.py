"""Enumeration: every branch once, its probability right; code that does not repeat itself is found out."""

import itertools

import pytest
import torch
from tiny import place

from minispec import EnumeratingRng
from minispec.evidence.proof.enumeration import Uniform, enumerate_branches


def coins(n, heads=0.25):
    """Returns a run that throws n coins a row."""

    def run(rng, keys):
        thrown = [rng.bernoulli(torch.full((len(keys),), heads)).tolist() for _ in range(n)]
        return list(zip(*thrown, strict=True))

    return run


@pytest.mark.parametrize("most_rows", [1, 3, 512])
def test_coins(most_rows):
    """Four coins: 16 branches, each once, each with its binomial probability, however many run at once."""
    branches = [
        (outcome, weight) for _, outcome, weight in enumerate_branches(coins(4), ["start"], most_rows)
    ]
    assert sorted(outcome for outcome, _ in branches) == sorted(itertools.product([True, False], repeat=4))
    for outcome, weight in branches:
        heads = sum(outcome)
        assert weight == pytest.approx(0.25**heads * 0.75 ** (4 - heads))


def test_starts_are_kept_apart():
    """Every start has a distribution of its own, which sums to 1."""

    def run(rng, keys):
        probs = torch.tensor([[0.1, 0.2, 0.7], [0.5, 0.5, 0.0]], dtype=torch.float64)
        return rng.categorical(probs[list(keys)]).tolist()

    branches = [(key, outcome, round(weight, 12)) for key, outcome, weight in enumerate_branches(run, [0, 1])]
    assert sorted(branches) == [(0, 0, 0.1), (0, 1, 0.2), (0, 2, 0.7), (1, 0, 0.5), (1, 1, 0.5)]


def stop_at_heads(rng, keys):
    """Throws until heads, at most five times; rows that have stopped are masked."""
    live = torch.ones(len(keys), dtype=torch.bool)
    throws = torch.zeros(len(keys), dtype=torch.long)
    for _ in range(5):
        throws += live
        live = live & ~rng.bernoulli(torch.full((len(keys),), 0.5), place(range(len(keys)), live=live))
    return throws.tolist()


def test_rows_that_stop_are_no_branches():
    """A geometric distribution: what is masked neither branches nor weighs."""
    branches = list(enumerate_branches(stop_at_heads, [0]))
    assert len(branches) == 6
    total = {}
    for _, outcome, weight in branches:
        total[outcome] = total.get(outcome, 0) + weight
    assert total == {1: 0.5, 2: 0.25, 3: 0.125, 4: 0.0625, 5: 0.0625}


def test_what_is_certain_or_impossible_does_not_branch():
    """Probabilities 0 and 1, and one possible id, leave one branch of weight 1."""

    def run(rng, keys):
        yes = rng.bernoulli(torch.tensor([0.0, 1.0, 1.0, 0.0])[: len(keys)])
        token = rng.categorical(torch.tensor([[0.0, 1.0, 0.0]]).expand(len(keys), 3))
        return list(zip(yes.tolist(), token.tolist(), strict=True))

    assert list(enumerate_branches(run, [0])) == [(0, (False, 1), 1.0)]


def test_a_number_is_known_as_far_as_it_was_compared():
    """Compared twice, it is in three places, not in four; entries are apart, and certain above 1."""

    def run(rng, keys):
        u = Uniform(rng)
        return [((u < 0.75).item(), bool(u >= 0.25), bool(u <= 2))]

    branches = {answers: weight for _, answers, weight in enumerate_branches(run, [0], most_rows=1)}
    assert branches == {(True, True, True): 0.5, (True, False, True): 0.25, (False, True, True): 0.25}

    def two(rng, keys):
        u = Uniform(rng)
        half = torch.tensor(0.5)
        first = (u < torch.tensor([0.5, 0.25])).tolist()
        second = (half > u).tolist()
        return [(*first, *second)]

    branches = {answers: weight for _, answers, weight in enumerate_branches(two, [0], most_rows=1)}
    assert branches[True, True, True, True] == 0.125
    assert branches[False, False, False, False] == pytest.approx(0.25)
    assert len(branches) == 6 and sum(branches.values()) == pytest.approx(1)


def test_code_that_does_not_repeat_itself_is_found_out():
    """A run that asks for other decisions the second time cannot be found, and says so."""
    calls = itertools.count()

    def run(rng, keys):
        for _ in range(3 if next(calls) == 0 else 1):
            rng.bernoulli(torch.full((len(keys),), 0.5))
        return [None] * len(keys)

    with pytest.raises(ValueError, match="did not repeat itself"):
        list(enumerate_branches(run, [0]))


def test_decisions_for_unnamed_rows_are_refused():
    """Three decisions for two rows could be anybody's."""
    with pytest.raises(ValueError, match="name the rows"):
        EnumeratingRng([(), ()]).bernoulli(torch.full((3,), 0.5))


def test_a_distribution_without_mass_is_refused():
    """NaN everywhere is an error, not an outcome."""
    with pytest.raises(ValueError, match="no mass"):
        EnumeratingRng([()]).categorical(torch.tensor([[float("nan"), float("nan")]]))
