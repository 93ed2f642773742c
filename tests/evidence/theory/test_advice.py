"""Why a setting loses, and what would help: which reason comes first, and numbers that hold."""

import re
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from refusals import refused

from minispec.drafters.costs import Costs
from minispec.evidence.theory.advice import ADVICE_BELOW, FAULTS, Situation, advise

GOOD = Costs(0.05, {1: 1.0, 17: 1.0})  # verifying any number of tokens takes one step; no bookkeeping


def starts(sentences):
    """Returns the first words of each sentence."""
    return [
        re.match(r"(acceptance|a draft step|verifying|bookkeeping|K = \d+|\D+)", sentence)[1]
        for sentence in sentences
    ]


def test_reasons_that_could_each_mend_it_are_ordered():
    """What has to improve least comes first, by hand.

    1.53 tokens in 2.2 steps: rejections would have to fall to 66%, the draft's cost to 44%.
    And 2.71 tokens in 2.9 steps: to 34%, and to 90%.
    """
    bad = replace(GOOD, t_draft=0.3)
    dear = replace(GOOD, t_draft=0.95)
    assert starts(advise(bad, 0.35, 4, "native"))[:2] == ["acceptance", "a draft step"]
    assert starts(advise(dear, 0.9, 2, "native"))[:2] == ["a draft step", "acceptance"]


def test_another_k_the_backend_and_zero():
    """K first, if one gains; else torch is told of native; where nothing helps, K = 0."""
    costs = replace(GOOD, t_draft=0.3)
    for situation, says in (
        ((costs, 0.6, 12, "torch"), "K = 1"),
        ((replace(costs, round=2.0), 0.6, 12, "torch"), "the native"),
        ((replace(costs, t_draft=3.0), 0.1, 2, "native"), "K = 0"),
    ):
        assert says in advise(*situation)[-1]


def test_a_gain_needs_no_advice():
    """From 1.1 on there is one sentence, below it there are reasons."""
    assert len(advise(GOOD, 0.9, 4, "native")) == len(advise(GOOD, 0.1, 4, "native", ADVICE_BELOW)) == 1
    assert len(advise(GOOD, 0.9, 4, "native", measured=0.5)) > 1


def improved(here, fault, k, then):
    """Returns a situation with `then` in place of a number, or what is better by its rounding error."""
    if fault == "acceptance":
        return replace(here, alpha=min(then + 0.006, 1))
    least = 1 if fault == "verification" else 0
    return here.with_less(fault, max(then - 0.006 - least, 0) / (here.size(fault, k) - least))


@given(st.floats(0.01, 1.5), st.floats(0, 0.3), st.floats(0, 2), st.floats(0.05, 0.95), st.integers(1, 16))
def test_what_would_break_even_does(t_draft, slope, more, alpha, k):
    """For any costs: the number that is named gives, put in its place, the speed-up that is named."""
    costs = Costs(t_draft, {1: 1.0, 17: 1 + 16 * slope}, t_draft / 2, more, 0.0)
    here = Situation(costs, alpha)
    pattern = r"(?:is|takes) ([\d.]+).* ([\d.]+) would (break even|give 1.1x)"
    promises = [
        match for sentence in advise(costs, alpha, k, "native") if (match := re.search(pattern, sentence))
    ]
    assume(promises)  # where a gain is too small or several faults matter there may be none
    for match in promises:
        fault = next(name for name, words in FAULTS.items() if match.string.startswith(words.split("{")[0]))
        now, then = map(float, match.groups()[:2])
        assert now == pytest.approx(here.size(fault, k), abs=0.0051)
        goal = 1.0 if match[3] == "break even" else 1.1
        assert improved(here, fault, k, then).speed_up(k) >= goal - 1e-6


@pytest.mark.parametrize(("alpha", "k"), [(1.5, 1), (-0.1, 1), (0.5, -1), (float("nan"), 1)])
def test_bad_input_is_one_line(alpha, k):
    """What cannot be is refused in one line."""
    with refused("alpha lies between 0 and 1"):
        advise(GOOD, alpha, k)
