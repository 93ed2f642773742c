"""Target-only: every path, with one thread and with all; the fastest is what all speed-ups are over.

Speculative decoding is tried on the same combinations, so that each side of a speed-up runs where it is
fastest. Both choices are made on the prompts that choose K.
"""

from __future__ import annotations

from typing import Any

from minispec.evidence.bench.interleaved import Way, quartiles, round_robin
from minispec.evidence.bench.machine import thread_counts
from minispec.evidence.bench.sections.section import Bench, Found, way_on
from minispec.native.backend import BACKENDS

K = 5  # at which speculative decoding is tried
LAWS = (("greedy", 0.0), ("rejection", 1.0))


def measure(bench: Bench) -> Found:
    """Decodes with every path and number of threads, in turns."""
    paths, lack = bench.paths()
    combinations = [(path, threads) for path in paths for threads in thread_counts(path)]
    ways: dict[Any, Way] = {}
    for verifier, temperature in LAWS:
        for path, threads in combinations:
            ways[path, threads, verifier, "alone"] = Way(
                paths[path].target, None, 0, verifier, temperature, threads, BACKENDS[path]
            )
            ways[path, threads, verifier, "speculative"] = way_on(
                paths[path], K, verifier, temperature, threads
            )
    batches = [[prompt] for prompt in bench.prompts.choosing]
    runs = round_robin(ways, batches, bench.seed, bench.plan.new_tokens, bench.tell)
    rate = {key: 1 / quartiles(run.seconds_per_token for run in found)[1] for key, found in runs.items()}
    rows = [
        {
            "path": path,
            "threads": threads,
            "verifier": verifier,
            "temperature": temperature,
            "target_only": rate[path, threads, verifier, "alone"],
            "speculative": rate[path, threads, verifier, "speculative"],
        }
        for verifier, temperature in LAWS
        for path, threads in combinations
    ]
    return {
        "k": K,
        "rows": rows,  # tokens per second
        "baseline": fastest(rows, "target_only"),
        "speculative": fastest(rows, "speculative"),
        "unavailable": lack,
    }


def fastest(rows: list[dict[str, Any]], side: str) -> dict[str, Any]:
    """Returns the path and number of threads whose tokens take least time, over all laws together."""
    seconds: dict[tuple[str, int], float] = {}
    for row in rows:
        key = row["path"], row["threads"]
        seconds[key] = seconds.get(key, 0.0) + 1 / row[side]
    path, threads = min(seconds, key=seconds.__getitem__)
    return {"path": path, "threads": threads}
