"""The bench: how much faster, honestly measured.

A speed-up is seconds per emitted token, target-only over speculative: the same prompts, the same number of
tokens, prefill on both sides, end-of-sequence off. The two sides take turns in one process, so that a
machine that slows down slows both. K is chosen on half of the prompts and reported on the other half. The
target-only side is `generate`, the plain loop.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import quantiles
from time import perf_counter

import torch

from minispec.decoding.draft import ModelDrafter
from minispec.decoding.loop import generate, record
from minispec.decoding.records import Statistics, Trace
from minispec.decoding.rng import SeededRng
from minispec.decoding.verify import Verifier, verify_greedy, verify_rejection
from minispec.decoding.warp import Warp
from minispec.lm.checkpoint import Pair

VERIFIERS: dict[str, tuple[Verifier, float]] = {
    "greedy": (verify_greedy, 0.0),
    "rejection": (verify_rejection, 1.0),
}
PROMPT_TOKENS = 32
NEW_TOKENS = 160
WIDTHS = (1, 2, 3, 4, 5, 6, 8, 10, 12)
PHASES = ("draft", "verify", "rollback", "other")


@dataclass(frozen=True)
class Turn:
    """One prompt, or a batch of them, decoded both ways, one right after the other.

    Attributes:
        target_only: seconds per emitted token of the target alone, prefill included.
        speculative: the same with a drafter.
        statistics: of the speculative run.
    """

    target_only: float
    speculative: float
    statistics: Statistics

    @property
    def ratio(self) -> float:
        """The speed-up of this turn."""
        return self.target_only / self.speculative


@dataclass(frozen=True)
class Setting:
    """One way of decoding, measured.

    Attributes:
        pair: its name.
        verifier: `greedy` or `rejection`.
        temperature: 0 for greedy.
        k: drafted tokens per round.
        turns: one per prompt and repetition.
    """

    pair: str
    verifier: str
    temperature: float
    k: int
    turns: Sequence[Turn]

    @property
    def speedup(self) -> float:
        """The median of the turns' ratios."""
        return quartiles([turn.ratio for turn in self.turns])[1]

    def to_json(self) -> dict[str, object]:
        """Returns the figures under the names that outside checks read."""
        total = [turn.statistics for turn in self.turns]
        tested = sum(s.tested for s in total)
        low, middle, high = quartiles([turn.ratio for turn in self.turns])
        return {
            "pair": self.pair,
            "verifier": self.verifier,
            "temperature": self.temperature,
            "k": self.k,
            "speedup": middle,
            "speedup_quartiles": [low, high],
            "acceptance": sum(s.accepted for s in total) / tested if tested else None,
            "tokens_per_target_call": sum(s.emitted for s in total) / sum(s.row_rounds for s in total),
            "target_only_tokens_per_second": 1 / quartiles([t.target_only for t in self.turns])[1],
            "tokens_per_second": 1 / quartiles([t.speculative for t in self.turns])[1],
            "seconds": {
                p: sum(s.seconds.get(p, 0.0) for s in total) / len(total) for p in ("prefill", *PHASES)
            },
            "turns": len(total),
        }


def quartiles(values: Iterable[float]) -> tuple[float, float, float]:
    """Returns the lower quartile, the median and the upper quartile."""
    values = list(values)
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = quantiles(values, n=4, method="inclusive")
    return low, middle, high


def bench_prompts(pair: Pair) -> list[list[int]]:
    """Returns held-out prompts of 32 tokens, as recorded when the pair was trained.

    Raises:
        ValueError: if the pair has fewer than two.
    """
    prompts = [list(p) for p in pair.info.get("prompts", []) if len(p) == PROMPT_TOKENS]
    if len(prompts) < 2:
        raise ValueError(f"the pair {pair.name} has no prompts to measure on: its pair.json lists none")
    return prompts


def take_turn(
    pair: Pair, prompts: Sequence[Sequence[int]], verifier: str, k: int, seed: int, new_tokens: int
) -> Turn:
    """Decodes prompts side by side with the target alone, then with its drafter, and times both.

    Args:
        pair: the models.
        prompts: token ids; one prompt for a speed-up as it is reported, more for a batch.
        verifier: `greedy` or `rejection`.
        k: drafted tokens per round.
        seed: of the sampling.
        new_tokens: how many tokens to emit per prompt.
    """
    rule, temperature = VERIFIERS[verifier]
    warp = Warp(temperature)
    started = perf_counter()
    steps = generate(pair.target, prompts, max_new_tokens=new_tokens, warp=warp, rng=SeededRng(seed))
    alone = sum(token is not None for step in steps for token in step)
    middle = perf_counter()
    trace = record(
        pair.target,
        ModelDrafter(pair.draft),
        prompts,
        k=k,
        verifier=rule,
        max_new_tokens=new_tokens,
        warp=warp,
        rng=SeededRng(seed),
    )
    ended = perf_counter()
    statistics = trace.statistics()
    return Turn((middle - started) / alone, (ended - middle) / statistics.emitted, statistics)


def run_bench(
    pair: Pair,
    *,
    widths: Sequence[int] = WIDTHS,
    repeats: int = 2,
    prompts: int = 16,
    new_tokens: int = NEW_TOKENS,
    seed: int = 0,
    tell: Callable[[str], None] = lambda _: None,
) -> dict[str, object]:
    """Measures a pair with both verifiers.

    Args:
        pair: the models, with prompts in their `pair.json`.
        widths: values of K to choose from.
        repeats: how often each prompt of the reporting half is measured.
        prompts: how many prompts to use, half for choosing K and half for reporting.
        new_tokens: tokens per run.
        seed: of the sampling.
        tell: told what is being measured.

    Returns:
        `machine`, `settings` (the reported ones, at the best K of each verifier), and `sweep` (every K on
        the half that chose it), ready for JSON.

    Raises:
        ValueError: if the pair has no prompts.
    """
    chosen = bench_prompts(pair)[:prompts]
    choosing, reporting = chosen[: len(chosen) // 2], chosen[len(chosen) // 2 :]
    settings, sweep = [], []
    for verifier, (_, temperature) in VERIFIERS.items():
        take_turn(pair, choosing[:1], verifier, 4, seed, new_tokens)  # warm-up, not counted
        tried = []
        for k in widths:
            tell(f"{verifier}: choosing K, {k}")
            turns = list(turns_of(pair, choosing[:4], verifier, k, seed, new_tokens, 1))
            tried.append(Setting(pair.name, verifier, temperature, k, turns))
        best = max(tried, key=lambda setting: setting.speedup).k
        tell(f"{verifier}: measuring K = {best}")
        turns = list(turns_of(pair, reporting, verifier, best, seed + 1, new_tokens, repeats))
        settings.append(Setting(pair.name, verifier, temperature, best, turns))
        sweep += tried
    return {
        "machine": describe_machine(),
        "conditions": {
            "prompt_tokens": PROMPT_TOKENS,
            "new_tokens": new_tokens,
            "prompts_for_choosing_k": min(len(choosing), 4),
            "prompts_for_reporting": len(reporting),
            "repeats": repeats,
            "dtype": str(pair.target.dtype).removeprefix("torch."),
            "device": str(pair.target.device),
            "end_of_sequence": "off",
            "prefill": "included on both sides",
            "target_only": "generate, the plain loop",
        },
        "settings": [setting.to_json() for setting in settings],
        "sweep": [setting.to_json() for setting in sweep],
        "memory_bytes": memory(pair),
    }


def turns_of(
    pair: Pair,
    prompts: Sequence[Sequence[int]],
    verifier: str,
    k: int,
    seed: int,
    new_tokens: int,
    repeats: int,
) -> Iterator[Turn]:
    """Yields one turn per prompt and repetition."""
    for repeat in range(repeats):
        for index, prompt in enumerate(prompts):
            yield take_turn(pair, [prompt], verifier, k, seed + 1000 * repeat + index, new_tokens)


def measure_acceptance(pair: Pair, prompts: Sequence[Sequence[int]], k: int = 4, seed: int = 0) -> Trace:
    """Decodes prompts side by side at temperature 1 with the rejection verifier.

    Args:
        pair: the models.
        prompts: token ids.
        k: drafted tokens per round.
        seed: of the sampling.

    Returns:
        The trace; its `statistics().acceptance` is accepted over tested tokens.
    """
    return record(
        pair.target,
        ModelDrafter(pair.draft),
        prompts,
        k=k,
        verifier=verify_rejection,
        max_new_tokens=NEW_TOKENS,
        warp=Warp(1.0),
        rng=SeededRng(seed),
    )


def memory(pair: Pair) -> dict[str, int]:
    """Returns the bytes of weights and of one row's cache, for both models; nothing else grows."""
    return {
        f"{name}_{what}": size
        for name, model in (("target", pair.target), ("draft", pair.draft))
        for what, size in (
            ("weights", sum(p.numel() * p.element_size() for p in model.parameters())),
            ("cache", model.new_cache(1).bytes),
        )
    }


def describe_machine() -> dict[str, object]:
    """Returns what a reader needs to compare figures."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def processor() -> str:
    """Returns the processor's name, as far as the system tells."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
        return names[0]
    except (OSError, IndexError):
        return platform.processor() or "unknown"
