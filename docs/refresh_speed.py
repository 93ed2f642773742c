"""Writes the numbers of the README's "How fast" from the reports of the bench that come with the package.

python docs/refresh_speed.py
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from book.reports import saved_reports
from book.results import fill
from book.results_tables import table

from minispec.cli.bench_tables import decoding, span
from minispec.io.files import write_whole

Report = Mapping[str, Any]
README = Path(__file__).resolve().parents[1] / "README.md"
HOW = """A speed-up is quoted over the fastest target-only that we have, on the {backend} backend: 32-token
prompts, 160 new tokens, end-of-sequence off, prefill on both sides, medians of interleaved runs. K is chosen
on other prompts than it is reported on."""
BEGIN, END = "<!-- python docs/refresh_speed.py writes this -->\n", "<!-- up to here -->\n"


def block(reports: Sequence[Report]) -> str:
    """Returns the tables of the README.

    Args:
        reports: of the bench, the shipped pair's first.
    """
    first = reports[0]
    machine, k = first["machine"], first["sections"]["target-only"]["k"]
    return "\n\n".join(
        [
            f"Tokens a second of the shipped pair, {machine['cores']} cores ({machine['processor']}, "
            f"{first['conditions']['dtype']}), K = {k}:",
            backends(first),
            fill(HOW.format(backend=first["sections"]["target-only"]["baseline"]["path"])),
            speed_ups(reports),
            over_transformers(first),
        ]
    )


def backends(report: Report) -> str:
    """Returns tokens per second on each backend, each side with the number of threads that is fastest."""
    rows = report["sections"]["target-only"]["rows"]

    def best(backend: str, verifier: str, side: str) -> float:
        return max(row[side] for row in rows if row["path"] == backend and row["verifier"] == verifier)

    cells = []
    for backend in dict.fromkeys(row["path"] for row in rows):
        line = [backend]
        for verifier in ("greedy", "rejection"):
            alone, drafted = (best(backend, verifier, side) for side in ("target_only", "speculative"))
            line += [f"{alone:,.0f}", f"{drafted:,.0f}", f"{drafted / alone:.2f}x"]
        cells.append(line)
    columns = (
        "backend",
        "greedy, target-only",
        "with the draft",
        "",
        "sampled, target-only",
        "with the draft",
        "",
    )
    return table(columns, cells)


def speed_ups(reports: Sequence[Report]) -> str:
    """Returns the reported speed-ups of every pair."""
    cells = [
        (
            report["pair"],
            decoding(s),
            str(s["k"]),
            f"{s['speedup']:.2f}x",
            span(*s["speedup_quartiles"]),
            f"{s['acceptance']:.1%}",
            f"{s['tokens_per_target_call']:.2f}",
            f"{s['target_only_tokens_per_second']:,.0f}",
            f"{s['tokens_per_second']:,.0f}",
        )
        for report in reports
        for s in report["settings"]
    ]
    columns = (
        "pair",
        "",
        "K",
        "speed-up",
        "quartiles",
        "acceptance",
        "tokens a call",
        "tokens/s alone",
        "tokens/s",
    )
    return table(columns, cells, 2)


def over_transformers(report: Report) -> str:
    """Returns a sentence on the same weights in transformers; "" where that was not measured."""
    found = report["sections"].get("transformers")
    if not found:
        return ""
    alone, drafted = found["target_only_over_plain"]["ratio"], found["speculative_over_assisted"]["ratio"]
    return fill(
        f"On the same weights our target-only decodes {alone:.1f} times as fast as plain `generate` of "
        f"Hugging Face transformers, and speculative decoding {drafted:.1f} times as fast as its assisted "
        "generation at its best setting."
    )


def replaced(readme: str, text: str) -> str:
    """Returns the README with other numbers.

    Raises:
        ValueError: if it has no such block.
    """
    if readme.count(BEGIN) != 1 or readme.count(END) != 1:
        raise ValueError("the README has no block for the numbers of the bench")
    head, _, rest = readme.partition(BEGIN)
    return head + BEGIN + "\n" + text + "\n\n" + END + rest.partition(END)[2]


if __name__ == "__main__":
    write_whole(README, replaced(README.read_text(encoding="utf-8"), block(saved_reports())))
