"""What the results page and the how-to on real models make of a report of `docs/peers/real_models.py`.

A table has a column for each kind of prompt. The texts in results.toml name these functions in braces.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from book.results_tables import markdown, table, times
from minispec.cli import tables
from minispec.cli.tables import FORMATTER, grid, grouped
from minispec.evidence.bench.real import AGAIN, ALONE

Found = Mapping[str, Any]
Cell = Callable[[Found], str]
AUTO = "auto"


def by_kind(rows: Sequence[Found], fields: Mapping[str, str], cell: Cell) -> str:
    """Returns a table: its first columns are these fields of rows, with headings; then one for each kind."""
    kinds = [*dict.fromkeys(row["kind"] for row in rows)]
    lines: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows:
        place = tuple(f"{row[field]:g}" if field == "temperature" else row[field] for field in fields)
        lines.setdefault(place, {})[row["kind"]] = cell(row)
    cells = [(*place, *(found.get(kind, "–") for kind in kinds)) for place, found in lines.items()]
    return table((*fields.values(), *kinds), cells, len(fields))


def speed(row: Found) -> str:
    """Writes milliseconds a token, and the gain over the target alone; of that alone again, its spread."""
    if row["drafter"] == AGAIN:
        return "{:.3f}–{:.3f}".format(*row["speedup_quartiles"])
    milliseconds = f"{row['milliseconds_per_token']:.2f}"
    return milliseconds if row["drafter"] == ALONE else f"{milliseconds} {times(row['speedup'])}"


def details(row: Found) -> str:
    """Writes tokens a call, acceptance, and the gain by forward passes only."""
    return FORMATTER.vformat("{tokens_per_target_call:.2f} {acceptance:.0%} {limit!x}", (), row)


OURS = {"weights": "weights", "temperature": "T", "drafter": "drafter"}
THEIRS = {"project": "by", "weights": "weights", "drafter": "drafter"}


def ours(report: Found) -> str:
    """Returns how fast each drafter is on each kind of prompt."""
    return by_kind(report["real_models"], OURS, speed)


def why(report: Found) -> str:
    """Returns tokens a call, acceptance, and the gain by forward passes only of the same."""
    rows = [row for row in report["real_models"] if row["drafter"] not in (ALONE, AGAIN)]
    return by_kind(rows, OURS, details)


def others(report: Found) -> str:
    """Returns how fast others are, beside ours on the same prompts."""
    return by_kind(report["beside"], THEIRS, speed)


def automatic(report: Found) -> str:
    """Returns the automatic choice over the target alone, and over the best single drafter of a kind."""
    cells = []
    for kind, rows in grouped(report["real_models"], "kind").items():
        for row in rows:
            if row["drafter"] == AUTO:
                same = [one for one in rows if all(one[field] == row[field] for field in list(OURS)[:2])]
                single = [one for one in same if one["drafter"] not in (ALONE, AGAIN, AUTO)]
                best = max(single, key=lambda one: one["speedup"])
                again = next(one for one in same if one["drafter"] == AGAIN)
                gains = [times(row["speedup"]), tables.span(row["speedup_quartiles"]), speed(again)]
                cells.append(
                    [kind, row["weights"], f"{row['temperature']:g}", *gains]
                    + [best["drafter"], f"{row['speedup'] / best['speedup']:.2f}x"]
                )
    columns = ("prompts", "weights", "T", "gain", "quartiles", "alone twice", "best single", "over that")
    return table(columns, cells, 2)


def same_texts(report: Found) -> str:
    """Returns how many greedy texts of each project equal those of its target alone, and near ties."""
    parts = []
    for project, rows in grouped([*report["real_models"], *report["beside"]], "project").items():
        counted = [row for row in rows if "texts" in row and row["drafter"] != ALONE]
        texts, equal, ties = (sum(row[name] for row in counted) for name in ("texts", "equal", "near_ties"))
        if texts:
            parts.append(f"{project} {equal:,} of {texts:,}")
        if equal < texts:
            parts[-1] += f" ({ties} of the others part at a certified near tie)"
    return ", ".join(parts)


def checked(report: Found) -> str:
    """Returns what `check_engine` found in sampled texts of each drafter that was checked."""
    words = "{drafter} {verdict} on {samples} texts of {tokens} tokens, which would show {detects:.2f}"
    verdicts = {True: "passed", False: "failed"}
    parts = [{"drafter": AUTO, **one, "verdict": verdicts[one["passed"]]} for one in report["sampled"]]
    return "; ".join(words.format_map(part) for part in parts)


def long_prompts(report: Found) -> str:
    """Returns how long a long prompt takes."""
    return markdown(grid("prefill", report["prefill"], 2))


def decoding(report: Found) -> str:
    """Returns how long decoding takes beside its forwards."""
    return markdown(tables.decoding_table(report))
