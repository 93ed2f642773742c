"""Reports of the bench that come with the package, and the saved measurements that are taken out of one.

    python docs/peers/transformers.py --full --output minispec/evidence/recorded/bench-stories.json
    python docs/peers/llama_cpp.py --output minispec/evidence/recorded/bench-real-sizes.json
    cd docs && python -m book measurements ../minispec/evidence/recorded/bench-stories.json
    minispec bench --section drafters --pair stories --output minispec/evidence/recorded/drafters-stories.json
    python docs/peers/real_models.py FILE.gguf minispec/evidence/recorded/real-models.json
    python docs/peers/real_models.py FILE.gguf minispec/evidence/recorded/real-heads.json --dtype bfloat16 \
        --kind chat --kind story

All but the third measure; run them on a quiet machine. The last needs a drafter that was trained for it.
The third writes the points of latency, speed, drafts and batches that pages and notebooks quote, so that a
figure in a notebook and a table on a page cannot disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from minispec.evidence.bench.drafters import PAIRS
from minispec.evidence.bench.measurements import FOLDER, KINDS, Measurement, save_measurement
from minispec.io.files import read_json

Report = Mapping[str, Any]
SAVED = ("stories", "english", "real-sizes")  # bench-NAME.json each; the shipped pair first
SHOWN = (1, 2, 3, 5, 7, 9, 17)  # new tokens; more would not be read on a figure


def load_report(path: str | Path) -> dict[str, Any]:
    """Reads a report of the bench.

    Raises:
        ValueError: if there is none, or it is no report; the message is one line.
    """
    report = read_json(Path(path))
    if report.get("kind") != "bench":
        raise ValueError(f"{path} is no report of minispec bench")
    return report


def saved_reports(names: Sequence[str] = SAVED) -> list[dict[str, Any]]:
    """Returns the reports that come with the package: on pairs, and on forwards at real sizes.

    Raises:
        ValueError: if one is missing.
    """
    return [load_report(FOLDER / f"bench-{name}.json") for name in names]


def saved_drafters(folder: Path = FOLDER) -> list[dict[str, Any]]:
    """Returns the reports on ways to draft that were recorded, one a pair."""
    paths = [folder / f"drafters-{name}.json" for name in PAIRS]
    return [load_report(path) for path in paths if path.is_file()]


def saved_real(name: str = "real-models", folder: Path = FOLDER) -> list[dict[str, Any]]:
    """Returns a report on a checkpoint that people use, if it was recorded."""
    path = folder / f"{name}.json"
    return [load_report(path)] if path.is_file() else []


def measurement_of(report: Report, kind: str) -> Measurement:
    """Returns what a full report says of one kind of measurement, as figures read it.

    Args:
        report: as `load_report` returns.
        kind: a key of `MAKERS`.

    Raises:
        ValueError: if a section is missing.
    """
    try:
        names = [field.name for field in fields(KINDS[kind])]
        rows = MAKERS[kind](report["sections"])
        points = tuple(KINDS[kind](**{name: row[name] for name in names}) for row in rows)
    except KeyError as error:
        raise ValueError(f"the report does not say {error}: it takes a bench --full") from None
    own = report["conditions"]
    best = report["sections"]["target-only"]
    conditions = {"pair": report["pair"], "dtype": own["dtype"]} | best["speculative"]
    if kind != "latency":
        conditions |= {
            "target_only": f"{best['baseline']['path']}, {best['baseline']['threads']} threads",
            "prompt_tokens": own["prompt_tokens"],
            "new_tokens": own["plan"]["new_tokens"],
            "verifier": "rejection",
            "seed": own["seed"],
        }
    return Measurement(kind, report["date"], report["machine"], conditions, points)


def _latency(sections: Report) -> list[Report]:
    """Latencies where speculative decoding is fastest."""
    best = sections["target-only"]["speculative"].items()
    return [row for row in sections["latency"]["points"] if best <= row.items() and row["width"] in SHOWN]


def _speed(sections: Report) -> list[Report]:
    """The sampled sweep over K, with what was predicted before."""
    predicted = {row["setting"]: row for row in sections["prediction"]["settings"]}
    rows = []
    for row in sections["widths"]["sweep"]:
        if row["verifier"] == "rejection":
            said = predicted[row["setting"]]
            low, high = row["speedup_quartiles"]
            measured = {"alpha": row["acceptance"], "gain": row["speedup"], "low": low, "high": high}
            rows.append(row | said | measured | {"refined": said["speedup"]})
    return rows


MAKERS: dict[str, Callable[[Report], list[Report]]] = {
    "latency": _latency,
    "speed": _speed,
    "drafts": lambda sections: sections["drafts"]["points"],
    "batches": lambda sections: sections["batch"]["points"],
}


def save_measurements(path: Path, folder: Path = FOLDER) -> None:
    """Writes a file for each kind of measurement in a report; ValueError if it lacks one: then none."""
    report = load_report(path)
    for measurement in [measurement_of(report, kind) for kind in MAKERS]:
        save_measurement(measurement, folder / f"{measurement.kind}.json")
