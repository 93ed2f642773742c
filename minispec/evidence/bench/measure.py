"""Measuring the parts: how long a forward takes, how often each position is accepted, what memory is taken.

What is compared takes turns, so that a machine that slows down slows all of it. What is reported is a median
with its quartiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

import torch

from minispec.core.model import LanguageModel
from minispec.core.prefill import device_of
from minispec.evidence.bench.measurements import Latency, MemoryPart
from minispec.evidence.bench.settings import memory, quartiles
from minispec.io.checkpoint import Pair
from minispec.io.trace import Trace

WIDTHS = (1, 2, 3, 5, 9, 17, 33)  # new tokens of a forward
STREAK = 5  # forwards in a turn


@torch.inference_mode()
def measure_latency(
    model: LanguageModel,
    widths: Sequence[int] = WIDTHS,
    cached: int = 64,
    repeats: int = 30,
    name: str = "target",
) -> list[Latency]:
    """Measures forwards over several numbers of new tokens: t(n).

    Args:
        model: any.
        widths: numbers of new tokens.
        cached: how many tokens the cache holds before.
        repeats: how often each is measured, in turns. In its turn each runs several times, and the last one
            counts: in a loop, too, a forward finds its weights in the processor's cache.
        name: of the model, for people.

    Returns:
        One per width. Which tokens are read does not matter to the time.

    Raises:
        ValueError: if there is nothing to measure, or it does not fit the context.
    """
    if not widths or min(widths) < 1 or cached < 0 or repeats < 1:
        raise ValueError("give widths and repeats of at least 1, and 0 or more cached tokens")
    if cached + max(widths) > model.max_length:
        raise ValueError(f"{cached} + {max(widths)} tokens do not fit a context of {model.max_length}")
    cache, device = model.new_cache(1), device_of(model)
    tokens = (torch.arange(max(cached, *widths, 1)) % model.vocab_size)[None].to(device)
    if cached:
        model(tokens[:, :cached], cache)
    seconds: dict[int, list[float]] = {width: [] for width in widths}
    for turn in range(repeats + 2):
        for width in widths:
            for run in range(STREAK):
                started = perf_counter()
                model(tokens[:, :width], cache)[0, -1, 0].item()  # asking for a number waits for a GPU
                if turn >= 2 and run == STREAK - 1:  # the first two turns are warm-up
                    seconds[width].append(perf_counter() - started)
                cache.truncate([cached])
    return [_latency(name, width, values) for width, values in seconds.items()]


def _latency(name: str, width: int, values: Sequence[float]) -> Latency:
    low, middle, high = quartiles(values)
    return Latency(name, width, middle, low, high)


def cost_ratio(target: Sequence[Latency], draft: Sequence[Latency]) -> float:
    """Returns c: seconds of a draft forward over those of a target forward, both over one token.

    Raises:
        ValueError: if either was not measured for one token.
    """
    ones = [next((p.seconds for p in points if p.width == 1), None) for points in (target, draft)]
    if ones[0] is None or ones[1] is None:
        raise ValueError("both models must be measured for one token")
    return ones[1] / ones[0]


def acceptance_by_position(trace: Trace) -> list[float]:
    """Returns for each drafted position how often it was accepted when it was tested: [K].

    A position that was never tested has 0: those before it were never all accepted.

    Args:
        trace: of any run with a draft.
    """
    k = max((r.draft.k for r in trace.rounds), default=0)
    tested, kept = [0] * k, [0] * k
    for r in trace.rounds:
        for row, live in enumerate(r.live):
            for place in range((r.tested(row) or 0) if live else 0):
                tested[place] += 1
                kept[place] += place < r.accepted(row)
    return [a / b if b else 0.0 for a, b in zip(kept, tested, strict=True)]


def measure_memory(pair: Pair, rows: int = 1) -> list[MemoryPart]:
    """Returns the bytes of weights and caches of both models, for so many texts side by side.

    Raises:
        ValueError: if there is not at least one row.
    """
    if rows < 1:
        raise ValueError(f"there must be at least one row, not {rows}")
    parts = []
    for name, size in memory(pair).items():
        model, what = name.split("_")
        parts.append(MemoryPart(model, what, size * rows if what == "cache" else size))
    return parts
