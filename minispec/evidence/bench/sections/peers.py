"""Transformers: our target-only and speculative decoding beside that library's, greedy, end to end.

Its best settings are chosen on the choosing half; then all four decode the reporting half in turns.
"""

from __future__ import annotations

from typing import Any

from minispec.evidence.bench.interleaved import Decodes, Run, quartiles, round_robin
from minispec.evidence.bench.machine import thread_counts
from minispec.evidence.bench.sections.section import Bench, Found, Skipped, points_of
from minispec.evidence.bench.transformers_speed import (
    ATTENTION,
    THRESHOLDS,
    TOKENS,
    Theirs,
    counting,
    load,
    logit_difference,
)
from minispec.evidence.proof.ties import first_flip

SAME = 1e-3  # logits of the same weights may differ by this
CHOOSING = 12  # prompts at most that choose among its many settings


def measure(bench: Bench) -> Found:
    """Finds the library's best settings, then compares.

    Raises:
        Skipped: if transformers is not installed, or cannot read the pair.
        ValueError: if it reads other models than ours from the same files.
    """
    try:
        models = {attention: load(bench.pair, attention) for attention in ATTENTION}
    except ValueError as error:
        raise Skipped(str(error)) from error
    difference = max(
        logit_difference(bench.pair, both, bench.prompts.choosing[:2]) for both in models.values()
    )
    if difference > SAME:
        raise ValueError(f"transformers' logits differ from ours by {difference:.2g} on the same weights")
    plain, rows = _best_plain(bench, models)
    assisted, more = _best_assisted(bench, models[plain["attention"]])
    target, draft = models[plain["attention"]]
    k = bench.best_k("greedy")
    ways: dict[str, Decodes] = {
        "ours alone": bench.alone(),
        "theirs plain": Theirs(target, threads=plain["threads"]),
        "ours speculative": bench.way(k, "greedy", 0.0),
        "theirs assisted": Theirs(
            target, draft, assisted["tokens"], assisted["threshold"], assisted["threads"]
        ),
    }
    batches = points_of(bench.prompts.reporting) * bench.plan.repeats
    runs = round_robin(
        ways, batches, bench.seed, bench.plan.new_tokens, lambda s, t: bench.tell(0.5 + s / 2, t)
    )
    from transformers import __version__

    return {
        "version": __version__,
        "logit_difference": difference,
        "plain": {"best": plain, "tried": rows},
        "assisted": {"best": assisted, "tried": more},
        "k": k,
        "tokens_per_second": {
            name: 1 / quartiles(run.seconds_per_token for run in of)[1] for name, of in runs.items()
        },
        "target_only_over_plain": _over(runs["theirs plain"], runs["ours alone"]),
        "speculative_over_assisted": _over(runs["theirs assisted"], runs["ours speculative"]),
        "assisted_over_plain": _over(runs["theirs plain"], runs["theirs assisted"]),
        "texts": _texts(bench, runs),
    }


def _best_plain(
    bench: Bench, models: dict[str, tuple[Any, Any]]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Returns with which attention and threads plain `generate` is fastest, and all that was tried."""
    ways = {
        (name, threads): Theirs(models[name][0], threads=threads)
        for name in models
        for threads in thread_counts()
    }
    runs = round_robin(ways, points_of(bench.prompts.choosing)[:CHOOSING], bench.seed, bench.plan.new_tokens)
    rows = [
        {"attention": name, "threads": threads, "tokens_per_second": _rate(runs[name, threads])}
        for name, threads in ways
    ]
    return max(rows, key=lambda row: row["tokens_per_second"]), rows


def _best_assisted(bench: Bench, models: tuple[Any, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Returns the settings with which assisted generation is fastest, and all that was tried."""
    target, draft = models
    ways = {
        (tokens, threshold, threads): Theirs(target, draft, tokens, threshold, threads)
        for tokens in TOKENS
        for threshold in THRESHOLDS
        for threads in thread_counts()
    }
    batches = points_of(bench.prompts.choosing)[:CHOOSING]
    runs = round_robin(
        ways, batches, bench.seed, bench.plan.new_tokens, lambda s, t: bench.tell(0.1 + 0.4 * s, t)
    )
    rows = []
    for (tokens, threshold, threads), way in ways.items():
        with counting(target) as widths:  # not timed: it shows that the settings do what they say
            way.decode(batches[0], bench.seed, bench.plan.new_tokens)
        rows.append(
            {
                "tokens": tokens,
                "threshold": threshold,
                "threads": threads,
                "tokens_per_second": _rate(runs[tokens, threshold, threads]),
                "target_calls": len(widths),
                "widest_call": max(widths[1:], default=0),
            }
        )
    return max(rows, key=lambda row: row["tokens_per_second"]), rows


def _texts(bench: Bench, runs: dict[str, list[Run]]) -> dict[str, Any]:
    """Returns how many greedy texts equal those of our target alone, and how many others are near ties."""
    found: dict[str, Any] = {}
    ours = [run.texts[0] for run in runs["ours alone"]]
    prompts = bench.prompts.reporting * bench.plan.repeats
    for name in ("ours speculative", "theirs plain", "theirs assisted"):
        pairs = list(zip(prompts, ours, [run.texts[0] for run in runs[name]], strict=True))
        flips = [first_flip(bench.pair.target, *texts) for texts in pairs]
        found[name] = {
            "texts": len(pairs),
            "equal": sum(flip is None for flip in flips),
            "near_ties": sum(flip is not None and flip.is_near_tie for flip in flips),
        }
    return found


def _over(slow: list[Run], fast: list[Run]) -> dict[str, Any]:
    """Returns how many times less time a token takes, the median of the turns, with quartiles."""
    ratios = (a.seconds_per_token / b.seconds_per_token for a, b in zip(slow, fast, strict=True))
    low, middle, high = quartiles(ratios)
    return {"ratio": middle, "quartiles": [low, high]}


def _rate(runs: list[Run]) -> float:
    return 1 / quartiles(run.seconds_per_token for run in runs)[1]
