"""Compares what was predicted with what came out, over every setting that was measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from minispec.evidence.bench.sections.section import Found
from minispec.evidence.bench.sections.widths import LAWS
from minispec.evidence.theory.predict import errors


def compare(found: Mapping[str, Found]) -> Found | None:
    """Holds what was predicted against what came out, over all settings that were measured.

    Args:
        found: by section.

    Returns:
        A row per measurement, and the errors of both predictions; None where nothing can be compared.
    """
    promised = {p["setting"]: p for p in found.get("prediction", {}).get("settings", [])}
    rows = [
        {
            "section": section,
            "setting": name,
            "prompts": prompts,
            "predicted": promised[name]["speedup"],
            "simple": promised[name]["simple"],
            "measured": gain,
            "low": low,
            "high": high,
            "error": promised[name]["speedup"] / gain - 1,
            "predicted_tokens_per_target_call": promised[name]["tokens_per_target_call"],
            "tokens_per_target_call": calls,
        }
        for section, prompts, name, gain, low, high, calls in _measured(found)
        if name in promised
    ]
    if not rows:
        return None
    gains = [row["measured"] for row in rows]
    calls = [row for row in rows if row["tokens_per_target_call"] is not None]
    off = {name: errors([row[name] for row in rows], gains) for name in ("predicted", "simple")}
    return {
        "rows": rows,
        "median_error": off["predicted"].median,
        "worst_error": off["predicted"].worst,
        "simple_median_error": off["simple"].median,
        "simple_worst_error": off["simple"].worst,
        "tokens_per_target_call_median_error": errors(
            [row["predicted_tokens_per_target_call"] for row in calls],
            [row["tokens_per_target_call"] for row in calls],
        ).median
        if calls
        else None,
        "choices": [*_best_widths(found), *_best_draft(found), *_losing_batches(found)],
    }


def _measured(
    found: Mapping[str, Found],
) -> Iterator[tuple[str, str, str, float, float, float, float | None]]:
    """Yields section, half, setting, speed-up, its quartiles, and tokens per target call, if counted."""
    for section, key in (("widths", "sweep"), ("widths", "settings"), ("temperature", "points")):
        for row in found.get(section, {}).get(key, []):
            low, high = row["speedup_quartiles"]
            half = "choosing" if key == "sweep" else "reporting"
            yield section, half, row["setting"], row["speedup"], low, high, row["tokens_per_target_call"]
    for section in ("drafts", "batch"):
        for row in found.get(section, {}).get("points", []):
            yield section, "reporting", row["setting"], row["gain"], row["low"], row["high"], None


def _best_widths(found: Mapping[str, Found]) -> Iterator[Found]:
    """Yields the K that was predicted to be best, and the one that was, for both verifiers."""
    promised = found["prediction"]["settings"]
    for verifier, _ in LAWS:
        rows = [row for row in found.get("widths", {}).get("sweep", []) if row["verifier"] == verifier]
        said = {p["k"]: p["speedup"] for p in promised if p["setting"] in {row["setting"] for row in rows}}
        if rows and said:
            gains = {row["k"]: row["speedup"] for row in rows}
            yield _choice(f"best K, {verifier}", said, gains)


def _best_draft(found: Mapping[str, Found]) -> Iterator[Found]:
    """Yields the draft that was predicted to be best, each at its best K, and the one that was."""
    rows, said = found.get("drafts", {}).get("points", []), dict[str, float]()
    for prediction in found["prediction"]["settings"]:
        if prediction["section"] == "drafts":
            name = prediction["setting"].partition(", draft ")[2]
            said[name] = max(said.get(name, 0.0), prediction["speedup"])
    if rows and said:
        yield _choice("best draft", said, {row["name"]: row["gain"] for row in rows})


def _losing_batches(found: Mapping[str, Found]) -> Iterator[Found]:
    """Yields the sizes of a batch that were predicted to lose, and those that did."""
    rows = found.get("batch", {}).get("points", [])
    said = {p["setting"]: p["speedup"] for p in found["prediction"]["settings"] if p["section"] == "batch"}
    if rows and said:
        feared = [row["rows"] for row in rows if said.get(row["setting"], 1.0) < 1]
        lost = [row["rows"] for row in rows if row["gain"] < 1]
        yield {"what": "batches that lose", "predicted": _sizes(feared), "measured": _sizes(lost)}


def _sizes(rows: list[int]) -> str:
    return ", ".join(map(str, rows)) or "none"


def _choice(what: str, said: Mapping[Any, float], gains: Mapping[Any, float]) -> Found:
    """Returns what was predicted to be best, what was, and how much of the best speed-up the former has."""
    guess, best = max(said, key=said.__getitem__), max(gains, key=gains.__getitem__)
    return {"what": what, "predicted": guess, "measured": best, "of_the_best": gains[guess] / gains[best]}
