"""Statistics whose two error rates are known before a sample is drawn.

A test of a distribution can be wrong in two ways. It may raise a false alarm over right code, or it may miss
wrong code. A test that states only the first is empty: one that never fails has no false alarms. Each test
here states both, and from them follows the smallest difference that it is sure to see. No constant is tuned,
and no limit theorem stands in for a bound, with one exception that says so (Pearson's p-value).

What is compared is always the same two things: how often each outcome came, and how likely each is. The
measure is total variation, half of Σ |p̂ − p|: the largest difference in the probability of any event.
The idea of stating both error rates, and the samples needed, is that of TensorFlow Probability's
`statistical_testing`.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

Cell = Any  # anything hashable: an outcome, or several outcomes that are counted as one
Exact = Mapping[Cell, float]  # the probability of each cell; together 1
RARE = "rare"  # the cell of all outcomes that are too rare to be counted one by one
MISS = 1e-6  # the probability to miss a difference of the stated size
EXPECTED = 5.0  # the least that a cell of Pearson's test may expect
SUM_ERROR = 1e-9  # a distribution may miss a sum of 1 by this


@dataclass(frozen=True)
class Sampled:
    """What a sampled test found, and what it could have found."""

    name: str  #: what was tested
    samples: int  #: N
    cells: int  #: how many outcomes were told apart; 0 where outcomes are numbers
    distance: float  #: between what was seen and the exact distribution
    threshold: float  #: at this distance, or beyond, the test fails
    false_alarm: float  #: the probability that right code fails, at most
    detects: float  #: code that is at least this far off is caught, but for a probability of `miss`
    miss: float = MISS  #: see `detects`
    impossible: int = 0  #: how many samples were outcomes of probability 0; one is enough to fail
    rare: float = 0.0  #: probability of the pooled cell. What is wrong inside that cell alone is not seen.
    measure: str = "total variation"  #: which distance it is

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong that the test can see."""
        return self.impossible == 0 and self.distance < self.threshold


def check_sample(name: str, counts: Mapping[Cell, int], exact: Exact, false_alarm: float) -> Sampled:
    """Compares independent samples with the distribution that they should have.

    The statistic is the total variation between the empirical distribution and the exact one. Right code
    fails with probability `false_alarm` at most: `mean_distance` is exact, and one sample moves the total
    variation by 1/N at most, so McDiarmid's inequality bounds how far it strays above its mean. Code whose
    own distribution is at least `detects` away from `exact`, in total variation over the cells, passes with
    probability `MISS` at most (see `detected_distance`).

    Args:
        name: what is tested.
        counts: how often each outcome came. What `exact` does not name belongs to its cell `RARE`.
        exact: the probability of each cell; together 1.
        false_alarm: between 0 and 1.

    Returns:
        The result. An outcome of probability 0 fails it at once.

    Raises:
        ValueError: if there are no samples, or the probabilities do not sum to 1.
    """
    samples, observed, impossible = _counted(counts, exact)
    distance = (
        sum(abs(observed[cell] / samples - p) for cell, p in exact.items()) + impossible / samples
    ) / 2
    return Sampled(
        name,
        samples,
        cells=len(exact),
        distance=distance,
        threshold=mean_distance(exact, samples) + deviation(false_alarm, samples),
        false_alarm=false_alarm,
        detects=detected_distance(exact, samples, false_alarm),
        impossible=impossible,
        rare=exact.get(RARE, 0.0),
    )


def mean_distance(exact: Exact, samples: int) -> float:
    """Returns the mean total variation between a distribution and N samples from it, exactly.

    A cell's count X is binomial, and E|X − Np| = 2·m·C(N, m)·p^m·(1 − p)^(N−m+1) with m = ⌊Np⌋ + 1: De Moivre
    1730, in Diaconis and Zabell 1991, "Closed form summation for classical distributions".
    For large N that is about 0.8 of the bound by Jensen's inequality, √(Np(1 − p)).
    """
    total = 0.0
    for p, cells in Counter(exact.values()).items():
        m = math.floor(samples * p) + 1
        if p > 0 and m <= samples:
            subsets = math.lgamma(samples + 1) - math.lgamma(m + 1) - math.lgamma(samples - m + 1)
            term = 2 * m * math.exp(subsets + m * math.log(p) + (samples - m + 1) * math.log1p(-p))
            total += cells * term
    return total / (2 * samples)


def deviation(probability: float, samples: int) -> float:
    """Returns t: a mean of N numbers in [0, 1] exceeds its expectation by t with at most this probability.

    t = √(ln(1/probability) / (2N)): Hoeffding 1963, theorem 1. By McDiarmid 1989, lemma 1.2, the same holds
    for every function of N independent samples that one of them moves by 1/N at most: a total variation, say.
    """
    return math.sqrt(math.log(1 / probability) / (2 * samples))


def margin(cells: int, samples: int, probability: float) -> float:
    """Returns how far the empirical distribution of so many cells may be from the true one.

    It is within its mean, at most ½·√((m − 1)/N), plus a deviation of this probability.
    """
    return math.sqrt((cells - 1) / samples) / 2 + deviation(probability, samples)


def detected_distance(exact: Exact, samples: int, false_alarm: float, miss: float = MISS) -> float:
    """Returns how far off a distribution must be to be caught but for a probability `miss`.

    Let r be the true distribution, and A the cells where r exceeds p. The statistic is at least p̂(A) − p(A);
    p̂(A) is a mean of N yes-or-no samples with expectation r(A) = p(A) + TV(r, p), and falls short of it by t
    with probability exp(−2Nt²) at most (Hoeffding 1963). So TV(r, p) of threshold + t is enough, whatever r's
    shape.
    """
    return mean_distance(exact, samples) + deviation(false_alarm, samples) + deviation(miss, samples)


def pearson_p_value(counts: Mapping[Cell, int], exact: Exact) -> float:
    """Returns the p-value of Pearson's chi-square test, for calibration.

    The statistic is Σ (X − Np)²/(Np) over the cells, its distribution close to chi-square with cells − 1
    degrees of freedom: Pearson 1900. That is a limit theorem, not a bound. It is good where no cell expects
    too few; so the smallest cells are merged until each expects 5 (Cochran 1954).

    Returns:
        The probability, in the limit, that right code gives a statistic at least as large; 0 where an
        impossible outcome came, 1 where there is only one cell.
    """
    samples, observed, impossible = _counted(counts, exact)
    if impossible:
        return 0.0
    cells = sorted((p, observed[cell]) for cell, p in exact.items() if p > 0)
    small = sum(p * samples < EXPECTED for p, _ in cells)
    while 0 < small < len(cells) and samples * sum(p for p, _ in cells[:small]) < EXPECTED:
        small += 1
    if small:
        merged = (sum(p for p, _ in cells[:small]), sum(n for _, n in cells[:small]))
        cells = [merged, *cells[small:]]
    if len(cells) == 1:
        return 1.0
    statistic = sum((n - samples * p) ** 2 / (samples * p) for p, n in cells)
    half = torch.tensor([(len(cells) - 1) / 2, statistic / 2], dtype=torch.float64)
    return float(torch.special.gammaincc(half[0], half[1]))


def check_uniform(name: str, values: Sequence[float], false_alarm: float, slack: float = 0.0) -> Sampled:
    """Compares independent numbers with the uniform distribution on [0, 1], by Kolmogorov's distance.

    n numbers of a distribution within `slack` of uniform (p-values of counts are not quite uniform) fail with
    probability `false_alarm` at most: they stray by D with probability 2·exp(−2nD²) at most (Dvoretzky,
    Kiefer and Wolfowitz 1956, with the constant of Massart 1990). Numbers of one at least `detects` from
    uniform pass with probability `MISS` at most: where it is farthest, the share of numbers below is a mean
    of yes-or-no samples, and Hoeffding's inequality bounds how far it strays.
    """
    n = len(values)
    if not n:
        raise ValueError("there are no values; give at least one")
    distance = max(max((i + 1) / n - x, x - i / n) for i, x in enumerate(sorted(values)))
    threshold = slack + deviation(false_alarm / 2, n)
    return Sampled(
        name,
        n,
        cells=0,
        distance=distance,
        threshold=threshold,
        false_alarm=false_alarm,
        detects=threshold + deviation(MISS, n),
        measure="Kolmogorov distance",
    )


def _counted(counts: Mapping[Cell, int], exact: Exact) -> tuple[int, dict[Cell, int], int]:
    """Returns how many samples there are, how many each cell got, and how many are impossible."""
    samples = sum(counts.values())
    if samples < 1:
        raise ValueError("there are no samples; give at least one")
    total = math.fsum(exact.values())
    if abs(total - 1) > SUM_ERROR or any(p < 0 for p in exact.values()):
        raise ValueError(f"the probabilities must be 0 or more and sum to 1; they sum to {total}")
    observed = dict.fromkeys(exact, 0)
    impossible = 0
    for outcome, count in counts.items():
        cell = outcome if outcome in exact else RARE
        if exact.get(cell, 0.0) > 0:
            observed[cell] += count
        else:
            impossible += count
    return samples, observed, impossible
