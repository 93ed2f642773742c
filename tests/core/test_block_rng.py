"""Random numbers within a round: positions in the text, ends of budgets, and noise that is fixed."""

import math
from collections import Counter

import pytest
import torch
from scipy import stats

from minispec import KeyedRng
from minispec.core.rng import BlockRng
from minispec.rules.coupled import scramble

CPU = torch.device("cpu")


class Asked:
    """An rng that remembers what it was asked, says yes, and picks the last id."""

    def __init__(self):
        self.positions, self.live = [], []

    def bernoulli(self, probs, *, rows=None, positions=None, live=None):
        self.positions.append(positions)
        self.live.append(live)
        return torch.ones(probs.shape[0], dtype=torch.bool)

    def categorical(self, probs, *, rows=None, positions=None, live=None):
        self.bernoulli(probs, positions=positions, live=live)
        return torch.full((probs.shape[0],), probs.shape[1] - 1)


def test_positions_become_positions_in_the_text():
    """A position within the block is added to each row's start, given as one number or as one a row."""
    inner = Asked()
    rng = BlockRng(inner, [5, 9], [3, 3], CPU)
    rng.categorical(torch.full((2, 4), 0.25), positions=2)
    rng.bernoulli(torch.full((2,), 0.5), positions=torch.tensor([0, 1]))
    assert [p.tolist() for p in inner.positions] == [[7, 11], [5, 10]]


@pytest.mark.parametrize("position", [0, 1, 2, 3])
def test_nothing_is_decided_where_a_budget_ends(position):
    """A row with a budget of n decides at positions 0 … n−1; a row that is done (budget 0) nowhere."""
    inner = Asked()
    rng = BlockRng(inner, [1, 1, 1], [0, 2, 3], CPU)
    rng.bernoulli(torch.full((3,), 0.5), positions=position)
    rng.bernoulli(torch.full((3,), 0.5), positions=torch.full((3,), position))
    assert [mask.tolist() for mask in inner.live] == [[False, position < 2, position < 3]] * 2


def test_masks_of_callers_stay():
    """A row is decided only where both the caller and the budget say so, with positions and without."""
    inner = Asked()
    rng = BlockRng(inner, [1, 1, 1], [0, 2, 3], CPU)
    rng.bernoulli(torch.full((3,), 0.5), positions=2, live=torch.tensor([True, True, True]))
    rng.bernoulli(torch.full((3,), 0.5), live=torch.tensor([True, False, True]))
    rng.bernoulli(torch.full((3,), 0.5))
    assert [mask.tolist() for mask in inner.live] == [
        [False, False, True],
        [False, False, True],
        [False, True, True],
    ]


def test_named_rows_keep_their_positions():
    """Asked for some rows by name, it looks up those rows' starts and budgets."""
    inner = Asked()
    rng = BlockRng(inner, [5, 9, 20], [0, 2, 3], CPU)
    rng.bernoulli(torch.full((2,), 0.5), rows=torch.tensor([2, 0]), positions=0)
    assert inner.positions[0].tolist() == [20, 5]
    assert inner.live[0].tolist() == [True, False]


def test_keyed_noise_is_a_function_of_seed_row_and_position():
    """The same question gets the same answer, in any company; another seed, row or position another."""
    dist = torch.full((6, 1000), 1e-3, dtype=torch.float64)
    where = torch.arange(6)
    picked = KeyedRng(3).categorical(dist, positions=where)
    assert torch.equal(picked, KeyedRng(3).categorical(dist, positions=where))
    back = KeyedRng(3).categorical(dist[:2], rows=torch.tensor([4, 1]), positions=where[[4, 1]])
    assert torch.equal(back, picked[[4, 1]])
    assert not torch.equal(picked, KeyedRng(4).categorical(dist, positions=where))
    assert not torch.equal(picked, KeyedRng(3).categorical(dist, positions=where + 1))
    assert len(set(KeyedRng(3).categorical(dist, positions=0).tolist())) > 1  # rows differ


def test_keyed_noise_has_the_distribution_that_was_asked_for():
    """Over 100,000 positions ids come up as their distribution says.

    Pearson's test at a false-alarm rate of 1e-6; it sees a shift of 0.01 in any probability (80 expected
    standard errors squared). The noise is fixed by the seed: the verdict never changes.
    """
    dist = torch.tensor([0.5, 0.0, 0.3, 0.15, 0.05], dtype=torch.float64)
    picked = KeyedRng(1).categorical(dist.expand(100_000, 5), positions=torch.arange(100_000))
    counts = Counter(picked.tolist())
    assert counts[1] == 0
    seen = [counts[i] for i in (0, 2, 3, 4)]
    assert stats.chisquare(seen, [1e5 * float(dist[i]) for i in (0, 2, 3, 4)]).pvalue > 1e-6


def test_neighbouring_positions_are_independent():
    """Pairs of draws at positions n and n+1, and in rows b and b+1, come up as if independent.

    Pearson's test on 3 × 3 cells, 50,000 pairs, false alarm 1e-6 each.
    """
    dist = torch.full((50_000, 3), 1 / 3, dtype=torch.float64)
    zero = torch.zeros(50_000, dtype=torch.long)
    n = torch.arange(50_000)
    rng = KeyedRng(2)
    for one, two in (
        (
            rng.categorical(dist, rows=zero, positions=2 * n),
            rng.categorical(dist, rows=zero, positions=2 * n + 1),
        ),
        (rng.categorical(dist, rows=2 * n, positions=0), rng.categorical(dist, rows=2 * n + 1, positions=0)),
    ):
        counts = torch.bincount(3 * one + two, minlength=9).tolist()
        assert stats.chisquare(counts).pvalue > 1e-6


def test_keyed_noise_decides_no_yes_or_no():
    """An open yes-or-no is refused in one clear line; what is certain or masked is answered."""
    rng = KeyedRng(0)
    assert rng.bernoulli(torch.tensor([0.0, 1.0])).tolist() == [False, True]
    assert rng.bernoulli(torch.tensor([0.5, 1.0]), live=torch.tensor([False, True])).tolist() == [False, True]
    with pytest.raises(ValueError, match="use verify_coupled"):
        rng.bernoulli(torch.tensor([0.5]))
    with pytest.raises(ValueError, match="needs positions"):
        rng.categorical(torch.tensor([[0.5, 0.5]]))


def test_scramble_is_splitmix():
    """The mixing function gives SplitMix64's published first outputs for the seed 1234567."""
    gamma, seed = 0x9E3779B97F4A7C15, 1234567
    states = [(seed + n * gamma) % 2**64 for n in range(3)]
    signed = torch.tensor([s - 2**64 if s >= 2**63 else s for s in states])
    unsigned = [value % 2**64 for value in scramble(signed).tolist()]
    assert unsigned == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_uniforms_stay_inside_the_unit_interval():
    """No key gives a probability-0 id or a NaN: the distribution (1, 0) always gives the first id."""
    dist = torch.tensor([1.0, 0.0], dtype=torch.float64).expand(10_000, 2)
    assert not KeyedRng(9).categorical(dist, positions=torch.arange(10_000)).any()
    assert math.isfinite(float(KeyedRng(9).categorical(dist[:1], positions=0)))
