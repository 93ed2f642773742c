"""Latency: how long a forward over n new tokens takes, on every path, for both models: t(n)."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from minispec.evidence.bench.machine import thread_counts, using_threads
from minispec.evidence.bench.measure import measure_latency
from minispec.evidence.bench.sections.section import Bench, Found

WIDTHS = tuple(range(1, 18))  # new tokens of a forward
CACHED = 64


def measure(bench: Bench) -> Found:
    """Times forwards of target and draft for n = 1 … 17, on every path and number of threads."""
    paths, lack = bench.paths()
    tasks = [(path, threads) for path in paths for threads in thread_counts(path)]
    points: list[dict[str, Any]] = []
    for done, (path, threads) in enumerate(tasks):
        bench.tell(done / len(tasks), f"{path}, {threads} threads")
        about = {"path": path, "threads": threads}
        with using_threads(threads):
            for name, model in (("target", paths[path].target), ("draft", paths[path].draft)):
                room = model.max_length - CACHED
                widths = [width for width in WIDTHS if width <= room]
                times = measure_latency(model, widths, CACHED, bench.plan.latencies, name)
                points += [about | asdict(point) for point in times]
    return {"cached_tokens": CACHED, "points": points, "unavailable": lack}
