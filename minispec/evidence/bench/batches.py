"""The section on batches: texts side by side, and a queue of prompts whose rows take each other's place."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from statistics import fmean
from time import perf_counter
from typing import Any, NamedTuple

import torch

from minispec.core.batch import Batch, Prompts, requests_of
from minispec.core.model import LanguageModel
from minispec.core.prefill import prefill, refill
from minispec.core.rng import Rng
from minispec.core.warp import Warp
from minispec.evidence.bench.interleaved import Run, Setting, speed_up_of, tokens_per_second
from minispec.evidence.bench.machine import using_threads
from minispec.evidence.bench.section import BenchRun, Results
from minispec.native.backend import TORCH

K = 4
REPEATS = 3  # of a batch
QUEUES = 2  # the same of a queue
PER_ROW = 24  # prompts of a queue for each row: at its end rows stand empty, which must not count for much


@dataclass(frozen=True)
class Queue:
    """A setting that decodes prompts of which only some have a row at a time."""

    setting: Setting  #: how it decodes
    rows: int  #: the batch size
    refill: bool  #: whether a row that is done goes on with the next prompt; else all wait for each other

    def decode(self, prompts: Prompts, seed: int, new_tokens: int) -> Run:
        """Decodes prompts, and times it; arguments are those of `Setting.decode`."""
        setting = self.setting
        settings = setting.sampling(seed, new_tokens) | {"batch_size": self.rows}
        backend = setting.models.backend
        decode: Callable[..., Iterator[Any]] = generate_queue
        if setting.k or backend is not TORCH:
            decode = backend.observe
            settings |= setting.drafting()
        size = len(prompts) if self.refill else self.rows
        texts: list[list[int]] = [[] for _ in prompts]
        live: list[bool] = []  # of each row in each forward
        with using_threads(setting.threads):
            started = perf_counter()
            for first in range(0, len(prompts), size):
                for r in decode(setting.models.target, prompts=prompts[first : first + size], **settings):
                    live += r.live
                    for prompt_id, emitted in zip(r.prompt_ids, r.emitted, strict=True):
                        texts[first + prompt_id] += emitted
            seconds = perf_counter() - started
        return Run(seconds, tuple(map(tuple, texts)), live=fmean(live or [0]))


class Step(NamedTuple):
    """A step of the target alone: which prompt each row holds, its new token if any, whether it was live."""

    prompt_ids: tuple[int, ...]
    emitted: list[tuple[int, ...]]
    live: tuple[bool, ...]


@torch.inference_mode()
def generate_queue(
    target: LanguageModel, prompts: Prompts, *, max_new_tokens: int, warp: Warp, rng: Rng, batch_size: int
) -> Iterator[Step]:
    """Decodes with the target alone as `generate` does, so many prompts together; the others wait.

    `speculate` with K = 0 does the same, and keeps records: in torch a step takes up to a tenth longer.
    """
    sizes = target.vocab_size, target.max_length
    batch = Batch(requests_of(prompts, max_new_tokens, None, *sizes), *sizes, batch_size)
    cache, _ = prefill(target, batch.texts)
    while any(live := batch.live):
        plan = batch.plan(target.device)
        hidden = target.hidden(batch.pending(target.device)[:, None], cache)
        probs = warp(target.head(hidden)[:, -1])  # [B, V]
        tokens = rng.categorical(probs, plan.at(0)).tolist()
        emitted = [row.append([token]) for row, token in zip(batch.rows, tokens, strict=True)]
        cache.truncate(batch.cache_lengths)
        yield Step(plan.prompt_ids, emitted, live)
        if refilled := batch.refill():
            refill(target, cache, refilled, [batch.rows[row].tokens for row in refilled])


def measure(bench: BenchRun) -> Results:
    """Measures batches of 1 to 64 texts, and queues of prompts of mixed lengths with as many rows."""
    queue = [point for rows in bench.plan.rows for point in measure_queue(bench, rows)]
    return {
        "k": K,
        "points": [measure_batch(bench, rows) for rows in bench.plan.rows],
        "queue": queue,
        "stops_paying": {"without": stops_paying(queue, False), "with": stops_paying(queue, True)},
    }


def measure_batch(bench: BenchRun, rows: int) -> Results:
    """Measures texts of one length; prompts are used again where a batch has more rows."""
    setting = bench.drafted("rejection", 1.0, K, label=f"{rows} rows")
    batches = [list(islice(cycle(measured_prompts(bench)), rows))] * REPEATS
    sides = {"alone": bench.alone("rejection", 1.0), "drafted": setting}
    return {"setting": setting.name, "rows": rows} | speed_up_row(
        **bench.compare(sides, batches, setting.label)
    )


def measure_queue(bench: BenchRun, rows: int) -> list[Results]:
    """Measures a queue without refill and with it, the target alone and with its draft, interleaved."""
    settings = {"alone": bench.alone("rejection", 1.0), "drafted": bench.drafted("rejection", 1.0, K)}
    sides = {
        (refill, side): Queue(setting, rows, refill)
        for refill in (False, True)
        for side, setting in settings.items()
    }
    queues = [mixed_prompts(bench, rows * PER_ROW)] * QUEUES
    runs = bench.compare(sides, queues, f"a queue for {rows} rows")
    return [
        {
            "rows": rows,
            "refill": refill,
            "live_target_only": fmean(run.live for run in runs[refill, "alone"]),
            "live_speculative": fmean(run.live for run in runs[refill, "drafted"]),
        }
        | speed_up_row(runs[refill, "alone"], runs[refill, "drafted"])
        for refill in (False, True)
    ]


def speed_up_row(alone: Sequence[Run], drafted: Sequence[Run]) -> Results:
    """Returns the rates of all rows together, and the speed-up with its quartiles."""
    rates = {"target_only": tokens_per_second(alone), "speculative": tokens_per_second(drafted)}
    return rates | dict(zip(("low", "gain", "high"), speed_up_of(alone, drafted), strict=True))


def measured_prompts(bench: BenchRun) -> list[list[int]]:
    """Returns all prompts that something is measured on."""
    return [*bench.prompts.reporting, *bench.prompts.choosing]


def mixed_prompts(bench: BenchRun, count: int) -> list[list[int]]:
    """Returns prompts of 32 tokens up to three quarters of the context: the target goes on with the pair's.

    A long one has little space left, so their texts end after different numbers of tokens.
    """
    alone = bench.alone("rejection", 1.0)
    prompts = measured_prompts(bench)
    short = len(prompts[0])
    longest = max(alone.models.target.max_length * 3 // 4, short)
    continuations = alone.decode(prompts, bench.seed, longest - short).texts
    texts = [[*prompt, *tokens] for prompt, tokens in zip(prompts, continuations, strict=True)]
    lengths = (short + 37 * i % (longest - short + 1) for i in range(count))  # well mixed
    return [text[:length] for text, length in zip(cycle(texts), lengths, strict=False)]


def stops_paying(queue: Sequence[Results], refill: bool) -> int | None:
    """Returns the first number of rows with which the target alone is faster; None: with none of them."""
    return next((point["rows"] for point in queue if point["refill"] is refill and point["gain"] < 1), None)
