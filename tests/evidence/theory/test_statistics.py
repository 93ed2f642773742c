"""Statistics: formulas against scipy, and both error rates against what is exactly so far off."""

import math

import numpy as np
import pytest
from scipy import stats

from minispec.evidence.theory.statistics import (
    RARE,
    check_sample,
    check_uniform,
    detected_distance,
    mean_distance,
    pearson_p_value,
)

ALARM = 1e-6
N = 20_000


def named(values):
    """A distribution whose cells are 0, 1, 2, …"""
    values = np.asarray(values, dtype=float)
    return dict(enumerate((values / values.sum()).tolist()))


DISTRIBUTIONS = {
    "coin": named([0.5, 0.5]),
    "uniform over 50": named(np.ones(50)),
    "geometric": named(0.7 ** np.arange(40)),
    "one likely, many rare": named([200, *[1] * 100]),
}


def draw(exact, samples, seed):
    """Counts of independent samples."""
    counts = np.random.default_rng(seed).multinomial(samples, np.array(list(exact.values())))
    return dict(zip(exact, counts.tolist(), strict=True))


def moved(exact, gains, amount):
    """Gives an amount of probability to some cells, by shares; all others lose by what they have."""
    losers = exact.keys() - gains
    held = sum(exact[cell] for cell in losers)
    assert amount <= held, "the shape cannot be that far off"
    whole = sum(gains.values())
    change = {cell: -exact[cell] / held for cell in losers} | {
        cell: share / whole for cell, share in gains.items()
    }
    return {cell: p + amount * change[cell] for cell, p in exact.items()}


def one_up(exact, amount):
    """The likeliest cell gains what all others lose."""
    return moved(exact, {max(exact, key=exact.get): 1}, amount)


def one_down(exact, amount):
    """The likeliest cells lose what all others gain evenly."""
    cells = sorted(exact, key=exact.get, reverse=True)
    size = next(n for n in range(1, len(cells)) if sum(exact[cell] for cell in cells[:n]) > 1.5 * amount)
    return moved(exact, dict.fromkeys(cells[size:], 1), amount)


def half_up(exact, amount):
    """Every other cell gains, in proportion, what the rest loses: the difference is spread thin."""
    return moved(exact, {cell: exact[cell] for cell in list(exact)[1::2]}, amount)


SHAPES = [one_up, one_down, half_up]


@pytest.mark.parametrize("exact", DISTRIBUTIONS.values(), ids=DISTRIBUTIONS.keys())
@pytest.mark.parametrize("samples", [1, 7, 100, 2_000])
def test_mean_distance_is_the_sum_over_the_binomial(exact, samples):
    """De Moivre's formula against the sum over all counts, and below Jensen's bound."""
    counts = np.arange(samples + 1)
    spread = [
        float((np.abs(counts - samples * p) * stats.binom.pmf(counts, samples, p)).sum())
        for p in exact.values()
    ]
    assert mean_distance(exact, samples) == pytest.approx(sum(spread) / 2 / samples, rel=1e-9)
    jensen = sum(math.sqrt(p * (1 - p) / samples) for p in exact.values()) / 2
    assert mean_distance(exact, samples) <= jensen * (1 + 1e-12)


@pytest.mark.parametrize("exact", DISTRIBUTIONS.values(), ids=DISTRIBUTIONS.keys())
def test_the_threshold_bounds_the_false_alarms(exact):
    """With an alarm rate of 20%, at most 20% of 2,000 right samples fail, and 0 at 1e-6.

    2,000 yes-or-no trials exceed their mean by 0.06 with probability 5e-7 at most (Hoeffding).
    """
    results = [check_sample("", draw(exact, 400, seed), exact, 0.2) for seed in range(2_000)]
    assert sum(not test.passed for test in results) / 2_000 <= 0.26
    loose = check_sample("", draw(exact, 400, 0), exact, ALARM).threshold
    assert max(test.distance for test in results) < loose


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("exact", DISTRIBUTIONS.values(), ids=DISTRIBUTIONS.keys())
def test_what_is_off_by_the_detectable_distance_is_caught(exact, shape):
    """Negative control: samples of a distribution exactly `detects` off fail, in 100 of 100 draws.

    One pass in 100 draws has probability 1e-4 at most by the bound (1e-6 each), and in truth far less.
    """
    off = detected_distance(exact, N, ALARM)
    wrong = shape(exact, off)
    assert sum(abs(exact[cell] - wrong[cell]) for cell in exact) / 2 == pytest.approx(off, abs=1e-12)
    tests = [check_sample("", draw(wrong, N, seed), exact, ALARM) for seed in range(100)]
    assert {test.detects for test in tests} == {off}
    assert not any(test.passed for test in tests)


def test_one_impossible_outcome_fails():
    """A single sample of probability 0 among a million is enough, named or not."""
    for exact in ({"a": 0.5, "b": 0.5}, {"a": 0.5, "b": 0.5, "c": 0.0}):
        assert check_sample("", {"a": 500_000, "b": 500_000}, exact, ALARM).passed
        result = check_sample("", {"a": 500_000, "b": 500_000, "c": 1}, exact, ALARM)
        assert not result.passed and result.impossible == 1
        assert result.distance < result.threshold  # it is not the distance that says so


def test_outcomes_without_a_name_are_rare():
    """They are counted in the pooled cell, if there is one."""
    exact = {"a": 0.9, RARE: 0.1}
    result = check_sample("x", {"a": 90, "b": 4, "c": 6}, exact, ALARM)
    assert (result.distance, result.cells, result.rare, result.impossible) == (0, 2, 0.1, 0)
    assert check_sample("x", {"a": 900, "b": 100}, {"a": 1.0, RARE: 0.0}, ALARM).impossible == 100


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", ["coin", "uniform over 50"])
def test_pearson_is_scipys(name, seed):
    """Without merged cells it is scipy's p-value."""
    exact = DISTRIBUTIONS[name]
    counts = draw(exact, 2_000, seed)
    whole = stats.chisquare(list(counts.values()), [2_000 * p for p in exact.values()])
    assert pearson_p_value(counts, exact) == pytest.approx(whole.pvalue, rel=1e-6)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: check_sample("", {"a": 1}, {"a": 0.5, "b": 0.4}, ALARM), "sum to"),
        (lambda: check_sample("", {"a": 1}, {"a": 1.5, "b": -0.5}, ALARM), "sum to"),
        (lambda: check_sample("", {"a": 1}, {}, ALARM), "sum to"),
        (lambda: check_sample("", {}, DISTRIBUTIONS["coin"], ALARM), "at least one"),
        (lambda: check_uniform("", [], ALARM), "at least one"),
    ],
)
def test_bad_input_is_refused(call, words):
    """No distance, what is no distribution, and no samples."""
    with pytest.raises(ValueError, match=words):
        call()


def test_pearson_merges_cells_that_expect_too_few():
    """Cells of 3, 1 and 1 expected become one of 5; if they are still too few, the next joins them."""
    exact = {"a": 0.6, "b": 0.35, "c": 0.03, "d": 0.01, "e": 0.01}
    counts = {"a": 55, "b": 37, "c": 5, "d": 1, "e": 2}
    merged = stats.chisquare([55, 37, 8], [60, 35, 5]).pvalue
    assert pearson_p_value(counts, exact) == pytest.approx(merged, rel=1e-6)
    few = {"a": 0.6, "b": 0.36, "c": 0.04}
    joined = stats.chisquare([70, 30], [60, 40]).pvalue
    assert pearson_p_value({"a": 70, "b": 20, "c": 10}, few) == pytest.approx(joined, rel=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_the_distance_from_uniform_is_scipys(seed):
    """Kolmogorov's distance; and what the inequality allows is not below the exact p-value."""
    generator = np.random.default_rng(seed)
    for values in (generator.random(200), generator.random(200) ** 1.5):
        exact = stats.kstest(values, "uniform", method="exact")
        result = check_uniform("", values.tolist(), ALARM)
        assert result.distance == pytest.approx(exact.statistic, abs=1e-12)
        assert 2 * math.exp(-2 * 200 * result.distance**2) >= exact.pvalue


def far_from_uniform(amount, size, seed):
    """Numbers whose distribution is exactly so far from uniform: that share of them is moved to 0."""
    generator = np.random.default_rng(seed)
    values = generator.random(size)
    return np.where(generator.random(size) < amount, 0.0, values).tolist()


def test_uniform_numbers_pass_and_others_at_the_stated_distance_fail():
    """Both error rates of the test of p-values, 100 draws each (fails by luck with probability 1e-4)."""
    right = [check_uniform("", far_from_uniform(0.0, 200, seed), ALARM) for seed in range(100)]
    assert all(test.passed for test in right)
    off = right[0].detects
    wrong = [check_uniform("", far_from_uniform(off, 200, seed), ALARM) for seed in range(100)]
    assert not any(test.passed for test in wrong)
    assert wrong[0].measure == "Kolmogorov distance"


def test_slack_is_added_to_both_distances():
    """What is not quite uniform but right has the same false-alarm rate, and is told apart later."""
    values = far_from_uniform(0.0, 200, 0)
    tight = check_uniform("", values, ALARM)
    loose = check_uniform("", values, ALARM, slack=0.02)
    assert loose.threshold == pytest.approx(tight.threshold + 0.02)
    assert loose.detects == pytest.approx(tight.detects + 0.02)
    assert tight.threshold == pytest.approx(math.sqrt(math.log(2 / ALARM) / 400))
