"""Memory: the bytes of weights and caches. This needs no clock."""

from __future__ import annotations

from dataclasses import asdict

from minispec.evidence.bench.measure import measure_memory
from minispec.evidence.bench.sections.section import Bench, Found


def measure(bench: Bench) -> Found:
    """Counts the weights and one row's cache of both models; nothing else grows."""
    return {"points": [asdict(part) for part in measure_memory(bench.pair)]}
