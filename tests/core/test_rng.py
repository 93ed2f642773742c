"""Random numbers: a seed says everything, what is certain draws nothing, and the distributions are right."""

import numpy as np
import pytest
import torch
from native_models import needs_compiler
from refusals import refused
from scipy import stats
from tiny import place

from minispec import KeyedRng, SeededRng
from minispec.evidence.zoo.check_state import ConstantRng
from minispec.native.decisions import NativeRng

ALARM = 1e-6  # of all seeds, so many fail one of the tests below with a right generator; the seed is fixed
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


def probs(*values):
    return torch.tensor(values, dtype=torch.float64)


def draws(rng):
    """A few decisions of both kinds."""
    return [
        *rng.bernoulli(probs(0.5, 0.1, 0.9)).tolist(),
        *rng.bernoulli(torch.tensor([0, 0.5, 1] * 10)).tolist(),
        *rng.categorical(probs([0.2, 0.3, 0.5], [0.6, 0.4, 0])).tolist(),
        *rng.bernoulli(torch.full((40,), 0.5)).tolist(),
    ]


def test_a_seed_fixes_a_stream_of_its_own():
    """Another seed gives another; torch's global generator is neither read nor moved."""
    torch.manual_seed(0)
    state = torch.get_rng_state()
    first = draws(SeededRng(7))
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(1)
    assert draws(SeededRng(7)) == first != draws(SeededRng(8))


@pytest.mark.parametrize(("rng", "last"), [(SeededRng, 2**32 - 1), (KeyedRng, 2**63 - 1)])
def test_a_seed_outside_its_range_is_refused(rng, last):
    """One more than the last would be seed 0 again, in silence; numbers of numpy and torch are taken."""
    for seed in (-1, last + 1, 10**30):
        with refused(f"seed must be 0 to {last:,}, not {seed}"):
            rng(seed)
    for seed in (2.5, 3.0, "1", None):
        with pytest.raises(TypeError):
            rng(seed)
    everywhere = place(range(2), positions=torch.tensor([3, 4]))
    dists = probs([0.2, 0.3, 0.5], [0.6, 0.2, 0.2])
    drawn = [rng(seed).categorical(dists, everywhere).tolist() for seed in (7, np.int64(7), torch.tensor(7))]
    assert drawn[0] == drawn[1] == drawn[2]
    rng(0), rng(last)


def test_what_has_probability_zero_never_happens_and_what_is_certain_always():
    """Probabilities 0 and 1 are kept 100,000 times, and ids of probability 0 are never picked."""
    rng = SeededRng(0)
    assert not rng.bernoulli(torch.zeros(100_000)).any()
    assert rng.bernoulli(torch.ones(100_000)).all()
    dist = probs(0, 0.5, 0, 0.5, 0).expand(100_000, 5)
    assert set(rng.categorical(dist).tolist()) == {1, 3}


@DTYPES
@pytest.mark.parametrize("rest", [1e-9, 1e-17, 1e-25])
@pytest.mark.parametrize("rng", [SeededRng, pytest.param(NativeRng, marks=needs_compiler)])
def test_a_token_that_is_all_but_certain_is_drawn_whatever_else_is_possible(rng, rest, dtype):
    """At a low temperature the others keep a probability that rounds away next to 1, also before it."""
    dists = torch.tensor([[rest, 1.0, rest], [rest, rest, 1.0]], dtype=dtype)
    for seed in range(50):
        assert rng(seed).categorical(dists).tolist() == [1, 2]


@DTYPES
@pytest.mark.parametrize("uniform", [0.0, 1 - 2**-53])
def test_the_ends_of_the_uniform_distribution_are_safe(uniform, dtype):
    """At both ends of [0, 1) no id and no answer of probability 0 comes up."""
    rng = ConstantRng(uniform)
    dists = torch.rand(200, 7, generator=torch.Generator().manual_seed(0)).to(dtype)
    dists[:, [0, 3, 6]] = 0
    dists = dists / dists.sum(-1, keepdim=True)
    assert set(rng.categorical(dists).tolist()) == {5 if uniform else 1}
    assert rng.bernoulli(torch.tensor([0.0, 1.0], dtype=dtype)).tolist() == [False, True]
    assert rng.bernoulli(torch.tensor([1e-30], dtype=dtype)).tolist() == [uniform == 0]


def test_what_is_masked_or_certain_draws_nothing():
    """Certain and masked decisions leave the stream where it was: the next draw is as without them.

    What differs from certainty by rounding only is certain.
    """
    plain = SeededRng(3)
    busy = SeededRng(3)
    sure = probs([0, 1, 0], [0, 0, 1])
    assert busy.bernoulli(probs(0, 1, 1 - 2**-53, 1 - 1e-13)).tolist() == [False, True, True, True]
    assert busy.categorical(sure).tolist() == [1, 2]
    off = place(range(2), live=torch.zeros(2, dtype=torch.bool))
    assert busy.bernoulli(probs(0.5, 1), off).tolist() == [False, False]
    assert busy.categorical(probs([0.5, 0.5], [0, 1]), off).tolist() == [0, 0]
    assert draws(plain) == draws(busy)
    open_too = SeededRng(3)
    open_too.bernoulli(probs(1 - 1e-11))
    assert draws(open_too) != draws(SeededRng(3))


def test_open_rows_get_the_draws_that_they_would_get_without_the_others():
    """Masked rows between live ones do not take numbers away."""
    dist = probs([0.3, 0.3, 0.4], [0.1, 0.2, 0.7])
    alone = SeededRng(5)
    wide = SeededRng(5)
    live = place(range(4), live=torch.tensor([False, True, False, True]))
    for _ in range(20):
        expected = alone.categorical(dist).tolist()
        assert wide.categorical(dist[[0, 0, 1, 1]], live).tolist() == [0, expected[0], 0, expected[1]]
        expected = alone.bernoulli(probs(0.5, 0.6)).tolist()
        got = wide.bernoulli(probs(0.5, 0.5, 1.0, 0.6), live).tolist()
        assert got == [False, expected[0], False, expected[1]]


def assert_frequencies(ids, expected, shift):
    """Pearson's chi-square test of [N] ids on cells that are expected so often.

    It fails for one right generator in 10^6, and passes one whose distribution is `shift` away in total
    variation at most once in 10^6: a distribution p + d has noncentrality n · Σ d²/p ≥ 4 · n · TV², by the
    inequality of Cauchy and Schwarz.
    """
    cells = len(expected)
    critical = stats.chi2.isf(ALARM, cells - 1)
    assert stats.ncx2.cdf(critical, cells - 1, 4 * len(ids) * shift**2) < ALARM
    counts = torch.bincount(ids, minlength=cells)
    assert stats.chisquare(counts, expected).statistic < critical


def test_ids_come_up_as_often_as_their_distribution_says():
    """400,000 draws from one distribution, a batch at a time: batches have ends as often as the rest."""
    dist = probs(0.4, 0.3, 0.2, 0.09, 0.01, 0)
    rng = SeededRng(0)
    ids = torch.cat([rng.categorical(dist.expand(100_000, 6)) for _ in range(4)])
    assert_frequencies(ids, dist[:5] * 400_000, 0.011)


def test_draws_that_follow_each_other_are_independent():
    """200,000 pairs of draws of one row."""
    dist = probs(0.5, 0.3, 0.2).expand(200_000, 3)
    rng = SeededRng(1)
    first = rng.categorical(dist)
    assert_frequencies(
        3 * first + rng.categorical(dist), (dist[0, :, None] * dist[0]).flatten() * 200_000, 0.019
    )


@pytest.mark.parametrize("prob", [0.5, 0.01, 0.999])
def test_yes_comes_up_as_often_as_its_probability_says(prob):
    """An exact binomial test on 200,000 draws: one false alarm in 10^6 seeds.

    Five standard deviations are at most 0.0056: one that is 0.012 away is missed at most once in 10^6.
    """
    n = 200_000
    yes = int(SeededRng(2).bernoulli(torch.full((n,), prob)).sum())
    assert stats.binomtest(yes, n, float(torch.tensor(prob))).pvalue > ALARM
