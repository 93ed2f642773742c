"""Sweeps that take seconds: the speed-up at every K, measured and predicted, for the readers of a notebook.

`minispec bench` measures the same and more, with care for what it costs to choose K.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from minispec.evidence.bench.interleaved import acceptance_of, gain_of, take_turns
from minispec.evidence.bench.measure import acceptance_by_position, cost_ratio, measure_latency
from minispec.evidence.bench.measurements import Measurement, SpeedPoint, kill_rows, measured
from minispec.evidence.bench.settings import NEW_TOKENS, bench_prompts, measure_acceptance, ways_of
from minispec.evidence.theory.formulas import refined_speed_up, speed_up
from minispec.evidence.zoo.kill_matrix import Zoo
from minispec.io.checkpoint import Pair

DRAFTED = (1, 2, 3, 4, 5, 6, 8, 10)  # values of K


@dataclass(frozen=True)
class Conditions:
    """How a sweep is run.

    Attributes:
        verifier: `greedy` or `rejection`.
        prompts: how many of the pair's prompts.
        repeats: how often each is measured.
        new_tokens: per run and row.
        seed: of the sampling.
    """

    verifier: str = "rejection"
    prompts: int = 8
    repeats: int = 1
    new_tokens: int = NEW_TOKENS
    seed: int = 0


def measure_speed(
    pair: Pair, widths: Sequence[int] = DRAFTED, how: Conditions = Conditions()
) -> list[SpeedPoint]:
    """Measures the speed-up at every K, and predicts it by both formulas from what is measured apart.

    Args:
        pair: the models, with prompts in their `pair.json`.
        widths: values of K.
        how: the conditions.

    Raises:
        ValueError: if the pair has no prompts, or a K is below 1.
    """
    if not widths or min(widths) < 1:
        raise ValueError(f"give numbers of at least 1, not {list(widths)}")
    chosen = bench_prompts(pair)[: how.prompts]
    alone = {k: ways_of(pair, k, how.verifier)[0] for k in widths}
    ways = {k: ways_of(pair, k, how.verifier)[1] for k in widths}
    turns = take_turns(alone, ways, [[p] for p in chosen * how.repeats], how.seed, how.new_tokens)
    target = measure_latency(pair.target, sorted({1, *(k + 1 for k in widths)}))
    draft = measure_latency(pair.draft, [1], name="draft")
    seconds, c = {point.width: point.seconds for point in target}, cost_ratio(target, draft)
    points = []
    for k in widths:
        alpha = acceptance_of(turns[k]) or 0.0
        alphas = acceptance_by_position(measure_acceptance(pair, chosen, k, how.seed))
        refined = refined_speed_up(alphas, seconds[1], draft[0].seconds, seconds.__getitem__)
        points.append(SpeedPoint(k, alpha, c, *gain_of(turns[k]), speed_up(alpha, k, c), refined))
    return points


def measure_zoo(report: Zoo) -> Measurement:
    """Returns the kill matrix as a measurement."""
    rows, checks, theirs = kill_rows(report.to_json())
    return measured("zoo", rows, {"checks": checks, "theirs": theirs})
