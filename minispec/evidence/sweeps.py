"""Sweeps: the speed-up at every K, for drafts of several sizes, for batches of several sizes.

What is compared takes turns, prompt by prompt. `record_measurements` writes all of it to files, with the
machine and the date.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import cycle, islice
from pathlib import Path
from typing import TypeVar

from minispec.evidence.bench import (
    NEW_TOKENS,
    PROMPT_TOKENS,
    Turn,
    bench_prompts,
    measure_acceptance,
    quartiles,
    take_turn,
)
from minispec.evidence.kill_matrix import Zoo
from minispec.evidence.measure import acceptance_by_position, cost_ratio, measure_latency, measure_memory
from minispec.evidence.measurements import (
    BatchPoint,
    DraftPoint,
    Measurement,
    Point,
    SpeedPoint,
    kill_rows,
    measured,
    save_measurement,
)
from minispec.evidence.theory import refined_speed_up, speed_up
from minispec.lm.checkpoint import Pair
from minispec.lm.model import GPT

DRAFTED = (1, 2, 3, 4, 5, 6, 8, 10)  # values of K
SIZES = (1, 2, 4, 8, 16, 32)  # rows of a batch

Prompts = Sequence[Sequence[int]]
Key = TypeVar("Key")


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
    _check_positive(widths)
    chosen = bench_prompts(pair)[: how.prompts]
    turns = take_turns({k: (pair, k) for k in widths}, [[p] for p in chosen * how.repeats], how)
    target = measure_latency(pair.target, sorted({1, *(k + 1 for k in widths)}))
    draft = measure_latency(pair.draft, [1], name="draft")
    seconds, c = {point.width: point.seconds for point in target}, cost_ratio(target, draft)
    points = []
    for k in widths:
        alpha = acceptance_of(turns[k])
        alphas = acceptance_by_position(measure_acceptance(pair, chosen, k, how.seed))
        refined = refined_speed_up(alphas, seconds[1], draft[0].seconds, seconds.__getitem__)
        points.append(SpeedPoint(k, alpha, c, *_gain(turns[k]), speed_up(alpha, k, c), refined))
    return points


def measure_draft_sizes(
    pair: Pair, drafts: Mapping[str, GPT], widths: Sequence[int] = DRAFTED, how: Conditions = Conditions()
) -> list[DraftPoint]:
    """Measures one target with several drafts: acceptance, cost ratio, speed-up at the draft's best K.

    K is chosen on half of the prompts and the speed-up reported on the other half.

    Args:
        pair: the target, the tokenizer and the prompts.
        drafts: by name; they share the target's tokenizer.
        widths: values of K to choose from.
        how: the conditions; `repeats` counts for the reporting half.

    Returns:
        From the smallest draft up.

    Raises:
        ValueError: if the pair has no prompts, or a K is below 1.
    """
    _check_positive(widths)
    chosen = [[prompt] for prompt in bench_prompts(pair)[: how.prompts]]
    half = len(chosen) // 2
    pairs = {name: replace(pair, draft=draft) for name, draft in drafts.items()}
    tried = take_turns({(name, k): (pairs[name], k) for name in pairs for k in widths}, chosen[:half], how)
    best = {name: max(widths, key=lambda k: _gain(tried[name, k])[0]) for name in pairs}
    turns = take_turns(
        {name: (pairs[name], best[name]) for name in pairs},
        chosen[half:] * how.repeats,
        replace(how, seed=how.seed + 1000),
    )
    target, points = measure_latency(pair.target, [1]), []
    for name, draft in drafts.items():
        c = cost_ratio(target, measure_latency(draft, [1], name=name))
        alpha, gain = acceptance_of(turns[name]), _gain(turns[name])
        points.append(DraftPoint(name, draft.parameters_count, alpha, c, best[name], *gain))
    return sorted(points, key=lambda point: point.parameters)


def measure_batches(
    pair: Pair, sizes: Sequence[int] = SIZES, k: int = 4, how: Conditions = Conditions()
) -> list[BatchPoint]:
    """Measures the target alone and with its draft, for several numbers of texts side by side.

    Args:
        pair: the models, with prompts in their `pair.json`; they are used again where a batch has more rows.
        sizes: numbers of rows.
        k: K.
        how: the conditions; `prompts` does not count here.

    Raises:
        ValueError: if the pair has no prompts, or a size or K is below 1.
    """
    _check_positive([k, *sizes])
    prompts = bench_prompts(pair)
    turns: dict[int, list[Turn]] = {size: [] for size in sizes}
    take_turn(pair, prompts[:1], how.verifier, k, how.seed, how.new_tokens)  # warm-up
    for repeat in range(how.repeats):
        for size in sizes:
            batch = list(islice(cycle(prompts), size))
            turns[size].append(take_turn(pair, batch, how.verifier, k, how.seed + repeat, how.new_tokens))
    return [
        BatchPoint(
            size,
            1 / quartiles(turn.target_only for turn in turns[size])[1],
            1 / quartiles(turn.speculative for turn in turns[size])[1],
            *_gain(turns[size]),
        )
        for size in sizes
    ]


def take_turns(
    tasks: Mapping[Key, tuple[Pair, int]], batches: Iterable[Prompts], how: Conditions
) -> dict[Key, list[Turn]]:
    """Lets every task have its turn on each batch of prompts, after a warm-up.

    Args:
        tasks: by any name: a pair and a K.
        batches: prompts that are decoded side by side.
        how: the conditions.
    """
    turns: dict[Key, list[Turn]] = {key: [] for key in tasks}
    for number, batch in enumerate(batches):
        for key, (pair, k) in tasks.items():
            if number == 0:
                take_turn(pair, batch, how.verifier, k, how.seed, how.new_tokens)
            turn = take_turn(pair, batch, how.verifier, k, how.seed + number, how.new_tokens)
            turns[key].append(turn)
    return turns


def acceptance_of(turns: Sequence[Turn]) -> float:
    """Returns accepted over tested tokens of all turns; 0 where none was tested."""
    tested = sum(turn.statistics.tested for turn in turns)
    return sum(turn.statistics.accepted for turn in turns) / tested if tested else 0.0


def measure_zoo(report: Zoo) -> Measurement:
    """Returns the kill matrix as a measurement."""
    rows, checks, theirs = kill_rows(report.to_json())
    return measured("zoo", rows, {"checks": checks, "theirs": theirs})


def record_measurements(
    pair: Pair,
    drafts: Mapping[str, GPT],
    folder: Path,
    how: Conditions = Conditions(repeats=3),
    tell: Callable[[str], None] = lambda _: None,
) -> list[Path]:
    """Measures all but the zoo, and writes a file for each kind.

    Args:
        pair: the models, with prompts in their `pair.json`.
        drafts: of several sizes, by name.
        folder: where the files go, `latency.json` and so on; it is made if it is missing.
        how: the conditions of the sweeps.
        tell: told what is being measured.

    Returns:
        The files, written one by one as they come.
    """
    tasks: dict[str, Callable[[], Sequence[Point]]] = {
        "latency": lambda: [*measure_latency(pair.target), *measure_latency(pair.draft, name="draft")],
        "speed": lambda: measure_speed(pair, how=how),
        "drafts": lambda: measure_draft_sizes(pair, drafts, how=how),
        "batches": lambda: measure_batches(pair, how=how),
        "memory": lambda: measure_memory(pair),
    }
    about = {"pair": pair.name, "dtype": str(pair.target.dtype).removeprefix("torch.")}
    sweeps = about | {"prompt_tokens": PROMPT_TOKENS} | asdict(how)
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for kind, task in tasks.items():
        tell(kind)
        paths.append(folder / f"{kind}.json")
        conditions = sweeps if kind in ("speed", "drafts", "batches") else about
        save_measurement(measured(kind, task(), conditions), paths[-1])
    return paths


def _gain(turns: Sequence[Turn]) -> tuple[float, float, float]:
    """Returns the median speed-up and its quartiles."""
    low, middle, high = quartiles(turn.ratio for turn in turns)
    return middle, low, high


def _check_positive(numbers: Sequence[int]) -> None:
    if not numbers or min(numbers) < 1:
        raise ValueError(f"give numbers of at least 1, not {list(numbers)}")
