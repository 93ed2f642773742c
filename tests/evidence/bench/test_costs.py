"""Measuring costs: all parts are there, and nothing is assumed about how fast this machine is."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from refusals import refused
from tiny import PAIRS, table_pair

from minispec import Warp, verify_greedy, verify_rejection
from minispec.drafters.costs import Costs
from minispec.evidence.bench.costs import bookkeeping, laps, measure_costs, measure_forwards, median_costs
from minispec.native.backend import TORCH, Models


def test_every_part_is_measured():
    """t(n) for each n that fits, all forwards above 0, none less than one over fewer tokens."""
    target, draft = PAIRS["gpt"]  # its context holds 40 tokens
    how = {"tokens": (1, 2, 5, 99), "repeats": 2, "new_tokens": 20}
    models = Models(target, draft, TORCH)
    costs = measure_costs(models, [1, 2, 3], warp=Warp(), verifier=verify_rejection, **how)
    assert list(costs.t_target) == [1, 2, 5] and costs.most == 4
    assert costs.call(1) <= costs.call(2) <= costs.call(5)
    forwards = [*costs.t_target.values(), costs.t_draft, costs.catch_up, costs.prefill, costs.draft_prefill]
    assert min(forwards) > 0
    assert costs.of_round(4, 1.0) > costs.call(5)


@pytest.mark.parametrize(("length", "most"), [(40, 16), (9, 7), (2, 0), (1, 0)])
def test_forwards_alone(length, most):
    """For each n that fits, and nothing else takes any time."""
    costs = measure_forwards(table_pair(max_length=length)[0], repeats=1)
    assert list(costs.t_target) == [*range(1, most + 2)] and costs.most == most
    assert costs == Costs(0.0, costs.t_target)


def test_a_context_that_holds_two_tokens():
    """What does not fit is left out, and a run that cannot begin has no bookkeeping."""
    costs = measure_costs(
        Models(*table_pair(max_length=2), TORCH), [1, 2], warp=Warp(0), verifier=verify_greedy, repeats=1
    )
    assert sorted(costs.t_target) == [1] and (costs.round, costs.place, costs.step) == (0, 0, 0)


def test_bookkeeping_is_what_is_left():
    """Rounds of K = 2 have forwards of 5 s, 6 s where the draft catches up."""

    def played(k, accepted):
        return SimpleNamespace(draft=SimpleNamespace(k=k), accepted=lambda row: accepted)

    forwards = Costs(t_draft=1.0, t_target={1: 1.0, 3: 3.0}, catch_up=1.0)
    rounds = [(9.0, played(2, 1)), (9.0, played(2, 2)), (7.0, played(2, 0)), (99.0, played(1, 0))]
    assert bookkeeping(rounds, 2, forwards) == [4.0, 3.0, 2.0]
    assert bookkeeping(rounds, 3, forwards) == []


def test_the_median_of_three_measurements_forgets_a_slow_moment():
    """One forward, one draft step and one loop were slow, each in another measurement."""
    usual = Costs(0.1, {1: 1.0, 5: 1.5}, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
    slow = [replace(usual, t_draft=9.0), replace(usual, t_target={1: 1.0, 5: 9.0}), replace(usual, round=9.0)]
    assert median_costs(slow) == usual
    assert median_costs([usual, replace(usual, step=8.0), replace(usual, step=2.0)]).step == 2.0


def test_the_first_lap_is_left_out():
    """It waits for prefill."""
    assert [item for _, item in laps(iter("abc"))] == ["b", "c"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tokens": (2, 3)}, "n = 1"),
        ({"prompt": []}, "empty"),
        ({"models": Models(table_pair()[0], table_pair(4)[1], TORCH)}, "one vocabulary"),
        ({"verifier": verify_greedy}, "temperature 0"),
    ],
)
def test_bad_input_is_one_line(changes, words):
    """What cannot be measured is refused in one line that says why."""
    settings = {"models": Models(*table_pair(), TORCH), "prompt": [1], "warp": Warp()}
    settings |= {"verifier": verify_rejection, "tokens": (1, 2), "repeats": 1, "new_tokens": 4}
    with refused(words):
        measure_costs(**settings | changes)
