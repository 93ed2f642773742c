"""Measure the parts: seconds of a forward, acceptance, bytes of memory.

What is compared is interleaved, so that a machine that slows down slows all of it. What is reported is a
median with its quartiles. `minispec bench` measures more, with care for what it costs to choose K.
"""

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter

import torch

from minispec.core.draft import ModelDrafter
from minispec.core.model import LanguageModel
from minispec.core.rng import SeededRng
from minispec.core.verify import verify_rejection
from minispec.core.warp import Warp
from minispec.evidence.bench.interleaved import Key, quartiles
from minispec.evidence.bench.measurements import Latency
from minispec.io.checkpoint import Pair
from minispec.io.observe import record
from minispec.io.trace import Trace

PROMPT_TOKENS = 32
MIN_PROMPTS = 3  # one to choose K, one to report, one to predict from
NEW_TOKENS = 160
WARM_UP_PASSES = 2  # passes over all tasks that are not counted
RUNS_PER_PASS = 5  # of a task


def bench_prompts(pair: Pair) -> list[list[int]]:
    """Returns the first 32 tokens of the pair's prompts, which are held-out texts; shorter ones are left out.

    Raises:
        ValueError: if fewer than three remain.
    """
    recorded = pair.info.get("prompts", [])
    prompts = [list(prompt[:PROMPT_TOKENS]) for prompt in recorded if len(prompt) >= PROMPT_TOKENS]
    if len(prompts) < MIN_PROMPTS:
        raise ValueError(
            f"the pair {pair.name} has {len(prompts)} prompts of at least {PROMPT_TOKENS} tokens; the bench "
            f"needs {MIN_PROMPTS}: minispec bench --prompts FILE takes other texts"
        )
    return prompts


@torch.inference_mode()
def interleaved_seconds(
    tasks: Mapping[Key, Callable[[], object]], repeats: int, settle: float = 0.0
) -> dict[Key, list[float]]:
    """Returns the seconds of each task, one number for each of several passes over all tasks.

    In a pass each task runs several times, and its last run counts. In a loop a forward follows itself, and
    finds its weights and its code in the processor's caches; after the other tasks it would not.

    settle: above 0, a task runs at least once, and for so many seconds, before the run that counts.
    """
    seconds: dict[Key, list[float]] = {name: [] for name in tasks}
    for number in range(repeats + WARM_UP_PASSES):
        for name, task in tasks.items():
            remaining = 1 if settle else RUNS_PER_PASS - 1
            settling = perf_counter()
            while remaining > 0 or perf_counter() - settling < settle:
                task()
                remaining -= 1
            started = perf_counter()
            task()
            if number >= WARM_UP_PASSES:
                seconds[name].append(perf_counter() - started)
    return seconds


@torch.inference_mode()
def forward_task(model: LanguageModel, cached: int, tokens: int, head: bool = True) -> Callable[[], object]:
    """Returns a task: one forward over n new tokens of one row, as the loop does it, after some cached ones.

    Which tokens are read does not matter to the time. The forward that catches up wants no head.
    """
    device = model.device
    cache = model.new_cache(1)
    ids = (torch.arange(max(cached, tokens)) % model.vocab_size)[None].to(device)
    if cached:
        model.hidden(ids[:, :cached], cache)

    def task() -> None:
        hidden = model.hidden(ids[:, :tokens], cache)
        output = model.head(hidden) if head else hidden
        output[0, -1, 0].item()  # asking for a number waits for a GPU
        cache.truncate([cached])

    return task


def measure_latency(
    model: LanguageModel,
    widths: Sequence[int] = (1, 2, 3, 5, 9, 17, 33),
    cached: int = 64,
    repeats: int = 30,
    name: str = "target",
) -> list[Latency]:
    """Measures forwards over several numbers of new tokens after some cached ones: t(n), one per width.

    Raises:
        ValueError: if they do not fit the context.
    """
    tasks = {width: forward_task(model, cached, width) for width in widths}
    latencies = []
    for width, seconds in interleaved_seconds(tasks, repeats).items():
        low, median, high = quartiles(seconds)
        latencies.append(Latency(name, width, median, low, high))
    return latencies


def forward_ratio(target: Sequence[Latency], draft: Sequence[Latency]) -> float:
    """Returns seconds of a draft's forward pass over the target's, both over one token and called alone.

    It is nearly the cost ratio c where the loop calls each draft step by itself. On native the loop makes all
    draft steps in one call, so that c, which `Costs` measures, is smaller.
    """
    t_target, t_draft = (next(p.seconds for p in points if p.width == 1) for points in (target, draft))
    return t_draft / t_target


def measure_acceptance(pair: Pair, prompts: Sequence[Sequence[int]], k: int = 4) -> Trace:
    """Decodes prompts side by side at temperature 1 with the rejection verifier; returns the trace.

    Its `statistics().acceptance` is accepted over tested tokens.
    """
    return record(
        pair.target,
        ModelDrafter(pair.draft),
        prompts,
        k=k,
        verifier=verify_rejection,
        max_new_tokens=NEW_TOKENS,
        warp=Warp(),
        rng=SeededRng(0),
    )


def measure_memory(pair: Pair) -> dict[tuple[str, str], int]:
    """Returns bytes by model and part: of the weights, and of one row's cache when it is full."""
    sizes = {}
    for name, model in (("target", pair.target), ("draft", pair.draft)):
        sizes[name, "weights"] = sum(weight.nbytes for weight in model.parameters())
        cache = model.new_cache(1)
        cache.reserve(model.max_length)
        sizes[name, "cache"] = cache.bytes
    return sizes
