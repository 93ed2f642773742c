"""Runs sections one after the other; a bench that was cut goes on where it stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from minispec.evidence.bench.machine import describe_machine
from minispec.evidence.bench.sections.compare import compare
from minispec.evidence.bench.sections.plan import CORE, Plan
from minispec.evidence.bench.sections.reach import reach
from minispec.evidence.bench.sections.registry import SECTIONS, choose
from minispec.evidence.bench.sections.section import Bench, Found, Section, Skipped, group
from minispec.evidence.bench.settings import PROMPT_TOKENS
from minispec.io.checkpoint import Pair, weights_hash
from minispec.io.files import check_writable, write_whole

FORMAT = 1
Tell = Callable[[float, str], None]


def run_bench(
    pair: Pair,
    *,
    sections: Sequence[str] = (),
    plan: Plan = CORE,
    seed: int = 0,
    output: Path | None = None,
    tell: Tell = lambda share, text: None,
) -> dict[str, Any]:
    """Measures a pair.

    Args:
        pair: the models, with prompts in their `pair.json`.
        sections: as `choose` returns; none: the core.
        plan: how much to measure.
        seed: of the sampling.
        output: a file for the report. While it is not complete, what is finished lies beside it, in a file
            of the same name with `.part` behind; a run that finds one of the same bench goes on with it.
        tell: told how much of the bench is done, from 0 to 1, and what comes next.

    Returns:
        The report, ready for JSON: `machine`, `settings`, `sections`, `reach`, and how it was measured.

    Raises:
        ValueError: if the pair has no prompts, or the file cannot be written.
    """
    selected = tuple(sections) or choose()
    if output is not None:
        check_writable(output)
    report = begin(pair, plan, seed, selected)
    part = output.with_name(output.name + ".part") if output is not None else None
    report |= taken_up(part, report)
    bench = Bench(pair, plan, group(pair, plan), seed, selected, report["sections"])
    todo = [s for s in SECTIONS if s.name in selected]
    weights = sum(s.weight for s in todo)
    done = 0.0
    for section in todo:
        bench.tell = _within(tell, section, done / weights, section.weight / weights)
        if section.name not in report["sections"] and section.name not in report["skipped"]:
            bench.tell(0.0, "")
            _one(section, bench, report)
            finish(report, pair.name)
            if part is not None:
                write_whole(part, _text(report))
        done += section.weight
    finish(report, pair.name)
    if output is not None and part is not None:
        write_whole(output, _text(report))
        part.unlink(missing_ok=True)
    return report


def begin(pair: Pair, plan: Plan, seed: int, selected: Sequence[str]) -> dict[str, Any]:
    """Returns a report in which nothing is measured yet; it says what a reader needs to compare figures."""
    begun = {
        "format": FORMAT,
        "kind": "bench",
        "date": date.today().isoformat(),
        "pair": pair.name,
        "machine": describe_machine(),
        "conditions": {
            "sections": list(selected),
            "plan": asdict(plan),
            "seed": seed,
            "prompt_tokens": PROMPT_TOKENS,
            "dtype": str(pair.target.dtype).removeprefix("torch."),
            "device": pair.target.device.type,
            "end_of_sequence": "off",
            "prefill": "included on both sides",
            "target_only": "the fastest path and number of threads of the section target-only",
            "target": weights_hash(pair.target),
            "draft": weights_hash(pair.draft),
        },
        "settings": [],
        "sections": {},
        "skipped": {},
        "seconds": {},
        "reach": [],
    }
    return _plain(begun)


def taken_up(part: Path | None, report: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what a cut run of the same bench, on the same machine, has left; {} if there is none."""
    if part is None or not part.is_file():
        return {}
    try:
        left = json.loads(part.read_text(encoding="utf-8"))
        same = all(left[key] == report[key] for key in ("format", "pair", "machine", "conditions"))
        return {key: left[key] for key in ("sections", "skipped", "seconds", "date")} if same else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def finish(report: dict[str, Any], pair: str) -> None:
    """Fills in what is made of the sections: the settings that are reported, errors, and the reach."""
    found: dict[str, Found] = report["sections"]
    report["settings"] = found.get("widths", {}).get("settings", [])
    if "prediction" in found:
        found["prediction"]["compared"] = compare(found) or {}
    report["reach"] = reach(pair, found, report["skipped"])


def _one(section: Section, bench: Bench, report: dict[str, Any]) -> None:
    started = perf_counter()
    missing = [name for name in section.needs if name not in bench.found]
    if missing:
        why = report["skipped"].get(missing[0], "it was not run")
        report["skipped"][section.name] = f"it needs the section {missing[0]}: {why}"
        return
    try:
        with torch.random.fork_rng(devices=[]):
            report["sections"][section.name] = _plain(section.run(bench))
    except Skipped as reason:
        report["skipped"][section.name] = str(reason)
    report["seconds"][section.name] = round(perf_counter() - started, 1)


def _within(tell: Tell, section: Section, start: float, share: float) -> Tell:
    """Returns what reports a section's progress as the whole bench's."""
    return lambda done, text: tell(start + share * done, f"{section.name}: {text or section.title}")


def _plain(value: Any) -> Any:
    """Returns a value as JSON gives it back: a run that was taken up must see what one in one go sees."""
    return json.loads(json.dumps(value))


def _text(report: Mapping[str, Any]) -> str:
    return json.dumps(report, indent=1, ensure_ascii=False) + "\n"
