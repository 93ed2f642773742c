"""Bookkeeping: what a round takes beside K draft steps and one target call, 1 − (K·t_draft + t(K+1)) / round.

t_draft is a whole draft step: forward, warp, draw. t(n) is a target forward over n tokens with its logits. A
round is all of it: drafting, the forward, the rule, commit, rollback, catching up after full acceptance, and
the records. The parts are measured alone right before and right after each run of the loop.
"""

from __future__ import annotations

from statistics import fmean, median
from typing import Any

from minispec.core.loop import speculate
from minispec.evidence.bench.costs import call, draft_steps, in_turns, laps
from minispec.evidence.bench.interleaved import quartiles
from minispec.evidence.bench.machine import using_threads
from minispec.evidence.bench.sections.section import Bench, Found
from minispec.evidence.bench.sections.widths import LAWS
from minispec.native.backend import Models

CACHED = 112  # the middle of a text of 32 + 160 tokens


def measure(bench: Bench) -> Found:
    """Measures rounds that draft all of K, with both verifiers."""
    best = bench.found["target-only"]["speculative"]
    models, rows = bench.models(best["path"]), []
    with using_threads(best["threads"]):
        for part, (verifier, temperature) in enumerate(LAWS):
            k, shares = bench.best_k(verifier), []
            for number, prompt in enumerate(bench.prompts.reporting):
                bench.tell((part + number / len(bench.prompts.reporting)) / 2, verifier)
                shares.append(_one(models, prompt, k, verifier, temperature, bench))
            rows.append({"verifier": verifier, "temperature": temperature, "k": k} | _sum(shares))
    return {**best, "cached_tokens": CACHED, "rows": rows}


def _one(
    models: Models, prompt: list[int], k: int, verifier: str, temperature: float, bench: Bench
) -> dict[str, float]:
    """Returns seconds of K draft steps, of a target call, and of a round: parts, the loop, parts again."""
    backend, repeats = models.backend, bench.plan.latencies
    warp = backend.warp(temperature)
    cached = min(CACHED, min(models.target.max_length, models.draft.max_length) - k - 1)
    tasks = {
        "draft": draft_steps(models.draft, 1, cached, k, warp, backend),
        "target": call(models.target, 1, cached, k + 1),
    }
    before = in_turns(tasks, repeats)
    rounds = speculate(
        models.target,
        backend.drafter(models.draft),
        [prompt],
        k=k,
        verifier=backend.rules[verifier],
        max_new_tokens=bench.plan.new_tokens,
        warp=warp,
        rng=backend.rng(bench.seed),
    )
    whole = [seconds for seconds, r in laps(rounds) if r.draft.k == k]
    after = in_turns(tasks, repeats)
    parts = {name: (before[name] + after[name]) / 2 for name in tasks}
    return parts | {"round": median(whole) if whole else sum(parts.values())}


def _sum(shares: list[dict[str, float]]) -> dict[str, Any]:
    left = [1 - (one["draft"] + one["target"]) / one["round"] for one in shares]
    low, middle, high = quartiles(left)
    means = {f"{name}_seconds": fmean(one[name] for one in shares) for name in shares[0]}
    return means | {"share": middle, "quartiles": [low, high]}
