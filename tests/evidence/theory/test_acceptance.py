"""Acceptance: the coupled rule's formula against counting and its bound, and both rules on one text."""

import pytest
import torch
from tiny import alternating_pair, decode, place

from minispec import ModelDrafter, SeededRng, Warp, record
from minispec.evidence.proof.models import tiny_gpt_pair
from minispec.evidence.theory.acceptance import (
    acceptance_rate,
    compare_acceptance,
    coupled_acceptance,
    target_only_texts,
)
from minispec.verifiers.coupled import KeyedRng

PAIRS = [
    ([0.5, 0.5], [0.5, 0.5], 1.0),
    ([1.0, 0.0], [0.0, 1.0], 0.0),
    ([0.5, 0.5], [1.0, 0.0], 0.5),
    # By hand, for p = (1/2, 1/2) and q = (1/4, 3/4): 1/(1 + 3) + 1/(1 + 1) = 3/4.
    ([0.5, 0.5], [0.25, 0.75], 0.75),
]


@pytest.mark.parametrize(("p", "q", "probability"), PAIRS)
def test_formula_by_hand(p, q, probability):
    """Two tokens: the probability can be worked out by hand."""
    assert float(coupled_acceptance(torch.tensor(p), torch.tensor(q))) == pytest.approx(
        probability, abs=1e-12
    )


def test_formula_is_what_the_noise_does():
    """KeyedRng picks the same token for p and q as often as the formula says.

    200,000 positions; the probability of a false alarm at five standard errors is below 1e-6, and a formula
    that is off by 0.012 would be found.
    """
    p = torch.tensor([0.6, 0.3, 0.1])
    q = torch.tensor([0.2, 0.3, 0.5])
    n = 200_000
    rows = torch.arange(n) % 1000
    positions = torch.arange(n) // 1000
    picks = [KeyedRng(7).categorical(x.expand(n, 3), place(rows, positions)) for x in (p, q)]
    agree = float(coupled_acceptance(p, q))
    observed = float((picks[0] == picks[1]).double().mean())
    assert abs(observed - agree) < 5 * (agree * (1 - agree) / n) ** 0.5


def test_compared_on_the_same_text():
    """Rejection accepts most, the coupled rule at least its bound, and a twin is accepted always."""
    target, draft = tiny_gpt_pair(0)
    result = compare_acceptance(target, draft, [[0], [1, 0]], max_new_tokens=4)
    assert result.positions == 8
    assert result.bound - 1e-9 <= result.coupled <= result.rejection + 1e-9 <= 1 + 1e-9
    twin = compare_acceptance(target, target, [[0]], max_new_tokens=4)
    assert twin.coupled == pytest.approx(1) and twin.rejection == pytest.approx(1)


def test_alpha_counts_every_position_and_a_run_does_not():
    """Σ min(p, q) alternates between 1 and 0.2, so α = 0.6; with K = 1 the loop tests only easy positions."""
    target, draft = alternating_pair()
    prompts = [[2], [3]]
    texts = target_only_texts(target, prompts, 100, Warp(), SeededRng(0))
    assert acceptance_rate(target, draft, prompts, texts, Warp()) == pytest.approx(0.6, abs=1e-12)
    run = decode(target, ModelDrafter(draft), prompts, record, k=1, max_new_tokens=100)
    assert run.statistics().acceptance == 1.0 and run.statistics().tokens_per_target_call == 2.0


def test_alpha_is_taken_after_the_warp():
    """At temperature 0 all positions count 0 or 1: the easy ones agree, and the hard ones never."""
    target, draft = alternating_pair()
    texts = target_only_texts(target, [[2]], 100, Warp(0), SeededRng(0))
    assert acceptance_rate(target, draft, [[2]], texts, Warp(0)) == 0.5
