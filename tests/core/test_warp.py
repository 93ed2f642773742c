"""The warp: temperature, then top-k, then top-p, as a slow reference in plain Python says."""

import math

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from refusals import refused

from minispec import Warp

INF = math.inf
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


def tensor(logits, dtype=torch.float64):
    return torch.tensor(logits, dtype=dtype)


def reference(logits, temperature, top_k, top_p):
    """Returns the distribution of one row, and how close the cut by top-p was to falling elsewhere."""
    best = max(logits)
    if temperature == 0:
        return [float(i == logits.index(best)) for i in range(len(logits))], INF
    probs = [math.exp(max((x - best) / temperature, -1e4)) for x in logits]
    probs = [p / math.fsum(probs) for p in probs]
    ranked = sorted(range(len(probs)), key=lambda i: (-probs[i], i))[:top_k]
    mass = math.fsum(probs[i] for i in ranked)
    kept = []
    reached = 0.0
    margin = INF
    for i in ranked:
        if top_p is not None and kept:
            margin = min(margin, abs(reached - top_p))
            if reached >= top_p:
                break
        kept.append(i)
        reached = math.fsum(probs[j] for j in kept) / mass
    total = math.fsum(probs[i] for i in kept)
    return [probs[i] / total if i in kept else 0.0 for i in range(len(probs))], margin


# Few different values, so that ties are common; minus infinity is a token that a model rules out.
LOGITS = st.lists(
    st.one_of(st.sampled_from([-1.0, 0.0, 0.5, 2.0]), st.floats(-30, 30), st.just(-INF)),
    min_size=1,
    max_size=8,
).filter(lambda row: max(row) > -INF)
TEMPERATURES = st.one_of(st.just(0.0), st.just(1.0), st.floats(0.05, 20))


@given(LOGITS, TEMPERATURES, st.none() | st.integers(1, 9), st.none() | st.floats(0.01, 1))
def test_the_distribution_is_the_references(logits, temperature, top_k, top_p):
    """Any settings at once, ties included, give the distribution that sorted lists in plain Python give."""
    expected, margin = reference(logits, temperature, top_k, top_p)
    assume(margin > 1e-8)  # within rounding of the edge of the set either answer will do
    got = Warp(temperature, top_k, top_p)(tensor(logits))
    torch.testing.assert_close(got, tensor(expected), rtol=1e-9, atol=1e-12)


@given(st.lists(LOGITS, min_size=1, max_size=3), TEMPERATURES, st.none() | st.integers(1, 9))
def test_rows_do_not_see_each_other(rows, temperature, top_k):
    """A row of a batch has the distribution that it has alone, whatever the leading dimensions."""
    width = max(map(len, rows))
    rows = [row + [-INF] * (width - len(row)) for row in rows]
    warp = Warp(temperature, top_k, 0.83)
    batch = warp(tensor(rows)[:, None])
    assert batch.shape == (len(rows), 1, width)
    for row, dist in zip(rows, batch, strict=True):
        torch.testing.assert_close(dist[0], warp(tensor(row)), rtol=0, atol=1e-15)


def kept(warp, logits):
    """Returns the ids that a warp keeps."""
    return warp(logits).nonzero()[:, 0].tolist()


def test_top_p_counts_what_top_k_has_left():
    """With k = 2, 0.4 is 4/7 and reaches 0.5; with k = 3, 0.4 + 0.3 is 7/9 and reaches 0.75."""
    logits = tensor([0.4, 0.3, 0.2, 0.1]).log()
    assert kept(Warp(top_k=2, top_p=0.5), logits) == [0]
    assert kept(Warp(top_k=3, top_p=0.75), logits) == [0, 1]
    assert kept(Warp(top_p=0.75), logits) == [0, 1, 2]


@DTYPES
def test_ties_go_to_the_lowest_ids(dtype):
    """Where equally probable tokens compete to be the last, the lowest ids stay.

    A set that reaches top-p exactly is not enlarged, although its sum is rounded.
    """
    for size in range(1, 11):
        for warp in (Warp(top_k=size), Warp(top_p=size / 10)):
            assert kept(warp, torch.zeros(10, dtype=dtype)) == list(range(size))
    peaked = tensor([0.0, 1.0, 0.0, 1.0, 1.0], dtype)
    assert kept(Warp(top_k=2), peaked) == [1, 3]
    assert kept(Warp(top_k=4), peaked) == [0, 1, 3, 4]


@DTYPES
def test_top_p_one_and_a_large_top_k_change_nothing(dtype):
    """Settings that exclude nothing give the plain distribution, the rarest tokens included."""
    logits = 4 * torch.randn(500, generator=torch.Generator().manual_seed(0), dtype=dtype)
    plain = Warp()(logits)
    for warp in (Warp(top_k=500), Warp(top_k=10_000), Warp(top_p=1.0)):
        torch.testing.assert_close(warp(logits), plain, rtol=1e-5, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_temperature_zero_is_one_hot_at_the_lowest_maximum(dtype):
    """All mass on the largest logit, on the lowest id among equals, whatever top-k and top-p say."""
    rows = tensor([[1, 3, 3, 2], [5, 5, 5, 5], [-INF, 0, 0, -1]], dtype)
    expected = [[0, 1, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0]]
    assert Warp(0)(rows).tolist() == expected
    assert Warp(0, top_k=3, top_p=0.9)(rows).tolist() == expected
    assert Warp(0).is_greedy and not Warp(1e-9).is_greedy


@DTYPES
@pytest.mark.parametrize("temperature", [1e-3, 1e-40, 1e-100, 5e-324])
def test_a_tiny_temperature_does_not_overflow(temperature, dtype):
    """However small, a temperature above 0 shares the mass among the largest logits and makes no NaN."""
    got = Warp(temperature)(tensor([80.0, 90.0, -70.0, 90.0], dtype))
    assert got.tolist() == [0, 0.5, 0, 0.5]


def test_large_logits_do_not_overflow():
    """Finite logits of any size are fine, in one row and in many."""
    assert Warp()(tensor([3e38, -3e38, 3e38], torch.float32)).tolist() == [0.5, 0, 0.5]
    assert Warp()(torch.full((4, 2), 3e38)).tolist() == [[0.5, 0.5]] * 4


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("warp", [Warp(), Warp(0), Warp(0.7, 3, 0.9)])
def test_probabilities_are_float32_or_wider(warp, dtype):
    """Half types are widened before anything is computed; float64 stays. Logits are not written to."""
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    logits = torch.randn(2, 3, 50, generator=torch.Generator().manual_seed(0)).to(dtype)
    before = logits.clone()
    probs = warp(logits)
    assert probs.dtype == wide and torch.equal(logits, before)
    torch.testing.assert_close(probs.sum(-1), torch.ones(2, 3, dtype=wide), rtol=0, atol=2e-7)
    assert torch.equal(probs, warp(logits.to(wide)))


@pytest.mark.parametrize("warp", [Warp(), Warp(0), Warp(0.5, 2, 0.9)])
@pytest.mark.parametrize("bad", [[0, math.nan], [0, INF], [INF, -INF], [-INF, -INF], [math.nan, math.nan]])
def test_logits_that_are_not_finite_are_an_error(warp, bad):
    """NaN, plus infinity, or nothing but minus infinity, in any row, ends in one clear line."""
    for rows in ([bad], [[0, 1], bad]):
        with refused("logits are not finite"):
            warp(tensor(rows))


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        *(("temperature", t, "finite number of at least 0") for t in (-1, -1e-9, math.nan, INF)),
        *(("top_k", k, f"top-k must be at least 1, not {k}") for k in (0, -3)),
        *(("top_p", p, "top-p must be above 0 and at most 1") for p in (0, -0.1, 1.0001, math.nan, INF)),
    ],
)
def test_settings_outside_their_range_are_refused(name, value, words):
    """Each in one line."""
    with refused(words):
        Warp(**{name: value})


@given(st.lists(st.sampled_from([-INF, -1.0, 0.0, 7.0]), min_size=1, max_size=70))
def test_the_greedy_token_is_pythons_index_of_the_maximum(values):
    """Ties go to the lowest index at any width."""
    assume(max(values) > -INF)
    assert kept(Warp(0), tensor(values)) == [values.index(max(values))]
