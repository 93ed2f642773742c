"""What `minispec bench` prints for people: a table for each question that is most asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich import box
from rich.table import Table

SPEED = ("verifier", "K", "speed-up", "quartiles", "accepted", "per call", "alone/s", "draft/s")


def tables(report: dict[str, Any]) -> Iterator[Table]:
    """Yields a table for each section that people ask for first, and the reach at the end.

    Args:
        report: what `run_bench` returns.
    """
    found = report["sections"]
    if "target-only" in found:
        yield _target_only(found["target-only"])
    if "widths" in found:
        yield _speeds("Every K, on the prompts that choose it", found["widths"]["sweep"])
        yield _speeds("The best K, on other prompts", found["widths"]["settings"])
    if found.get("prediction", {}).get("compared"):
        yield _predictions(found["prediction"]["compared"])
    yield _reach(report["reach"])


def table(title: str, columns: Sequence[str], left: int = 1) -> Table:
    """Returns an empty table whose first columns stand left and the others right."""
    made = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for place, column in enumerate(columns):
        made.add_column(column, justify="left" if place < left else "right")
    return made


def _target_only(found: dict[str, Any]) -> Table:
    best = found["baseline"]
    where = f"{best['path']}, {best['threads']} threads"
    title = f"Tokens per second on every path; speed-ups are over the fastest: {where}"
    made = table(title, ("path", "threads", "law", "alone", f"with a draft, K = {found['k']}"), left=3)
    for row in found["rows"]:
        cells = row["path"], str(row["threads"]), "greedy" if row["temperature"] == 0 else "sampled"
        made.add_row(*cells, f"{row['target_only']:.0f}", f"{row['speculative']:.0f}")
    return made


def _speeds(title: str, rows: list[dict[str, Any]]) -> Table:
    made = table(title, SPEED)
    for s in rows:
        low, high = s["speedup_quartiles"]
        made.add_row(
            s["verifier"],
            str(s["k"]),
            f"{s['speedup']:.2f}x",
            f"{low:.2f}–{high:.2f}",
            f"{s['acceptance']:.1%}" if s["acceptance"] is not None else "none",
            f"{s['tokens_per_target_call']:.2f}",
            f"{s['target_only_tokens_per_second']:.0f}",
            f"{s['tokens_per_second']:.0f}",
        )
    return made


def _predictions(found: dict[str, Any]) -> Table:
    title = "Predicted before the run; theorem 3.8 takes verifying to cost one step"
    made = table(title, ("off by", "median", "worst"))
    for name, key in (("with measured times", ""), ("theorem 3.8", "simple_")):
        made.add_row(name, f"{found[key + 'median_error']:.0%}", f"{found[key + 'worst_error']:.0%}")
    return made


def _reach(rows: list[dict[str, Any]]) -> Table:
    made = table("Reach", ("what", "measured", "at least", "aim", ""))
    for row in rows:
        if row["value"] is not None:
            least = "reported" if row["at_least"] is None else f"{row['at_least']:g}"
            mark = {True: "✓", False: "✗", None: ""}[row["reached"]]
            made.add_row(row["what"], f"{row['value']:.3g}", least, f"{row['aim']:g}", mark)
    return made
