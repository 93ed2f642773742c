"""Quantized: the pair's draft in int8, compared with itself in float32."""

from __future__ import annotations

from typing import Any

import torch

from minispec.core.draft import ModelDrafter
from minispec.core.model import GPT
from minispec.evidence.bench.interleaved import Way, acceptance_of, gain_of, take_turns
from minispec.evidence.bench.machine import using_threads
from minispec.evidence.bench.measure import measure_latency
from minispec.evidence.bench.quantize import int8, weight_bytes
from minispec.evidence.bench.sections.section import Bench, Found, Skipped, points_of, setting_name
from minispec.native.backend import BACKENDS


def measure(bench: Bench) -> Found:
    """Measures both drafts on the torch backend, at the K that was chosen for the sampled text.

    Raises:
        Skipped: where the models are not float32 on the CPU, or there are no int8 kernels.
    """
    if bench.pair.draft.device.type != "cpu" or bench.pair.draft.dtype != torch.float32:
        raise Skipped("torch quantizes models on the CPU, in float32")
    try:
        drafts: dict[str, GPT] = {"float32": bench.pair.draft, "int8": int8(bench.pair.draft)}
    except ValueError as error:
        raise Skipped(str(error)) from error
    k, best = bench.best_k("rejection"), bench.found["target-only"]["speculative"]
    target = bench.models(best["path"]).target

    def way(draft: GPT) -> Way:
        return Way(
            target, lambda: ModelDrafter(draft), k, "rejection", 1.0, best["threads"], BACKENDS[best["path"]]
        )

    ways = {name: way(draft) for name, draft in drafts.items()}
    base = dict.fromkeys(ways, bench.alone("rejection", 1.0))
    batches = points_of(bench.prompts.reporting) * bench.plan.repeats
    turns = take_turns(base, ways, batches, bench.seed, bench.plan.new_tokens, bench.tell)
    rows: list[dict[str, Any]] = []
    for name, draft in drafts.items():
        middle, low, high = gain_of(turns[name])
        with using_threads(best["threads"]):
            seconds = measure_latency(draft, [1], repeats=bench.plan.latencies)[0].seconds
        rows.append(
            {
                "setting": setting_name("rejection", 1.0, k, f"draft {name}"),
                "name": name,
                "bytes": weight_bytes(draft),
                "acceptance": acceptance_of(turns[name]),
                "forward_seconds": seconds,
                "gain": middle,
                "low": low,
                "high": high,
            }
        )
    return {"k": k, "path_of_drafts": "torch", "rows": rows}
