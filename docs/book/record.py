"""Record: write what pages and notebooks quote, from reports of the bench.

    minispec bench --full --pair stories --output minispec/evidence/recorded/bench-stories.json
    python -m book.record minispec/evidence/recorded/bench-stories.json

The first measures; run it on a quiet machine. The second takes the points of latency, speed, drafts, batches
and memory out of that report, so that a figure in a notebook and a table on a page cannot disagree.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from minispec.evidence.bench.measurements import FOLDER, KINDS, Measurement, Point, save_measurement
from minispec.evidence.bench.sections.section import by_name

Report = Mapping[str, Any]
KEPT = ("latency", "speed", "drafts", "batches", "memory")  # the zoo has a command of its own


def load_report(path: str | Path) -> dict[str, Any]:
    """Reads a report of the bench.

    Raises:
        ValueError: if there is none, or it is no report; the message is one line.
    """
    try:
        report = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError:
        raise ValueError(f"there is no report {path}") from None
    except ValueError:
        raise ValueError(f"{path} is not JSON") from None
    if not isinstance(report, dict) or report.get("kind") != "bench":
        raise ValueError(f"{path} is no report of minispec bench")
    return report


def recorded_report(pair: str, folder: Path = FOLDER) -> dict[str, Any]:
    """Reads the report on a pair that comes with the package.

    Raises:
        ValueError: if there is none.
    """
    return load_report(folder / f"bench-{pair}.json")


SHOWN = (1, 2, 3, 5, 7, 9, 17)  # new tokens; more would not be read on a figure


def measurements_of(report: Report, kinds: Sequence[str] = KEPT) -> dict[str, Measurement]:
    """Returns what a full report says, kind by kind, as figures read it.

    Args:
        report: as `load_report` returns.
        kinds: which.

    Raises:
        ValueError: if a section is missing.
    """
    makers: dict[str, Callable[[Report], list[Point]]] = {
        "latency": _latency,
        "speed": _speed,
        "drafts": lambda report: _points(report, "drafts", "drafts"),
        "batches": lambda report: _points(report, "batch", "batches"),
        "memory": lambda report: _points(report, "memory", "memory"),
    }
    about = {"pair": report["pair"], "dtype": report["conditions"]["dtype"]}
    found = {}
    for kind in kinds:
        try:
            points = makers[kind](report)
        except KeyError as error:
            raise ValueError(f"the report does not say {error}: it takes a bench --full") from None
        conditions = about | _conditions(report, kind)
        found[kind] = Measurement(kind, report["date"], report["machine"], conditions, tuple(points))
    return found


def _latency(report: Report) -> list[Point]:
    """Latencies where speculative decoding is fastest."""
    best = report["sections"]["target-only"]["speculative"]
    rows = report["sections"]["latency"]["points"]
    return [
        _point("latency", row)
        for row in rows
        if (row["path"], row["threads"]) == (best["path"], best["threads"]) and row["width"] in SHOWN
    ]


def _speed(report: Report) -> list[Point]:
    """The sampled sweep over K, with what was predicted before."""
    promised = report["sections"]["prediction"]["settings"]
    points = []
    for row in report["sections"]["widths"]["sweep"]:
        if row["verifier"] == "rejection":
            said = by_name(promised, setting=row["setting"])
            low, high = row["speedup_quartiles"]
            values = {"alpha": row["acceptance"], "gain": row["speedup"], "low": low, "high": high}
            more = {"c": said["c"], "simple": said["simple"], "refined": said["speedup"]}
            points.append(_point("speed", row | values | more))
    return points


def _points(report: Report, section: str, kind: str) -> list[Point]:
    return [_point(kind, row) for row in report["sections"][section]["points"]]


def _point(kind: str, values: Mapping[str, Any]) -> Point:
    return KINDS[kind](**{field.name: values[field.name] for field in fields(KINDS[kind])})


def _conditions(report: Report, kind: str) -> dict[str, Any]:
    """Returns what else a reader needs to know of a kind."""
    if kind == "memory":
        return {}
    best = report["sections"]["target-only"]
    where = {"path": best["speculative"]["path"], "threads": best["speculative"]["threads"]}
    if kind == "latency":
        return where
    plan = report["conditions"]["plan"]
    base = f"{best['baseline']['path']}, {best['baseline']['threads']} threads"
    return where | {
        "target_only": base,
        "prompt_tokens": report["conditions"]["prompt_tokens"],
        "new_tokens": plan["new_tokens"],
        "verifier": "rejection",
        "seed": report["conditions"]["seed"],
    }


def main(arguments: Sequence[str]) -> int:
    """Writes a file for each kind, beside the report or into a folder; returns an exit status."""
    if not 1 <= len(arguments) <= 2 or arguments[0].startswith("-"):
        print("usage: python -m book.record REPORT.json [FOLDER]", file=sys.stderr)
        return 2
    try:
        found = measurements_of(load_report(arguments[0]))
        folder = Path(arguments[1]) if len(arguments) == 2 else FOLDER
        for kind, measurement in found.items():
            save_measurement(measurement, folder / f"{kind}.json")
    except ValueError as error:
        print(f"minispec: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
