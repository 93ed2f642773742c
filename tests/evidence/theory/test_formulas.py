"""The formulas: against enumeration, against each other, and at their edges."""

from fractions import Fraction
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pairs import tiny_config
from refusals import refused

from minispec.core.model import GPT, GPTConfig
from minispec.evidence.theory.formulas import (
    Hardware,
    acceptance,
    best_k,
    expected_tokens,
    expected_tokens_by_position,
    forward_cost,
    kv_cache_bytes,
    refined_speed_up,
    speed_up,
    total_variation,
)

PROBABILITY = st.floats(0, 1)
DISTRIBUTIONS = (
    st.lists(st.integers(0, 9), min_size=3, max_size=3).filter(any).map(lambda n: [x / sum(n) for x in n])
)


def test_by_hand():
    """p = (3, 2, 1)/6 and q = (1, 1, 4)/6 overlap in 1/6 + 1/6 + 1/6, and are 1/2 apart."""
    p = [Fraction(n, 6) for n in (3, 2, 1)]
    q = [Fraction(n, 6) for n in (1, 1, 4)]
    assert acceptance(p, q) == pytest.approx(1 / 2) and total_variation(p, q) == pytest.approx(1 / 2)
    assert acceptance(torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])) == 0


@given(DISTRIBUTIONS, DISTRIBUTIONS)
def test_acceptance_is_one_minus_total_variation(p, q):
    """α = 1 − TV, and it is what the rule does: the probability Σ q·min(1, p/q)."""
    assert acceptance(p, q) == pytest.approx(1 - total_variation(p, q), abs=1e-12)
    rule = sum(b * min(1, a / b) for a, b in zip(p, q, strict=True) if b > 0)
    assert acceptance(p, q) == pytest.approx(rule, abs=1e-12)


@given(st.lists(PROBABILITY, max_size=6))
def test_expected_tokens_by_enumeration(alphas):
    """The mean over where the first rejection falls: h accepted tokens, and one more."""
    mean = 0.0
    all_before = 1.0
    for accepted, alpha in enumerate(alphas):
        mean += all_before * (1 - alpha) * (accepted + 1)
        all_before *= alpha
    mean += all_before * (len(alphas) + 1)
    assert expected_tokens_by_position(alphas) == pytest.approx(mean)


@given(st.floats(0, 0.999), st.integers(0, 20), st.floats(0, 2))
def test_closed_forms(alpha, k, c):
    """Equation 1 and theorem 3.8 as they are printed; constant α is a case of many α."""
    printed = (1 - alpha ** (k + 1)) / (1 - alpha)
    assert expected_tokens(alpha, k) == pytest.approx(printed)
    assert expected_tokens_by_position([alpha] * k) == pytest.approx(printed)
    assert speed_up(alpha, k, c) == pytest.approx(printed / (k * c + 1))
    assert refined_speed_up([alpha] * k, 1.0, c, lambda n: 1.0) == pytest.approx(speed_up(alpha, k, c))


def test_everything_accepted():
    """At α = 1 a round yields K + 1 tokens."""
    assert expected_tokens(1, 5) == 6 and speed_up(1, 5, 0) == 6 and best_k(1, 0.1, most=12) == 12
    assert best_k(1, 0.1) == 16  # unless more are allowed


def test_verification_that_costs_more_gains_less():
    """With α = (0.5, 0.5), c = 0.1 and a verification of 1.5 steps: 1.75 / 1.7."""
    faster = refined_speed_up([0.5, 0.5], 2.0, 0.2, lambda n: {3: 3.0}[n])
    assert faster == pytest.approx(1.75 / 1.7)


@pytest.mark.parametrize(("alpha", "c"), [(0.3, 0.05), (0.6, 0.2), (0.8, 0.1), (0.95, 0.02)])
def test_best_k_is_the_top_of_the_curve(alpha, c):
    """No neighbour of the best K gains more; corollary 3.9 assures a gain of (1 + α) / (1 + c)."""
    k = best_k(alpha, c, most=60)
    assert 0 < k < 60
    assert speed_up(alpha, k, c) >= max(speed_up(alpha, k - 1, c), speed_up(alpha, k + 1, c))
    assert speed_up(alpha, k, c) >= (1 + alpha) / (1 + c) > 1


def test_a_draft_that_costs_more_than_it_gains():
    """Where α < c the best is not to draft at all."""
    assert best_k(0.2, 0.3) == 0


def test_seven_billion_weights():
    """14 GB at 2 TB/s take 7 ms; 14 Gflop at 280 Tflop/s take 0.05 ms; 140 tokens balance them."""
    machine = Hardware("example", 2e12, 280e12)
    cost = forward_cost(7e9, 2, machine)
    assert cost.moving == pytest.approx(7e-3) and cost.computing == pytest.approx(5e-5)
    assert cost.seconds == cost.moving and cost.operations / cost.bytes == pytest.approx(1)
    assert cost.moving / cost.computing == pytest.approx(140)
    seconds = [forward_cost(7e9, 2, machine, tokens=n).seconds for n in (1, 5, 140, 280)]
    assert [b / a for a, b in pairwise(seconds)] == pytest.approx([1, 1, 2])


@pytest.mark.parametrize(("kv_heads", "ratio"), [(32, 1.0), (8, 1.365), (1, 5.0)])
def test_a_cache_for_each_row(kv_heads, ratio):
    """256 caches of 4,096 tokens: with 32 key heads of 128 numbers 2 GiB each, and 5 positions are free."""
    machine = Hardware("example", 1e12, 100e12)
    sizes = GPTConfig(32_000, 32, 4096, heads=32, kv_heads=kv_heads, ffn=11_008)
    one, five = (forward_cost(7e9, 2, machine, n, rows=256, context=4096, config=sizes) for n in (1, 5))
    assert one.bytes == five.bytes == 14e9 + 256 * 2**31 * kv_heads / 32
    assert five.operations == 1280 * (14e9 + 4 * 4096 * 4096 * 32)
    assert five.seconds / one.seconds == pytest.approx(ratio, abs=0.001)
    assert forward_cost(7e9, 2, machine, 5, rows=256, config=sizes) == forward_cost(7e9, 2, machine, 1280)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_cache_bytes_are_the_caches_own(dtype):
    """The formula gives what a real cache says that it takes."""
    model = GPT(tiny_config(layers=3, max_length=40)).to(dtype)
    cache = model.new_cache(2)
    cache.reserve(40)
    assert kv_cache_bytes(model.config, 2 * 40, dtype.itemsize) == cache.bytes


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: expected_tokens(1.2, 3), "between 0 and 1"),
        (lambda: expected_tokens(float("nan"), 3), "between 0 and 1"),
        (lambda: expected_tokens(0.5, -1), "K must be"),
        (lambda: speed_up(0.5, 3, -0.1), "cost ratio"),
        (lambda: best_k(0.5, 0.1, most=-1), "K must be"),
        (lambda: expected_tokens_by_position([0.5, -0.5]), "between 0 and 1"),
        (lambda: refined_speed_up([0.5], 0.0, 0.1, lambda n: 1.0), "times"),
        (lambda: acceptance([0.5, 0.5], [1.0]), "same tokens"),
        (lambda: acceptance([0.5, 0.6], [0.5, 0.5]), "sum to 1"),
        (lambda: acceptance([1.5, -0.5], [0.5, 0.5]), "sum to 1"),
        (lambda: acceptance([float("nan"), 1.0], [0.5, 0.5]), "sum to 1"),
        (lambda: total_variation([], []), "sum to 1"),
        (lambda: Hardware("none", 0, 1), "above 0"),
        (lambda: forward_cost(7e9, 0, Hardware("m", 1, 1)), "above 0"),
        (lambda: forward_cost(7e9, 2, Hardware("m", 1, 1), context=9), "takes a config"),
        (lambda: kv_cache_bytes(tiny_config(), -1), "0 or more"),
    ],
)
def test_bad_input_is_one_line(call, words):
    """What cannot be is refused in one line that says why."""
    with refused(words):
        call()
