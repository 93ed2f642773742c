"""Random numbers within a round: positions in the text, ends of budgets, and noise that is fixed."""

import pytest
import torch
from refusals import refused
from scipy import stats
from tiny import place, round_plan

from minispec import KeyedRng
from minispec.core.rng import RoundRng
from minispec.verifiers.coupled import scramble

HALF = torch.full((3,), 0.5)


class Asked:
    """An rng that remembers what it was asked, and says yes."""

    def __init__(self):
        self.positions = []
        self.live = []

    def bernoulli(self, probs, place):
        self.positions.append(None if place.positions is None else place.positions.tolist())
        self.live.append(None if place.live is None else place.live.tolist())

    categorical = bernoulli


def asked(*questions, starts=(1, 1, 1), budgets=(0, 2, 3)):
    """Returns an `Asked` that was asked, of a round that begins at `starts`."""
    inner = Asked()
    rng = RoundRng(inner, round_plan(budgets, starts))
    for question in questions:
        rng.bernoulli(HALF, *question)
        rng.categorical(HALF, *question)
    return inner


def test_offsets_become_positions_in_the_text():
    """An offset within the round is added to each row's start, given as one number or as one a row."""
    questions = [2], [torch.tensor([0, 1, 2])]
    assert asked(*questions, starts=[5, 9, 20]).positions[::2] == [[7, 11, 22], [5, 10, 22]]


@pytest.mark.parametrize("offset", [0, 1, 2, 3])
def test_nothing_is_decided_where_a_budget_ends(offset):
    """A row with a budget of n decides at offsets 0 … n−1; a row that is done (budget 0) nowhere."""
    inner = asked([offset], [torch.full((3,), offset)])
    assert inner.live == [[False, offset < 2, offset < 3]] * 4


def test_masks_of_callers_stay():
    """A row is decided only where both the caller and the budget allow it, with an offset and without."""
    inner = asked([2, torch.tensor([True] * 3)], [None, torch.tensor([True, False, True])], [])
    assert inner.live[::2] == [[False, False, True], [False, False, True], [False, True, True]]
    assert inner.positions[2:] == [None] * 4
    assert asked([1], budgets=(2, 2, 2)).live == [None] * 2  # all have budget: nothing is masked


def test_the_last_token_that_fits_is_not_drafted():
    """The plan for drafting has budgets less by 1, never below 0; all else is the same."""
    plan = round_plan([0, 1, 3], [5, 9, 20], [4, 2, 7])
    assert plan.without_last() == round_plan([0, 0, 2], [5, 9, 20], [4, 2, 7])


@pytest.mark.parametrize("prompt_ids", [[2, 0], [5, 2]])
def test_a_row_draws_the_noise_of_the_prompt_that_it_holds(prompt_ids):
    """In whatever row: the prompt id says which text it is, the row's start where it is in the text."""
    dists = torch.full((2, 1000), 1e-3, dtype=torch.float64)
    rng = KeyedRng(5)
    starts = [7, 9]
    wanted = [
        int(rng.categorical(dists[:1], place([prompt_id], [start + 1])))
        for prompt_id, start in zip(prompt_ids, starts, strict=True)
    ]
    budgets = [3, 3]
    drawn = RoundRng(rng, round_plan(budgets, starts, prompt_ids)).categorical(dists, 1)
    assert drawn.tolist() == wanted
    assert RoundRng(rng, round_plan(budgets, starts)).categorical(dists, 1).tolist() != wanted


def test_keyed_noise_is_a_function_of_seed_prompt_and_position():
    """The same question gets the same answer, in any company; another seed, prompt or position another."""
    dist = torch.full((6, 1000), 1e-3, dtype=torch.float64)
    each = torch.arange(6)
    token = KeyedRng(3).categorical(dist, place(each, each))
    assert torch.equal(token, KeyedRng(3).categorical(dist, place(each, each)))
    back = KeyedRng(3).categorical(dist[:2], place([4, 1], [4, 1]))
    assert torch.equal(back, token[[4, 1]])
    assert not torch.equal(token, KeyedRng(4).categorical(dist, place(each, each)))
    assert not torch.equal(token, KeyedRng(3).categorical(dist, place(each, each + 1)))
    assert len(set(KeyedRng(3).categorical(dist, place(each, each * 0)).tolist())) > 1  # prompts differ


def test_keyed_noise_has_the_distribution_that_was_asked_for():
    """Over 100,000 positions ids come up as their distribution says.

    Pearson's test at a false-alarm rate of 1e-6; it sees a shift of 0.01 in any probability (80 expected
    standard errors squared). The noise is fixed by the seed: the verdict never changes.
    """
    dist = torch.tensor([0.5, 0.0, 0.3, 0.15, 0.05], dtype=torch.float64)
    each = torch.arange(100_000)
    picked = KeyedRng(1).categorical(dist.expand(100_000, 5), place(each * 0, each))
    counts = torch.bincount(picked, minlength=5)
    assert counts[1] == 0
    possible = dist > 0
    assert stats.chisquare(counts[possible], 1e5 * dist[possible]).pvalue > 1e-6


def test_neighbouring_positions_are_independent():
    """Pairs of draws at positions n and n+1, and in rows b and b+1, come up as if independent.

    Pearson's test on 3 × 3 cells, 50,000 pairs, false alarm 1e-6 each.
    """
    dist = torch.full((50_000, 3), 1 / 3, dtype=torch.float64)
    n = torch.arange(50_000)
    zero = torch.zeros_like(n)
    for rows, positions in (((zero, zero), (2 * n, 2 * n + 1)), ((2 * n, 2 * n + 1), (zero, zero))):
        first, second = (
            KeyedRng(2).categorical(dist, place(row, position))
            for row, position in zip(rows, positions, strict=True)
        )
        assert stats.chisquare(torch.bincount(3 * first + second, minlength=9)).pvalue > 1e-6


def test_keyed_noise_decides_no_yes_or_no():
    """An open yes-or-no is refused in one clear line; what is certain or masked is answered."""
    rng = KeyedRng(0)
    assert rng.bernoulli(torch.tensor([0.0, 1.0])).tolist() == [False, True]
    masked = place([0, 1], [0, 0], torch.tensor([False, True]))
    assert rng.bernoulli(torch.tensor([0.5, 1.0]), masked).tolist() == [False, True]
    with refused("use verify_coupled"):
        rng.bernoulli(torch.tensor([0.5]))
    with refused("needs positions"):
        rng.categorical(torch.tensor([[0.5, 0.5]]))


def test_scramble_is_splitmix():
    """The mixing function gives SplitMix64's published first outputs for the seed 1234567."""
    states = [(1234567 + n * 0x9E3779B97F4A7C15) % 2**64 for n in range(3)]
    signed = torch.tensor([s - 2**64 if s >= 2**63 else s for s in states])
    unsigned = [value % 2**64 for value in scramble(signed).tolist()]
    assert unsigned == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_uniforms_stay_inside_the_unit_interval():
    """No key gives a probability-0 id or a NaN: the distribution (1, 0) always gives the first id."""
    dist = torch.tensor([1.0, 0.0], dtype=torch.float64).expand(10_000, 2)
    each = torch.arange(10_000)
    assert not KeyedRng(9).categorical(dist, place(each, each)).any()
