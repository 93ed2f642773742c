"""Paths: speculative decoding on every path, at the same K, in turns."""

from __future__ import annotations

from typing import Any

from minispec.evidence.bench.interleaved import quartiles, round_robin
from minispec.evidence.bench.sections.section import Bench, Found, points_of, way_on
from minispec.evidence.bench.sections.widths import LAWS


def measure(bench: Bench) -> Found:
    """Decodes on every path, each with the number of threads that suits it, at the K that was chosen."""
    have, lack = bench.paths()
    rows: list[dict[str, Any]] = []
    for part, (verifier, temperature) in enumerate(LAWS):
        k = bench.best_k(verifier)
        threads = {path: _threads(bench, path) for path in have}
        ways = {path: way_on(have[path], k, verifier, temperature, threads[path]) for path in have}
        runs = round_robin(
            ways,
            points_of(bench.prompts.reporting) * bench.plan.repeats,
            bench.seed,
            bench.plan.new_tokens,
            lambda share, path, part=part: bench.tell((part + share) / 2, path),  # type: ignore[misc]
        )
        for path in have:
            pairs = zip(runs.get("torch", runs[path]), runs[path], strict=True)
            low, middle, high = quartiles(a.seconds_per_token / b.seconds_per_token for a, b in pairs)
            rows.append(
                {
                    "path": path,
                    "threads": threads[path],
                    "verifier": verifier,
                    "temperature": temperature,
                    "k": k,
                    "tokens_per_second": 1 / quartiles(run.seconds_per_token for run in runs[path])[1],
                    "over_readable": middle,
                    "over_readable_quartiles": [low, high],
                }
            )
    return {"rows": rows, "unavailable": lack}


def _threads(bench: Bench, path: str) -> int:
    """Returns the number of threads with which a path decoded fastest when it was tried."""
    rows = [row for row in bench.found["target-only"]["rows"] if row["path"] == path]
    return max(rows, key=lambda row: row["speculative"])["threads"]
