"""What drafting gains with more rows and longer contexts, from forwards that are timed alone.

    cd docs && python -m book contexts

Some minutes on a quiet machine, on the native backend. `forwards` is for batches with long contexts: models
in the sizes of the pair `english`, but with room for them, and its α. Their weights are random, which does
not matter to the time. `batches` is for the shipped pair: runs with a draft and without, which notebook 14
compares with what their forwards take.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import cycle, islice
from statistics import median
from typing import Any

import torch

from book.reports import measurement_of, saved_reports
from minispec.core.cache import KVCache
from minispec.core.model import GPT
from minispec.evidence.bench.interleaved import Run, Setting, interleave, positions_of, quartiles, total_of
from minispec.evidence.bench.machine import describe_machine
from minispec.evidence.bench.measure import NEW_TOKENS, bench_prompts, interleaved_seconds
from minispec.evidence.bench.measurements import FOLDER
from minispec.evidence.theory.formulas import expected_tokens
from minispec.io.checkpoint import Pair, load_pair
from minispec.io.files import read_json, write_json
from minispec.native.backend import on_backend
from minispec.native.model import NativeGPT
from minispec.train.recipes import RECIPES

RECORD = FOLDER / "contexts.json"
K = 4  # of the runs
WIDTHS = (1, 2, 3, 5, 9)  # new tokens of a row: one, and K + 1
ROWS = (1, 2, 4, 8, 16, 32, 64)
CONTEXTS = (64, 256, 1024, 4096)
REPEATS = 5  # of a forward
RUNS = 11  # of a batch
SETTLE = 0.01  # seconds of a forward before the one that counts


def time_forwards(
    target: NativeGPT, draft: NativeGPT, contexts: Sequence[int], row_counts: Sequence[int] = ROWS
) -> list[dict[str, Any]]:
    """Times forwards of all rows after caches of some length: the medians of their seconds.

    `target` has them by new tokens a row, and `draft` is one of the draft over one.
    """
    text = torch.arange(max(contexts))[None] % target.vocab_size
    read = [(model, model.new_cache(1)) for model in (target, draft)]
    for model, cache in read:
        model.hidden(text, cache)
    found = []
    for context in sorted(contexts, reverse=True):
        for _, cache in read:
            cache.truncate([context])
        for rows in row_counts:
            caches = [copied(model, cache, rows) for model, cache in read]
            tasks = {str(new): forward_task(target, caches[0], new) for new in WIDTHS}
            tasks["draft"] = forward_task(draft, caches[1], 1)
            seconds = {
                name: median(values) for name, values in interleaved_seconds(tasks, REPEATS, SETTLE).items()
            }
            alone = seconds.pop("draft")
            found.append({"rows": rows, "context": context, "target": seconds, "draft": alone})
    return found


def copied(model: NativeGPT, cache: KVCache, rows: int) -> KVCache:
    """Returns a cache with so many rows, each of them what another one holds in its only row."""
    copies = model.new_cache(rows)
    copies.reserve(cache.row_lengths[0] + max(WIDTHS))
    for row in range(rows):
        copies.place(row, cache, 0)
    return copies


def forward_task(model: NativeGPT, cache: KVCache, new: int) -> Callable[[], object]:
    """Returns a task: a forward over so many new tokens in each row, and back to before."""
    held = cache.row_lengths
    ids = torch.arange(len(held) * new).view(len(held), new) % model.vocab_size

    def task() -> None:
        model.head(model.hidden(ids, cache))
        cache.truncate(held)

    return task


def sizes_of_english() -> tuple[NativeGPT, NativeGPT]:
    """Returns a target and a draft with room for long contexts."""
    recipe = RECIPES["english"]
    room = max(CONTEXTS) + max(WIDTHS)
    target, draft = (NativeGPT(GPT(replace(c, max_length=room))) for c in (recipe.target, recipe.draft))
    return target, draft


def run_batches(pair: Pair, row_counts: Sequence[int] = ROWS, new_tokens: int = NEW_TOKENS) -> list[dict]:
    """Decodes batches with a draft and without, interleaved, and counts the seconds of their forwards.

    `gain` is the median speed-up without prefill, between its quartiles. `alone` are the seconds of a target
    forward over one new token a row, `verify` over K + 1, and `draft` those of a draft forward. `live` is the
    share of rows that still decode in a round, and `alphas` are by position.
    """
    models = on_backend(pair, "native")
    sides = [Setting(models, k, "rejection", 1.0) for k in (0, K)]
    batches = {rows: [list(islice(cycle(bench_prompts(pair)), rows))] * RUNS for rows in row_counts}
    found = []
    for rows, prompts in batches.items():
        alone, drafted = interleave({rows: sides}, prompts, seed=0, new_tokens=new_tokens)[rows]
        low, gain, high = quartiles(decoding(a) / decoding(b) for a, b in zip(alone, drafted, strict=True))
        total = total_of(drafted)
        rounds = total.target_calls / len(drafted)
        found.append(
            {"rows": rows, "gain": gain, "low": low, "high": high}
            | {"alone": median(run.forwards.target for run in alone) / new_tokens}
            | {"verify": median(run.forwards.target for run in drafted) / rounds}
            | {"draft": median(run.forwards.draft for run in drafted) / rounds / K}
            | {"live": total.row_rounds / (rows * total.target_calls)}
            | {"alphas": [kept / tested for tested, kept in positions_of(drafted)]}
        )
    return found


def decoding(run: Run) -> float:
    """Returns the seconds of a run without prefill."""
    return run.seconds - run.forwards.prefill


def gains_by_context() -> dict[int, list[tuple[int, float]]]:
    """Returns by context, in tokens: numbers of rows, each with the gain that recorded forwards give."""
    record = read_json(RECORD)
    tokens = expected_tokens(record["alpha"], record["k"])
    gains: dict[int, list[tuple[int, float]]] = {}
    for row in record["forwards"]:
        times = row["target"]
        gain = tokens * times["1"] / (record["k"] * row["draft"] + times[str(record["k"] + 1)])
        gains.setdefault(row["context"], []).append((row["rows"], gain))
    return gains


def record_contexts() -> None:
    """Time batches with short and long contexts, which batches.md and notebook 14 quote."""
    (report,) = saved_reports(["english"])
    (alpha,) = [point.alpha for point in measurement_of(report, "speed").points if point.k == K]
    about = {"date": str(datetime.date.today()), "machine": describe_machine(), "k": K, "alpha": alpha}
    found = {
        "forwards": time_forwards(*sizes_of_english(), CONTEXTS),
        "batches": run_batches(load_pair("stories")),
    }
    write_json(RECORD, about | found)
