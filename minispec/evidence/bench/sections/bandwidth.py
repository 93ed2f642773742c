"""Bandwidth: the measured speed of reading weights, and the share that target-only reaches, by model size."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from minispec.core.model import GPT
from minispec.evidence.bench.bandwidth import random_model, read_bandwidth, read_bytes, seconds_per_step
from minispec.evidence.bench.machine import thread_counts
from minispec.evidence.bench.sections.section import Bench, Found
from minispec.native.backend import BACKENDS

STEPS = 40


def measure(bench: Bench) -> Found:
    """Measures the bandwidth, then target-only loops of several models with random weights."""
    device, dtype = bench.pair.target.device, bench.pair.target.dtype
    bench.tell(0.0, "reading a large matrix")
    reading = read_bandwidth(thread_counts(), bench.plan.matrix_bytes, device=str(device))
    points: list[dict[str, Any]] = []
    for done, parameters in enumerate(bench.plan.parameters):
        bench.tell(0.1 + 0.9 * done / len(bench.plan.parameters), f"{parameters / 1e6:g}M parameters")
        points += _loops(bench, random_model(parameters, device, dtype), reading.bytes_per_second)
    return {"reading": asdict(reading), "steps": STEPS, "points": points}


def _loops(bench: Bench, model: GPT, bandwidth: float) -> list[dict[str, Any]]:
    """Measures one model on every backend, with every number of threads."""
    points = []
    for path in bench.plan.paths:
        try:
            target = BACKENDS[path].model(model)
        except ValueError:  # another section says why it cannot be had here
            continue
        for threads in thread_counts(path):
            seconds = seconds_per_step(target, STEPS, threads, bench.seed)
            least = read_bytes(model) / bandwidth
            points.append(
                {
                    "parameters": model.parameters_count,
                    "bytes": read_bytes(model),
                    "path": path,
                    "threads": threads,
                    "seconds": seconds,
                    "share": least / seconds,
                }
            )
    return points
