"""Samples through the whole shipped loop, against the exact distribution of what should come out.

Thousands of rows are decoded as one batch, in which every row accepts as many tokens as its random numbers
allow. What they emit is counted and compared with the target's own distribution, which is computed without
the loop: by forward passes without a cache, along every continuation that is likely enough to be counted.

This works for models that cannot be enumerated completely, such as the shipped pair. It also sees what an
enumeration cannot: whether the numbers that `SeededRng` and `KeyedRng` give are as random as they should be.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace

from minispec.core.model import GPT
from minispec.core.rng import SEEDS, Rng, SeededRng
from minispec.core.warp import Warp
from minispec.evidence.proof.cases import Case, Text
from minispec.evidence.proof.distributions import continuations, outcomes
from minispec.evidence.proof.families import TABLES, read_cases
from minispec.evidence.theory.statistics import Cell, Sampled, check_sample, check_uniform, pearson_p_value
from minispec.io.checkpoint import load_pair
from minispec.native.backend import TORCH, Backend
from minispec.verifiers.coupled import KeyedRng, verify_coupled

FAMILY_FALSE_ALARM = 1e-6  # of all sampled tests of one run together
PEARSON_ERROR = 0.02  # how far from uniform the right p-values may be, by Kolmogorov's distance
STORY_PROMPT = " sat on the"  # of a story: short, many ways to go on, and draft and target do not agree
LEAST_PROBABILITY = (
    2e-4  # continuations of the shipped pair that are as likely as this are counted one by one
)


@dataclass(frozen=True)
class Experiment:
    """A case of the loop, to be sampled."""

    case: Case  #: with a single prompt
    samples: int  #: N
    rows: int = 4096  #: the most that are decoded as one batch
    least: float = 0.0  #: continuations less likely than this are pooled
    #: makes the random number generator from a seed. Keyed noise repeats from batch to batch: with it, `rows`
    #: must be at least `samples`.
    rng: Callable[[int], Rng] = SeededRng

    def on(self, backend: Backend) -> "Experiment":
        """Returns the experiment with a backend's case and generator; keyed noise stays what it is."""
        rng = backend.rng if self.rng is SeededRng else self.rng
        return replace(self, case=self.case.on(backend), rng=rng)

    def draw(self, seed: int) -> Counter[Text]:
        """Samples continuations through the whole loop; returns how often each came."""
        rng = self.rng(seed)
        counts = Counter[Text]()
        for first in range(0, self.samples, self.rows):
            rows = min(self.rows, self.samples - first)
            rounds = list(self.case.rounds([self.case.prompts[0]] * rows, rng))
            counts.update(tokens for tokens, _ in outcomes(rounds, rows))
        return counts

    def distribution(self) -> dict[Cell, float]:
        """Computes what the continuations' distribution should be."""
        return continuations(self.case, self.case.prompts[0], self.least)

    def check(self, seed: int, false_alarm: float) -> Sampled:
        """Draws, and compares. Both error rates are those of `check_sample`, whose result says all figures.

        Forward passes with and without a cache differ in the last bits. In float32 that moves a distribution
        by about 1e-6, some ten thousand times less than what the test can see.
        """
        return check_sample(self.case.name, self.draw(seed), self.distribution(), false_alarm)


def sampled_tests(seed: int = 0, full: bool = False, backends: Sequence[Backend] = (TORCH,)) -> list[Sampled]:
    """Runs all sampled tests, and a calibration.

    Right code fails one or more of them with probability 1e-6 at most: each gets an equal share, and shares
    add up whether or not the tests depend on each other. What each detects with 99.9999% certainty is in its
    result. The full ones have more samples, and the trained pair among the models. Each experiment runs on
    all backends; those that come out the same run once.
    """
    experiments = (
        [*tiny_experiments(200_000), *trained_experiments(20_000)] if full else tiny_experiments(20_000)
    )
    backend_experiments = {
        experiment.case.name: experiment
        for backend in backends
        for experiment in (original.on(backend) for original in experiments)
    }
    share = FAMILY_FALSE_ALARM / (len(backend_experiments) + 1)
    results = [experiment.check(seed, share) for experiment in backend_experiments.values()]
    seeds, samples = (200, 2_000) if full else (100, 500)
    calibration = replace(experiments[0], samples=samples)
    calibration_seeds = [(seeds * seed + number) % SEEDS for number in range(seeds)]
    return [*results, check_calibration(calibration, calibration_seeds, share)]


def check_calibration(experiment: Experiment, seeds: Sequence[int], false_alarm: float) -> Sampled:
    """Checks that Pearson's p-values of an experiment, one for each of many seeds, are uniform.

    For right code they are. If rows, rounds or positions shared their random numbers, each sample might have
    the right distribution, and the counts would still scatter too much or too little. Counts are whole
    numbers and Pearson's distribution is a limit, so right p-values may be up to `PEARSON_ERROR` from
    uniform; the false-alarm rate, that of `check_uniform`, allows for that.
    """
    exact = experiment.distribution()
    p_values = [pearson_p_value(experiment.draw(seed), exact) for seed in seeds]
    name = f"p-values of {len(p_values)} seeds, {experiment.samples} samples each"
    return check_uniform(name, p_values, false_alarm, slack=PEARSON_ERROR)


def tiny_experiments(samples: int) -> list[Experiment]:
    """Returns experiments on small models (see families.toml), with keyed noise where it is coupled."""
    return [
        Experiment(case, samples, rows=samples, rng=KeyedRng)
        if case.verifier is verify_coupled
        else Experiment(case, samples)
        for case in read_cases(TABLES["sampled"], seed=0)
    ]


def trained_experiments(samples: int) -> list[Experiment]:
    """Returns experiments on the shipped pair: from the middle of a story, as it is and warped."""
    pair = load_pair("stories")
    prompt = tuple(pair.tokenizer.encode(STORY_PROMPT))
    length = len(prompt) + 3 + 2
    target = shortened(pair.target, length)
    draft = shortened(pair.draft, length)
    plain = Case("stories, 3 tokens, K = 2", target, draft, (prompt,), 2, 3)
    warped = replace(
        plain,
        name="stories, 3 tokens, K = 2, warped, hotter draft",
        warp=Warp(0.8, top_k=20),
        draft_warp=Warp(1.5),
    )
    return [Experiment(case, samples, rows=512, least=LEAST_PROBABILITY) for case in (plain, warped)]


def shortened(model: GPT, max_length: int) -> GPT:
    """Returns the same model, weights shared, with a shorter context: its caches are that much smaller."""
    short = copy(model)
    short.config = replace(model.config, max_length=max_length)
    short.max_length = max_length
    return short
