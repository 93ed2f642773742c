"""One example of every figure of numbers, from data that need no trained model.

Where measurements were recorded, they are shown. Else the numbers are made up, of about the right size, and
the figure's name says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from minispec.core.verify import verify_rejection
from minispec.evidence.bench.measurements import (
    FOLDER,
    BatchPoint,
    DraftPoint,
    KillRow,
    Latency,
    Measurement,
    MemoryPart,
    SpeedPoint,
    load_measurement,
)
from minispec.evidence.proof.first_token import first_token, first_token_counts
from minispec.evidence.theory.formulas import Hardware, forward_cost, speed_up
from minispec.evidence.zoo.mutants import mutant_named
from minispec.evidence.zoo.mutation import planted
from minispec.io.checkpoint import SHIPPED
from minispec.io.files import read_json
from minispec.show.plots.histogram import law_histogram
from minispec.show.plots.kill_matrix import kill_matrix
from minispec.show.plots.learning import learning
from minispec.show.plots.memory import bytes_against_arithmetic, memory_bars
from minispec.show.plots.picture import Picture
from minispec.show.plots.rule_distribution import rule_law
from minispec.show.plots.speed import latency, predicted_measured, speed_up_curves
from minispec.show.plots.sweeps import batch_sweep, draft_sweep
from minispec.train.publish import history_of

P, Q = (3 / 6, 2 / 6, 1 / 6), (1 / 6, 1 / 6, 4 / 6)  # over the tokens a, b, c
SAMPLES = 20_000
A100 = Hardware("an A100 (2.0 TB/s, 312 Tflop/s)", 2.0e12, 312e12)  # NVIDIA's data sheet, 80 GB, 16 bits
T_TARGET = {1: 2.3, 2: 2.5, 3: 2.7, 5: 3.1, 9: 3.9, 17: 5.6, 33: 9.2}  # milliseconds, made up
T_DRAFT = {1: 0.2, 2: 0.21, 3: 0.22, 5: 0.24, 9: 0.29, 17: 0.38, 33: 0.55}
MADE_UP = "made-up numbers"


def gallery(folder: Path = FOLDER) -> Iterator[Picture]:
    """Yields every figure of numbers once.

    Args:
        folder: where measurements were recorded, `latency.json` and so on; what is missing is made up.
    """
    yield shipped_losses()
    yield seven_billion()
    yield laws()
    with planted(mutant_named("correction-from-p")):
        biased = first_token(verify_rejection, P, Q)
    yield rule_law(biased, P, "abc", guess=P)
    for kind, draw in FIGURES.items():
        path = folder / f"{kind}.json"
        found = load_measurement(path) if path.is_file() else None
        for picture in draw(found.points if found else EXAMPLES[kind], found):
            yield picture if found else replace(picture, name=f"{picture.name} ({MADE_UP})")


def shipped_losses() -> Picture:
    """Returns the losses of the shipped pair while it was trained, and the entropy of its grammar."""
    info = read_json(SHIPPED / "stories" / "pair.json")
    return learning([], history_of(info), info["entropy_floor"], guess=0)


def seven_billion() -> Picture:
    """Returns the bytes of a model of seven billion weights against its arithmetic."""
    costs = [forward_cost(7e9, 2, A100, tokens) for tokens in (1, 5, 64)]
    return bytes_against_arithmetic(costs, A100, "a 7B model", guess=3)


def laws() -> Picture:
    """Returns the first token of the rejection rule on {a, b, c}, and of a mutant of it."""
    shipped = first_token_counts(verify_rejection, P, Q, SAMPLES)
    with planted(mutant_named("correction-from-p")):
        mutant = first_token_counts(verify_rejection, P, Q, SAMPLES)
    return law_histogram(P, shipped, mutant, "abc", guess=P)


def speeds(points: Sequence[SpeedPoint], _: Measurement | None) -> Iterator[Picture]:
    """Yields both figures of the speed-up at every K."""
    middle = points[len(points) // 2].alpha
    alphas = sorted({0.5, 0.7, 0.9, round(middle, 2)})
    yield speed_up_curves(alphas, points[0].c, points, guess=4)
    yield predicted_measured(points, guess=1.5)


def matrix(points: Sequence[KillRow], found: Measurement | None) -> Iterator[Picture]:
    """Yields the kill matrix."""
    conditions = found.conditions if found else {"checks": ["law", "greedy", "peer"], "theirs": ["peer"]}
    checks, theirs = conditions["checks"], conditions["theirs"]
    yield kill_matrix(points, checks, theirs, guess={check: len(points) // 2 for check in theirs})


FIGURES: dict[str, Callable[[Sequence[Any], Measurement | None], Iterator[Picture]]] = {
    "latency": lambda points, _: iter([latency(points, guess=5)]),
    "speed": speeds,
    "drafts": lambda points, _: iter([draft_sweep(points, guess=points[-1].name)]),
    "batches": lambda points, _: iter([batch_sweep(points, guess=8)]),
    "memory": lambda points, _: iter([memory_bars(points, guess=6e6)]),
    "zoo": matrix,
}
EXAMPLES: dict[str, Sequence[Any]] = {
    "latency": [
        Latency(name, width, t / 1e3, 0.96 * t / 1e3, 1.07 * t / 1e3)
        for name, times in (("target", T_TARGET), ("draft", T_DRAFT))
        for width, t in times.items()
    ],
    "speed": [
        SpeedPoint(k, 0.8, 0.09, gain, gain - 0.1, gain + 0.12, speed_up(0.8, k, 0.09), 1.04 * gain)
        for k, gain in ((1, 1.44), (2, 1.7), (3, 1.81), (4, 1.84), (5, 1.82), (6, 1.77), (8, 1.6), (10, 1.44))
    ],
    "drafts": [
        DraftPoint("1×32", 35_000, 0.71, 0.08, 4, 1.55, 1.48, 1.6),
        DraftPoint("1×64", 90_000, 0.8, 0.1, 4, 1.84, 1.76, 1.9),
        DraftPoint("2×128", 490_000, 0.86, 0.25, 3, 1.5, 1.44, 1.57),
        DraftPoint("4×192", 1_900_000, 0.91, 0.6, 1, 0.94, 0.9, 0.99),
    ],
    "batches": [
        BatchPoint(rows, alone, alone * gain, gain, gain - 0.05, gain + 0.06)
        for rows, alone, gain in (
            (1, 430, 1.84),
            (2, 780, 1.66),
            (4, 1400, 1.4),
            (8, 2300, 1.12),
            (16, 3300, 0.91),
            (32, 4100, 0.74),
        )
    ],
    "memory": [
        MemoryPart("target", "weights", 19_600_000),
        MemoryPart("target", "cache", 1_570_000),
        MemoryPart("draft", "weights", 360_000),
        MemoryPart("draft", "cache", 33_000),
    ],
    "zoo": [
        KillRow("a-biased-rule", "verify", "biased", "the law is off", "xx."),
        KillRow("a-crash", "verify", "breaks", "it stops", "!.."),
        KillRow("a-stale-cache", "draft", "slower", "less is accepted", "x.x"),
    ],
}
