"""Batch: the target alone and with its draft, for 1 to 64 texts side by side."""

from __future__ import annotations

from itertools import cycle, islice

from minispec.evidence.bench.interleaved import gain_of, quartiles, take_turns
from minispec.evidence.bench.sections.section import Bench, Found, setting_name

K = 4


def measure(bench: Bench) -> Found:
    """Measures every size of a batch; prompts are used again where a batch has more rows."""
    prompts = [*bench.prompts.reporting, *bench.prompts.choosing]
    base, way = bench.alone("rejection", 1.0), bench.way(K, "rejection", 1.0)
    points = []
    for done, rows in enumerate(bench.plan.rows):
        bench.tell(done / len(bench.plan.rows), f"{rows} rows")
        batch = list(islice(cycle(prompts), rows))
        batches = [batch] * bench.plan.batch_repeats
        turns = take_turns({rows: base}, {rows: way}, batches, bench.seed, bench.plan.new_tokens)[rows]
        middle, low, high = gain_of(turns)
        points.append(
            {
                "setting": setting_name("rejection", 1.0, K, f"{rows} rows"),
                "rows": rows,
                "target_only": 1 / quartiles(turn.target_only for turn in turns)[1],
                "speculative": 1 / quartiles(turn.speculative for turn in turns)[1],
                "gain": middle,
                "low": low,
                "high": high,
            }
        )
    return {"k": K, "points": points}
