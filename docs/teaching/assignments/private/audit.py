"""Private tests of assignment 6, audit a sampler. `hand_out.py` puts a student's own seed into them."""

from itertools import product
from math import comb
from random import Random

import numpy as np
from otter.test_files import test_case

from minispec.classroom.running import Malformed, read_number, value_of

OK_FORMAT = False
SEED = "practice"
name = "audit"

IDS = "012"
TEXTS = ["".join(ids) for ids in product(IDS, repeat=3)]
PATTERNS = ["", ".", "0", "1", "2", "..", "0.", "1.", "2.", ".0", ".1", ".2"]
RECORDED = 20_000
RUNS = 1000
RUNS_EACH = 100
UNLUCKY = 1e-5  # with what it states, an audit fails a test so often


def fits(beginning, pattern):
    """Whether a beginning of a text is one that a pattern means."""
    same_length = len(beginning) == len(pattern)
    return same_length and all(a in (b, ".") for a, b in zip(pattern, beginning, strict=True))


def distribution(target, fault=("none", "0", "1", 0.0)):
    """Returns the probability of each text; after the fault's pattern its share goes from giver to taker."""
    pattern, giver, taker, share = fault
    probs = np.ones(len(TEXTS))
    for number, text in enumerate(TEXTS):
        for i, token in enumerate(text):
            weights = target[text[:i]]
            prob = weights[int(token)] / sum(weights)
            if fits(text[:i], pattern):
                prob += share * ((token == taker) - (token == giver))
            probs[number] *= prob
    return probs


def total_variation(one, other):
    """Returns half of the sum of all differences."""
    return float(np.abs(one - other).sum()) / 2


def draw_target(rng):
    """Returns weights after each beginning."""
    return {text[:i]: rng.sample((3, 4, 5), 3) for i in range(3) for text in TEXTS}


def draw_fault(seed):
    """Returns what a student's engine does wrong: pattern, giver, taker, share."""
    rng = Random(f"{seed} fault")
    giver, taker = rng.sample(IDS, 2)
    return rng.choice(PATTERNS), giver, taker, rng.choice((0.16, 0.18, 0.2, 0.22))


def parameters(seed):
    """Returns what the student is given."""
    rng = Random(f"{seed} parameters")
    target = draw_target(rng)
    damage = rng.choice((0.04, 0.05, 0.06))
    probs = distribution(target, draw_fault(seed))
    counts = np.random.default_rng(rng.getrandbits(32)).multinomial(RECORDED, probs)
    return {
        "target": target,
        "counts": dict(zip(TEXTS, counts.tolist(), strict=True)),
        "damage": damage,
        "false_alarm": rng.choice((0.005, 0.01, 0.02)),
        "miss": 0.05,
        "most_samples": round(20 / damage**2),
    }


GIVEN = parameters(SEED)
RNG = Random(f"{SEED} tests")
GENERATOR = np.random.default_rng(RNG.getrandbits(32))


class Sampler:
    """A sampler of texts that emits so many and no more."""

    def __init__(self, probs):
        self.probs = probs
        self.left = GIVEN["most_samples"]

    def __call__(self, n):
        self.left -= n
        if self.left < 0:
            raise Malformed(f"it asks for more texts than the {GIVEN['most_samples']} that it may have")
        return dict(zip(TEXTS, GENERATOR.multinomial(n, self.probs).tolist(), strict=True))


def alarms(audit, target, probs, runs):
    """Returns at how many of so many samplers an audit raises an alarm."""
    heard = 0
    for _ in range(runs):
        heard += bool(value_of(audit, Sampler(probs), target, GIVEN["most_samples"]))
    return heard


def too_often(count, runs, rate):
    """Whether so many of so many runs are no luck, at a rate."""
    return 1 - sum(comb(runs, i) * rate**i * (1 - rate) ** (runs - i) for i in range(count)) < UNLUCKY


def stated(rate, key, words):
    """Returns a rate that is stated; it must be what is wanted, or less."""
    rate = read_number(rate)
    assert 0 < rate <= GIVEN[key], f"{words} is to be above 0 and at most {GIVEN[key]}; you state {rate:g}."
    return rate


@test_case(name="after which beginning", points=4)
def where(FINDING):
    """The pattern of the student's engine."""
    pattern = draw_fault(SEED)[0]
    after = (FINDING or {}).get("after")
    assert isinstance(after, str), "FINDING does not say after which beginning."
    assert len(after) == len(pattern), "The fault is at another position of the text."
    assert after == pattern, "The position is right, and the beginnings after which the fault comes are not."


@test_case(name="what loses and what gets", points=2)
def which(FINDING):
    """The ids of the student's engine."""
    _, giver, taker, _ = draw_fault(SEED)
    said = tuple((FINDING or {}).get(part) for part in ("giver", "taker"))
    assert said != (taker, giver), "giver and taker are the wrong way round."
    assert said == (giver, taker), "Another id loses probability there, or another one gets it."


@test_case(name="how far away", points=2)
def how_far(FINDING):
    """The damage of the student's engine, within 0.02."""
    target = GIVEN["target"]
    true = total_variation(distribution(target), distribution(target, draw_fault(SEED)))
    damage = read_number((FINDING or {}).get("damage"))
    assert abs(damage - true) < 0.02, f"The damage is not {damage:g}; is it that of texts, half of the sum?"


@test_case(name="error rates are stated", points=2)
def rates(FALSE_ALARM, MISS):
    """Both, and as small as is wanted."""
    stated(FALSE_ALARM, "false_alarm", "FALSE_ALARM")
    stated(MISS, "miss", "MISS")


@test_case(name="false alarms", points=4)
def false_alarms(audit, FALSE_ALARM):
    """At right samplers, with other targets than the student's."""
    rate = stated(FALSE_ALARM, "false_alarm", "FALSE_ALARM")
    target = draw_target(RNG)
    heard = alarms(audit, target, distribution(target), RUNS)
    words = f"It raises an alarm at {heard} of {RUNS} samplers that are right; {rate:g} is stated."
    assert not too_often(heard, RUNS, rate), words


@test_case(name="misses", points=4)
def misses(audit, MISS):
    """Faults of each pattern, each exactly as far away as is to be found."""
    rate = stated(MISS, "miss", "MISS")
    target = draw_target(RNG)
    right = distribution(target)
    for pattern in PATTERNS:
        giver, taker = RNG.sample(IDS, 2)
        reached = sum(p for text, p in zip(TEXTS, right, strict=True) if fits(text[: len(pattern)], pattern))
        fault = pattern, giver, taker, GIVEN["damage"] / reached
        missed = RUNS_EACH - alarms(audit, target, distribution(target, fault), RUNS_EACH)
        words = f"It misses {missed} of {RUNS_EACH} samplers {GIVEN['damage']} away; {rate:g} is stated."
        assert not too_often(missed, RUNS_EACH, rate), words


@test_case(name="faults between positions", points=2)
def between(audit, MISS):
    """Each position alone is right, and two of them together are not."""
    rate = stated(MISS, "miss", "MISS")
    target = draw_target(RNG)
    signs = [dict(zip(RNG.sample(IDS, 3), (1, -1, 0), strict=True)) for _ in range(2)]
    off = np.array([signs[0][text[0]] * signs[1][text[1]] for text in TEXTS]) * GIVEN["damage"] / 6
    missed = RUNS_EACH - alarms(audit, target, distribution(target) + off, RUNS_EACH)
    words = f"It misses {missed} of {RUNS_EACH} where each position alone is right: look at whole texts."
    assert not too_often(missed, RUNS_EACH, rate), words
