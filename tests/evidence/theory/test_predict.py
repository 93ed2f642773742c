"""The prediction: exact against every branch of the shipped loop, and in its limits."""

from dataclasses import replace
from itertools import product
from math import ceil

import pytest
import torch
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from minispec import SeededRng, Warp, verify_greedy
from minispec.drafters.costs import Costs
from minispec.evidence.proof.cases import Case
from minispec.evidence.proof.distributions import branches
from minispec.evidence.proof.models import TableModel, table_pair
from minispec.evidence.theory.acceptance import acceptance_probabilities, target_only_texts
from minispec.evidence.theory.formulas import speed_up
from minispec.evidence.theory.predict import predict_speed_up, rounds

TEXT = st.lists(st.floats(0, 1), min_size=1, max_size=12)
FLAT = Costs(t_draft=0.1, t_target={1: 1.0, 17: 1.0})  # verification costs one step, nothing else anything


def text_probabilities(case, tokens):
    """Returns a_t of one text after the case's first prompt."""
    models = case.target, case.draft
    return acceptance_probabilities(*models, case.prompts[:1], [tokens], case.warp, case.draft_warp)[0]


TARGET, DRAFT = table_pair(3, 0)
SMALL = table_pair(2, 1)
BASE = Case("K 2", TARGET, DRAFT, ((0,),), 2, 3)
CASES = [
    BASE,
    replace(BASE, name="K 1", k=1),
    replace(BASE, name="K 3", target=SMALL[0], draft=SMALL[1], k=3, max_new_tokens=5),
    replace(BASE, name="warped", warp=Warp(0.7, top_k=2)),
    replace(BASE, name="the draft hotter", draft_warp=Warp(2.0)),
    replace(BASE, name="greedy", warp=Warp(0), verifier=verify_greedy, max_new_tokens=9),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_is_expected_of_a_text_is_what_the_loop_does(case):
    """Given any text, rounds by their number of drafted tokens are the means over all branches."""
    sums_by_text = {}
    for branch in branches(case):
        sums = sums_by_text.setdefault(branch.tokens, [0.0] * (case.k + 2))
        sums[-1] += branch.weight
        for step in branch.steps:
            sums[len(step.drafted)] += branch.weight
    assert len(sums_by_text) >= (1 if case.warp.is_greedy else 8)
    for tokens, (*sums, weight) in sums_by_text.items():
        want = rounds(text_probabilities(case, list(tokens)), case.k)
        assert [total / weight for total in sums] == pytest.approx(list(want.by_width), abs=1e-12), tokens
        assert want.emitted == len(tokens)


@examples(40)
@given(TEXT, st.integers(0, 6))
def test_coins_by_enumeration(text, k):
    """Every outcome of the tests of a text, enumerated by hand, gives the same mean number of rounds."""
    text = text[:6]
    mean = 0.0
    for coins in product((True, False), repeat=len(text)):
        weight = 1.0
        t = 0
        count = 0
        for kept, probability in zip(coins, text, strict=True):
            weight *= probability if kept else 1 - probability
        while t < len(text):
            width = min(k, len(text) - 1 - t)
            t += next((j for j in range(width) if not coins[t + j]), width) + 1
            count += 1
        mean += weight * count
    assert rounds(text, k).target_calls == pytest.approx(mean)


@given(st.integers(1, 40), st.integers(0, 9))
def test_limits(size, k):
    """A draft that is the target takes ⌈N/(K+1)⌉ rounds; one that is never right takes N."""
    always = rounds([1.0] * size, k)
    never = rounds([0.0] * size, k)
    assert always.target_calls == ceil(size / (k + 1)) and never.target_calls == size


def test_acceptance_probabilities_of_models():
    """q = p gives 1 everywhere, disjoint distributions give 0."""
    warp = Warp()
    prompts = [[0], [1, 0]]
    texts = target_only_texts(TARGET, prompts, 6, warp, SeededRng(3))
    assert [len(text) for text in texts] == [6, 6]
    assert acceptance_probabilities(TARGET, TARGET, prompts, texts, warp) == [[1.0] * 6] * 2
    zero, one = (TableModel(torch.tensor([[9.0, 0.0], [0.0, 9.0]])[i].expand(6, 2)) for i in (0, 1))
    texts = target_only_texts(zero, [[0]], 5, Warp(0), SeededRng(0))
    assert texts == [[0] * 5] and acceptance_probabilities(zero, one, [[0]], texts, Warp(0)) == [[0.0] * 5]


def test_seconds_by_hand():
    """Prefill, one round with a draft of one, a quarter of a round without, one catch-up in each."""
    costs = Costs(2.0, {1: 10.0, 2: 12.0}, catch_up=1.0, round=3.0, place=0.5, step=0.25, prefill=100.0)
    with_draft = replace(costs, draft_prefill=7.0)
    seconds = 107 + 1.0 * (2 + 12 + 3 + 0.5) + 0.25 * (10 + 3) + 1.0 * 1
    assert rounds([0.75, 0.5], 1).seconds(with_draft) == seconds
    predicted = predict_speed_up(with_draft, [[0.75, 0.5]], 1)
    assert predicted.speed_up == pytest.approx((100 + 2 * 10.25) / seconds)
    assert predicted.tokens_per_target_call == 2 / 1.25
    assert predict_speed_up(costs, [[0.5] * 4], 0).speed_up == pytest.approx((100 + 41) / (100 + 4 * 13))


def test_a_faster_target_elsewhere():
    """Where the target alone is twice as fast, half of the speed-up is left; α is the mean of all a_t."""
    texts = [[1.0, 0.0], [0.5, 0.5]]
    here, there = (predict_speed_up(FLAT, texts, 2, faster) for faster in (1.0, 2.0))
    assert there.speed_up == pytest.approx(here.speed_up / 2) and here.alpha == 0.5
    assert there.simple == speed_up(0.5, 2, 0.2)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: rounds([0.5], -1), "K must be"),
        (lambda: rounds([0.5, 1.2], 1), "between 0 and 1"),
        (lambda: rounds([float("nan")], 1), "between 0 and 1"),
        (lambda: predict_speed_up(FLAT, [], 2), "no text"),
        (lambda: predict_speed_up(FLAT, [[0.5] * 40], 17), "not for 18"),
        (lambda: Costs(0.1, {2: 1.0}), "n = 1"),
        (lambda: Costs(0.1, {1: 0.0}), "more than 0"),
        (lambda: Costs(float("nan"), {1: 1.0}), "0 or more"),
        (lambda: Costs(0.1, {1: 1.0}, step=float("inf")), "0 or more"),
        (lambda: Costs(0.1, {1: 1.0}, round=-0.1), "0 or more"),
        (lambda: Costs(0.1, {1: 1.0}).call(0), "not for 0"),
    ],
)
def test_bad_input_is_one_line(call, words):
    """What cannot be is refused in one line that says why."""
    with refused(words):
        call()
