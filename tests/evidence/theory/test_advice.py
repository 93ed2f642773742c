"""Why a setting loses, and what would help: each reason alone, several together, and numbers that hold."""

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


@pytest.mark.parametrize(
    ("costs", "alpha", "k", "reason", "helps"),
    [
        # 1.08 tokens a round of 1.25 steps: Σ α^i = 1.25 for α = 0.2002; and a draft step of 0.0173.
        (
            GOOD,
            0.08,
            5,
            "acceptance is 0.08, and at K = 5 0.20 would break even",
            "with half the rejections, for",
        ),
        # 4.69 tokens a round of 8.5 steps; 6 at most: only a draft of (4.69 − 1) / 5 = 0.74 steps helps.
        (
            replace(GOOD, t_draft=1.5),
            0.9,
            5,
            "a draft step takes 1.50 target steps, and at K = 5 0.74 would break even",
            "a draft of half the cost, for 1.09x at K = 1",
        ),
        # 2.38 tokens a round of 0.25 + 6 steps.
        (
            replace(GOOD, t_target={1: 1.0, 17: 17.0}),
            0.6,
            5,
            "verifying 6 tokens takes 6.00 target steps on the native backend, and at K = 5 2.13 would",
            "K = 0, the target alone; half",
        ),
        # 2.53 tokens a round of 1.15 + 3 steps; 4 tokens would not do either.
        (
            replace(GOOD, round=3.0),
            0.7,
            3,
            "bookkeeping takes 3.00 target steps a round on the native backend, and at K = 3 1.38 would",
            "x at K = ",
        ),
    ],
)
def test_each_reason_alone(costs, alpha, k, reason, helps):
    """The fault comes first, with the number that would break even, by hand; the remedy comes last."""
    first, *_, last = advise(costs, alpha, k, "native")
    assert first.startswith(reason) and helps in last


def test_reasons_that_could_each_mend_it_are_ordered():
    """What has to improve least comes first, by hand.

    1.53 tokens in 2.2 steps: rejections would have to fall to 66%, the draft's cost to 44%.
    And 2.71 tokens in 2.9 steps: to 34%, and to 90%.
    """
    bad = replace(GOOD, t_draft=0.3)
    dear = replace(GOOD, t_draft=0.95)
    assert starts(advise(bad, 0.35, 4, "native"))[:2] == ["acceptance", "a draft step"]
    assert starts(advise(dear, 0.9, 2, "native"))[:2] == ["a draft step", "acceptance"]


def test_reasons_that_only_together_mend_it_say_so():
    """Bad, dear, and dear to verify: no sentence promises to break even."""
    costs = Costs(2.0, {1: 1.0, 17: 30.0}, round=2.0)
    *reasons, _ = advise(costs, 0.5, 4, "native")
    assert len(reasons) >= 3 and all("would still give 0." in sentence for sentence in reasons)


def test_another_k_the_backend_and_zero():
    """K first, if one gains; else torch is told of native; where nothing helps, K = 0."""
    costs = replace(GOOD, t_draft=0.3)
    assert advise(costs, 0.6, 12, "torch")[-1] == "what would help: K = 1, for 1.23x"
    assert advise(replace(costs, round=2.0), 0.6, 12, "torch")[-1].startswith("what would help: the native")
    close = replace(GOOD, t_draft=0.62)  # 1.09x at K = 2, and 1.11x at K = 1: that is no better
    assert advise(close, 0.8, 2, "torch")[-1].startswith("what would help: the native")
    assert advise(replace(costs, t_draft=3.0), 0.1, 2, "native")[-1].startswith("what would help: K = 0,")


def test_where_nothing_was_drafted_the_best_k_is_spoken_of():
    """For K = 0 the reasons are those of the best K above 0."""
    costs = replace(GOOD, t_draft=0.9)
    first, *rest = advise(costs, 0.7, 0, "native")
    assert first.startswith("nothing was drafted") and tuple(rest) == advise(costs, 0.7, 1, "native")


def test_a_gain_needs_no_advice_and_a_small_one_a_hint():
    """From 1.1 on that is all; between 1 and 1.1 the aim is 1.1; noise is told from a real loss."""
    enough = "K = 4 gives {}x; there is advice for speed-ups below 1.1x only"
    assert advise(GOOD, 0.9, 4, "native") == (enough.format("3.41"),)
    assert advise(GOOD, 0.1, 4, "native", measured=ADVICE_BELOW) == (enough.format("1.10"),)
    assert "would give 1.1x" in advise(replace(GOOD, t_draft=0.3), 0.35, 1, "native")[0]
    why, helps = advise(GOOD, 0.9, 4, "native", measured=0.5)
    assert why.startswith("K = 4 should give 3.41x in the long run") and "more tokens" in helps


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
