"""Auto: a drafter that chooses K while it decodes, beside the best fixed K, in turns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from minispec.drafters.adaptive import MOST, AdaptiveDrafter
from minispec.evidence.bench.interleaved import Way, quartiles, round_robin
from minispec.evidence.bench.sections.cost_requests import known
from minispec.evidence.bench.sections.section import Bench, Found, points_of
from minispec.evidence.bench.sections.widths import LAWS

TURNS = 4  # times what the plan says: the two are so close that it takes more to tell


def measure(bench: Bench) -> Found:
    """Measures both verifiers; the best fixed K was chosen on other prompts by the section `widths`."""
    rows: list[dict[str, Any]] = []
    for part, (verifier, temperature) in enumerate(LAWS):
        k = bench.best_k(verifier)
        fixed = bench.way(k, verifier, temperature)
        runs = round_robin(
            {"fixed": fixed, "auto": automatic(bench, fixed)},
            points_of(bench.prompts.reporting) * bench.plan.repeats * TURNS,
            bench.seed,
            bench.plan.new_tokens,
            lambda share, what, part=part: bench.tell((part + share) / 2, what),  # type: ignore[misc]
        )
        pairs = zip(runs["fixed"], runs["auto"], strict=True)
        low, middle, high = quartiles(a.seconds_per_token / b.seconds_per_token for a, b in pairs)
        widths = [width for run in runs["auto"] for width in run.widths]
        rows.append(
            {
                "verifier": verifier,
                "temperature": temperature,
                "k": k,
                "over_best_fixed": middle,
                "quartiles": [low, high],
                "mean_width": sum(widths) / len(widths),
                "tokens_per_second": 1 / quartiles(run.seconds_per_token for run in runs["auto"])[1],
            }
        )
    return {"rows": rows, "worst": min(row["over_best_fixed"] for row in rows)}


def automatic(bench: Bench, fixed: Way) -> Way:
    """Returns the same way of decoding with a K that chooses itself; it keeps what it learns."""
    costs = known(bench, fixed.verifier, fixed.temperature > 0)
    draft = bench.models(bench.found["target-only"]["speculative"]["path"]).draft
    drafter = AdaptiveDrafter(fixed.backend.drafter(draft), costs)
    return replace(fixed, k=min(MOST, costs.most), drafter=lambda: drafter)
