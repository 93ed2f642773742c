"""One example of every figure, from data that need no trained model.

Where measurements were saved, they are shown. Else the numbers are made up, of about the right size, and the
figure's name says so. Figures of the bench are those of the report that comes with the package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from book.bench_plots import every_prediction, speeds_of, tokens_per_second
from book.reports import saved_reports
from minispec.core.draft import ModelDrafter
from minispec.core.loop import speculate
from minispec.core.rng import SeededRng
from minispec.core.verify import verify_greedy, verify_rejection
from minispec.core.warp import Warp
from minispec.drafters.suffix import SuffixAutomaton
from minispec.drafters.tree import grow
from minispec.evidence.bench.measurements import (
    FOLDER,
    BatchPoint,
    DraftPoint,
    KillRow,
    Latency,
    Measurement,
    SpeedPoint,
    load_measurement,
)
from minispec.evidence.proof.first_token import first_token, first_token_counts
from minispec.evidence.proof.models import table_pair
from minispec.evidence.theory.formulas import Hardware, forward_cost, speed_up
from minispec.evidence.zoo.mutants import mutant_named
from minispec.evidence.zoo.mutation import planted
from minispec.io.checkpoint import SHIPPED
from minispec.io.files import read_json
from minispec.io.recording import Recording
from minispec.io.walkthrough import load_walkthrough
from minispec.rules.coupled import verify_coupled
from minispec.show.plots.caches import cache_grid, recomputation, steps_with_cache, steps_without_cache
from minispec.show.plots.coloured import coloured_text
from minispec.show.plots.distributions import rule_distribution, sampled_shares
from minispec.show.plots.drafts import Found, draft_bars, draft_growth
from minispec.show.plots.kill_matrix import kill_matrix
from minispec.show.plots.learning import learning
from minispec.show.plots.masks import attention_mask, tree_mask, tree_shapes
from minispec.show.plots.overlap import overlap
from minispec.show.plots.speed import (
    batch_sweep,
    bytes_against_arithmetic,
    draft_sweep,
    gain_by_k,
    latency,
    predicted_measured,
    speed_up_curves,
)
from minispec.show.plots.style import Picture
from minispec.show.plots.timeline import Slots, row_slots, timeline
from minispec.show.plots.verification import along_the_text, positions_of, verification_strip
from minispec.train.publish import history_of

STORIES = SHIPPED / "stories"
P, Q = (3 / 6, 2 / 6, 1 / 6), (1 / 6, 1 / 6, 4 / 6)  # over the tokens a, b, c
SAMPLES = 20_000
A100 = Hardware("an A100 (2.0 TB/s, 312 Tflop/s)", 2.0e12, 312e12)  # NVIDIA's data sheet, 80 GB, 16 bits
MADE_UP = "made-up numbers"
RATES = {"a sure draft": (0.9, 0.03, 0.02), "a draft in doubt": (0.4, 0.25, 0.15)}


def gallery() -> Iterator[Picture]:
    """Yields every figure once: first those that read a trace, then those of numbers, then the bench."""
    yield from of_traces()
    yield from of_numbers()
    (report,) = saved_reports(["stories"])
    yield tokens_per_second(speeds_of(report))
    yield every_prediction(report["sections"]["prediction"]["compared"]["rows"])


def of_traces() -> Iterator[Picture]:
    """Yields every figure of the decoding itself once."""
    recording = load_walkthrough("rejection")
    trace, words = recording.trace, recording.words
    yield recomputation(steps_without_cache(10, 12), steps_with_cache(10, 12), guess=80)
    yield timeline(trace, words)
    r = next(r for r in trace.rounds if 0 < r.accepted(0) < r.drafted(0))
    yield draft_bars(r, words)
    yield attention_mask(r.target_cache.before[0], r.drafted(0))
    yield verification_strip(r, words, drawn=numbers_drawn(recording, r.index))
    i = r.accepted(0)
    yield overlap(r.target_probs[0, i], r.draft.probs[0, i], words, int(r.draft.tokens[0, i]))
    yield cache_grid(trace, words, r.index)
    yield coloured_text(trace, words)
    yield along_the_text(positions_of(trace, words))
    yield draft_growth(found_in(load_walkthrough("greedy"), range(52, 67), 8), 8)
    yield tree_mask([0, 0, 1, 2, 3, 4], ["the", "mat", "floor", ".", ".", "Pip", "Pip"], first=46)
    yield tree_shapes({name: grow([rates] * 6, 16)[0] for name, rates in RATES.items()})
    prompts = [[0] * (11 * i % 17 + 1) for i in range(8)]
    turns = [*slots_of(prompts[:4]), *slots_of(prompts[4:], first=4)]
    yield row_slots({"without refill": turns, "with refill": slots_of(prompts)})


def numbers_drawn(recording: Recording, index: int) -> list[float | None]:
    """Returns the number that each test of a round drew, None where it drew none."""
    draws = [recording.accept_draw(index, i) for i in range(recording.trace.rounds[index].drafted(0))]
    return [draw.number if draw else None for draw in draws]


def found_in(recording: Recording, places: range, k: int) -> list[Found]:
    """Returns what a suffix look-up finds after some tokens of a run's first row, of up to k tokens each."""
    text = [*recording.trace.prompts[0], *recording.trace.tokens()]
    index, found = SuffixAutomaton(per_match=1.5), []
    for i, token in enumerate(text):
        index.append(token)
        draft, coming = index.propose(k), text[i + 1 :]
        right = next((n for n, x in enumerate(draft) if coming[n : n + 1] != [x]), len(draft))
        found.append(Found(recording.words[token], index.match, len(draft), right))
    return [found[i] for i in places]


def slots_of(prompts: Sequence[Sequence[int]], first: int = 0) -> Slots:
    """Decodes prompts on four rows up to a context of 18 tokens; says which prompt each slot decodes."""
    target, draft = table_pair(3, 0, max_length=18)
    how: dict[str, Any] = {
        "k": 1,
        "verifier": verify_greedy,
        "warp": Warp(temperature=0),
        "rng": SeededRng(0),
    }
    rounds = speculate(target, ModelDrafter(draft), prompts, max_new_tokens=18, at_once=4, **how)
    return [[first + n if on else None for n, on in zip(r.names, r.live, strict=True)] for r in rounds]


def of_numbers(folder: Path = FOLDER) -> Iterator[Picture]:
    """Yields every figure of numbers once.

    Args:
        folder: where measurements were saved, `latency.json` and so on; what is missing is made up.
    """
    yield shipped_losses()
    yield seven_billion()
    yield from of_the_rule()
    for kind, (draw, made_up) in FIGURES.items():
        path = folder / f"{kind}.json"
        found = load_measurement(path) if path.is_file() else None
        for picture in draw(found.points if found else made_up, found):
            yield picture if found else replace(picture, name=f"{picture.name} ({MADE_UP})")


def shipped_losses() -> Picture:
    """Returns the losses of the shipped pair while it was trained, and the entropy of its grammar."""
    info = read_json(STORIES / "pair.json")
    return learning([], history_of(info), info["entropy_floor"], guess=0)


def seven_billion() -> Picture:
    """Returns the bytes of a model of seven billion weights against its arithmetic."""
    costs = [forward_cost(7e9, 2, A100, tokens) for tokens in (1, 5, 156)]
    return bytes_against_arithmetic(costs, A100, "a 7B model")


def of_the_rule() -> Iterator[Picture]:
    """Yields what the rejection rule and a mutant of it emit first on {a, b, c}: sampled, then exactly."""
    shipped = first_token_counts(verify_rejection, P, Q, SAMPLES)
    with planted(mutant_named("correction-from-p")):
        mutant = first_token_counts(verify_rejection, P, Q, SAMPLES)
        biased = first_token(verify_rejection, P, Q)
    sampled = {"1": verify_greedy, "2": verify_coupled}
    counts = {f"Rule {n}": first_token_counts(rule, P, Q, SAMPLES) for n, rule in sampled.items()}
    yield sampled_shares(counts | {"Rule 3": mutant, "Rule 4": shipped}, P, "abc")
    yield rule_distribution(biased, P, "abc", guess=P, q=Q, name="Rule 3")


def speeds(points: Sequence[SpeedPoint], _: Measurement | None) -> Iterator[Picture]:
    """Yields the figures of the speed-up at every K."""
    alphas = sorted({0.5, 0.7, 0.9, round(points[len(points) // 2].alpha, 2)})
    yield speed_up_curves(alphas, points[0].c, points)
    yield gain_by_k(points, assumed=0.1)
    yield predicted_measured(points)


def matrix(points: Sequence[KillRow], found: Measurement | None) -> Iterator[Picture]:
    """Yields the kill matrix."""
    conditions = found.conditions if found else {"checks": ["law", "greedy", "peer"], "theirs": ["peer"]}
    yield kill_matrix(points, conditions["checks"], conditions["theirs"])


T_TARGET = {1: 2.3, 2: 2.5, 3: 2.7, 5: 3.1, 9: 3.9, 17: 5.6, 33: 9.2}  # milliseconds, made up
T_DRAFT = {1: 0.2, 2: 0.21, 3: 0.22, 5: 0.24, 9: 0.29, 17: 0.38, 33: 0.55}
LATENCIES = [
    Latency(name, width, t / 1e3, 0.96 * t / 1e3, 1.07 * t / 1e3)
    for name, times in (("target", T_TARGET), ("draft", T_DRAFT))
    for width, t in times.items()
]
GAINS = {1: 1.44, 2: 1.7, 3: 1.81, 4: 1.84, 5: 1.82, 6: 1.77, 8: 1.6, 10: 1.44}
SPEEDS = [
    SpeedPoint(k, 0.8, 0.09, gain, gain - 0.1, gain + 0.12, speed_up(0.8, k, 0.09), 1.04 * gain)
    for k, gain in GAINS.items()
]
DRAFTS = [
    DraftPoint("1×32", 35_000, 0.71, 0.08, 4, 1.55, 1.48, 1.6),
    DraftPoint("1×64", 90_000, 0.8, 0.1, 4, 1.84, 1.76, 1.9),
    DraftPoint("2×128", 490_000, 0.86, 0.25, 3, 1.5, 1.44, 1.57),
    DraftPoint("4×192", 1_900_000, 0.91, 0.6, 1, 0.94, 0.9, 0.99),
]
ALONE = {1: (430, 1.84), 2: (780, 1.66), 4: (1400, 1.4), 8: (2300, 1.12), 16: (3300, 0.91), 32: (4100, 0.74)}
BATCHES = [
    BatchPoint(rows, alone, alone * gain, gain, gain - 0.05, gain + 0.06)
    for rows, (alone, gain) in ALONE.items()
]
KILLS = [
    KillRow("a-biased-rule", "verify", "biased", "the distribution is off", "xx."),
    KillRow("a-crash", "verify", "breaks", "it stops", "!.."),
    KillRow("a-stale-cache", "draft", "slower", "less is accepted", "x.x"),
]
Draw = Callable[[Sequence[Any], Measurement | None], Iterator[Picture]]
# By kind of measurement: the figures of it, and made-up points.
FIGURES: dict[str, tuple[Draw, Sequence[Any]]] = {
    "latency": (lambda points, _: iter([latency(points, guess=5)]), LATENCIES),
    "speed": (speeds, SPEEDS),
    "drafts": (lambda points, _: iter([draft_sweep(points, guess=points[-1].name)]), DRAFTS),
    "batches": (lambda points, _: iter([batch_sweep(points)]), BATCHES),
    "zoo": (matrix, KILLS),
}
