"""Temperature: the sampled speed-up from temperature 0 up, each at the K that suits it."""

from __future__ import annotations

from minispec.evidence.bench.interleaved import Setting
from minispec.evidence.bench.sections.section import Bench, Found, setting_name
from minispec.evidence.bench.sections.widths import choose_and_report


def measure(bench: Bench) -> Found:
    """Measures the rejection verifier at several temperatures."""
    hot = bench.plan.temperatures
    base = {t: bench.alone("rejection", t) for t in hot}
    ways = {t: {k: bench.way(k, "rejection", t) for k in bench.plan.few_widths} for t in hot}
    _, best, turns = choose_and_report(bench, base, ways)
    return {
        "points": [
            {"setting": setting_name("rejection", t, best[t])}
            | Setting(bench.pair.name, "rejection", t, best[t], turns[t]).to_json()
            for t in hot
        ]
    }
