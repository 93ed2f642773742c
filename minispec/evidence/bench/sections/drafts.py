"""Drafts: one target, and drafts from one that guesses at random to the target itself.

The sizes in between are trained for this target (see `draft_sizes`). Each draft gets the K that suits it.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from minispec.core.model import GPT
from minispec.evidence.bench.draft_sizes import find_drafts
from minispec.evidence.bench.interleaved import acceptance_of, gain_of
from minispec.evidence.bench.machine import using_threads
from minispec.evidence.bench.measure import cost_ratio, measure_latency
from minispec.evidence.bench.sections.section import Bench, Found, setting_name
from minispec.evidence.bench.sections.widths import choose_and_report
from minispec.io.checkpoint import Pair
from minispec.train.initialise import draw_weights


def measure(bench: Bench) -> Found:
    """Measures every draft at several K on the choosing half, and at its best K on the other."""
    drafts = drafts_of(bench.pair)
    base = {name: bench.alone("rejection", 1.0) for name in drafts}
    ways = {
        name: {k: bench.way(k, "rejection", 1.0, draft) for k in bench.plan.few_widths}
        for name, draft in drafts.items()
    }
    _, best, turns = choose_and_report(bench, base, ways)
    points = []
    for name, draft in drafts.items():
        middle, low, high = gain_of(turns[name])
        setting = setting_name("rejection", 1.0, best[name], f"draft {name}")
        points.append(
            {
                "setting": setting,
                "name": name,
                "parameters": draft.parameters_count,
                "alpha": acceptance_of(turns[name]) or 0.0,
                "c": promised_cost(bench, setting) or draft_cost(bench, draft),
                "k": best[name],
                "gain": middle,
                "low": low,
                "high": high,
            }
        )
    return {"points": sorted(points, key=lambda point: point["parameters"])}


def drafts_of(pair: Pair) -> dict[str, GPT]:
    """Returns the drafts of a target that are there, from too small to the target itself.

    Returns:
        `untrained`, which guesses at random; the trained sizes that are found; `the pair's`; `the target`,
        always right, and as slow as itself.
    """
    config = replace(pair.draft.config, layers=1, width=8, heads=1, kv_heads=1, ffn=8, tied=True)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        untrained = (
            draw_weights(GPT(config)).to(pair.target.device, pair.target.dtype).requires_grad_(False).eval()
        )
    ours = {"untrained": untrained, **find_drafts(pair), "the pair's": pair.draft}
    order = sorted(ours, key=lambda name: ours[name].parameters_count)
    return {name: ours[name] for name in order} | {"the target": pair.target}


def promised_cost(bench: Bench, setting: str) -> float | None:
    """Returns c as the prediction has measured it, of whole draft steps; None if nothing was predicted."""
    settings = bench.found.get("prediction", {}).get("settings", [])
    return next((promise["c"] for promise in settings if promise["setting"] == setting), None)


def draft_cost(bench: Bench, draft: GPT) -> float:
    """Returns c: a draft forward over a target forward, on the path on which both run."""
    best = bench.found["target-only"]["speculative"]
    models = bench.models(best["path"], draft)
    with using_threads(best["threads"]):
        target, small = (
            measure_latency(m, [1], repeats=bench.plan.latencies) for m in (models.target, models.draft)
        )
    return cost_ratio(target, small)
