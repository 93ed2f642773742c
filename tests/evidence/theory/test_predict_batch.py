"""The prediction for batches: exact against coins walked by hand, and against the shipped loop."""

from dataclasses import replace
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from minispec.drafters.costs import Costs
from minispec.evidence.proof.branches import OneScript
from minispec.evidence.proof.cases import Case
from minispec.evidence.proof.distributions import exact_distributions
from minispec.evidence.proof.enumeration import enumerate_branches
from minispec.evidence.proof.models import table_pair
from minispec.evidence.theory.predict import chances, predict_speed_up, rounds
from minispec.evidence.theory.predict_batch import (
    batch_rounds,
    break_even_batch,
    ends_of_rounds,
    predict_batch_gain,
)

FLAT = Costs(t_draft=0.1, t_target={1: 1.0, 17: 1.0})


def by_coins(texts, k):
    """Walks every way in which all tests can come out; returns widths, and rounds with a catch-up."""
    size = len(texts[0])
    by_width, caught_up = [0.0] * (k + 1), 0.0
    for coins in product(product((True, False), repeat=size), repeat=len(texts)):
        weight, at = 1.0, [0] * len(texts)
        for own, text in zip(coins, texts, strict=True):
            for kept, chance in zip(own, text, strict=True):
                weight *= chance if kept else 1 - chance
        while min(at) < size:
            block, behind = min(k, size - 1 - min(at)), False
            for row, t in enumerate(at):
                if t < size:
                    width = min(block, size - 1 - t)
                    kept = next((j for j in range(width) if not coins[row][t + j]), width)
                    behind |= kept == block and k > 0
                    at[row] += kept + 1
            by_width[block] += weight
            caught_up += weight * behind
    return by_width, caught_up


@settings(max_examples=25)
@given(st.lists(st.lists(st.floats(0, 1), min_size=4, max_size=4), min_size=1, max_size=2), st.integers(0, 5))
def test_every_way_of_a_batch(texts, k):
    """Widths and catch-ups are the means over all ways, for one or two rows of four tokens."""
    found = batch_rounds(texts, k)
    by_width, caught_up = by_coins(texts, k)
    assert list(found.by_width) == pytest.approx(by_width, abs=1e-9)
    assert found.caught_up == pytest.approx(caught_up, abs=1e-9)


@settings(max_examples=40)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.integers(0, 6))
def test_a_batch_of_one_is_a_text(text, k):
    """The rounds of one row, counted by position and counted by round, are the same."""
    one, other = batch_rounds([text], k), rounds(text, k)
    assert list(one.by_width) == pytest.approx(list(other.by_width), abs=1e-9)
    assert one.caught_up == pytest.approx(other.caught_up, abs=1e-9)
    assert (one.accepted, one.tested, one.drafted) == (other.accepted, other.tested, other.drafted)


@pytest.mark.parametrize("k", [1, 2])
def test_what_is_expected_of_a_batch_is_what_the_loop_does(k):
    """Two rows side by side, every branch of both: widths and catch-ups of the shipped loop, to 1e-12."""
    target, draft = table_pair(2, 0)
    case = Case("two rows", target, draft, ((0,), (1, 0)), k, 3)

    def run(rng, keys):
        widths, caught_up = [0] * (k + 1), 0
        before = [len(prompt) - 1 for prompt in case.prompts]
        for r in case.rounds(case.prompts, OneScript(rng)):
            widths[r.draft.k] += 1
            # Drafting reads K tokens a row; a row whose cache holds more after the round has caught up.
            caught_up += any(after > had + r.draft.k for had, after in zip(before, r.lengths, strict=True))
            before = r.lengths
        return [(*widths, caught_up)]

    got = [0.0] * (k + 2)
    for _, counts, weight in enumerate_branches(run, [0], most_rows=1):
        got = [total + weight * count for total, count in zip(got, counts, strict=True)]
    want = [0.0] * (k + 2)
    for (one, p), (other, q) in product(*(law.items() for law in exact_distributions(case))):
        texts = [list(one[0]), list(other[0])]
        found = batch_rounds(chances(target, draft, case.prompts, texts, case.warp), k)
        each = [*found.by_width, found.caught_up]
        want = [total + p * q * part for total, part in zip(want, each, strict=True)]
    assert got == pytest.approx(want, abs=1e-12)


def test_ends_of_rounds_are_laws():
    """For every position, the chances of how many tokens are kept sum to 1; beyond the room they are 0."""
    found = ends_of_rounds(torch.tensor([[0.5, 0.25, 0.125, 0.1]], dtype=torch.float64), 2)
    assert found.sum(0).tolist() == [[1.0] * 4]
    assert found[:, 0, 0].tolist() == [0.5, 0.375, 0.125]
    assert found[:, 0, 3].tolist() == [1.0, 0.0, 0.0]


def test_rows_wait_for_the_slowest():
    """A batch takes more rounds than its rows do on average, and no more than their sum."""
    texts = [[0.9] * 30, [0.5] * 30]
    alone = [rounds(text, 4).row_rounds for text in texts]
    assert max(alone) < batch_rounds(texts, 4).target_calls < sum(alone)


def test_the_largest_batch_that_gains():
    """Where verification grows with the rows the gain ends; the largest measured size above 1 is returned."""
    texts = [[0.8] * 20, [0.7] * 20]
    costs = {
        rows: replace(FLAT, t_target={1: 1.0, 5: 1.0 + 0.3 * rows, 17: 1.0 + 1.2 * rows})
        for rows in (1, 2, 4, 8, 16)
    }
    gains = {}
    for rows, own in costs.items():
        gains[rows] = predict_batch_gain(own, [texts[i % 2] for i in range(rows)], 4)
    assert gains[1] == pytest.approx(predict_speed_up(costs[1], texts[:1], 4).speed_up)
    assert gains[2] > 1 > gains[16]
    assert break_even_batch(costs, texts, 4) == max(rows for rows, gain in gains.items() if gain >= 1)
    assert break_even_batch({1: replace(FLAT, t_draft=9.0)}, texts, 4) == 0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: batch_rounds([[0.5], [0.5, 0.5]], 1), "same number"),
        (lambda: batch_rounds([], 1), "same number"),
        (lambda: batch_rounds([[0.5, 2.0]], 1), "between 0 and 1"),
        (lambda: break_even_batch({1: FLAT}, [], 1), "no text"),
    ],
)
def test_bad_input_is_one_line(call, words):
    """What cannot be is refused in one line that says why."""
    with pytest.raises(ValueError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)
