"""All sections in the order in which they run; a bench that was cut goes on where it stopped."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import date
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from minispec.core.batch import Prompts
from minispec.evidence.bench import batches, drafters, prediction, real, real_sizes, sections
from minispec.evidence.bench.machine import describe_machine
from minispec.evidence.bench.measure import PROMPT_TOKENS
from minispec.evidence.bench.section import CORE, BenchRun, Plan, Results, Section, group
from minispec.io.checkpoint import Pair, json_hash, weights_hash
from minispec.io.files import check_writable, destination, read_json, write_json
from minispec.io.tokenizer import Tokenizer

FORMAT = 1
TARGET_ONLY = ("target-only",)
CHOSEN = ("target-only", "widths")
SECTIONS: tuple[Section, ...] = (  # what others need comes first
    Section("latency", sections.latency, needs_draft=False),
    Section("target-only", sections.target_only, needs_draft=False),
    Section("prediction", prediction.measure, TARGET_ONLY),
    Section("widths", sections.widths, TARGET_ONLY),
    Section("auto", sections.auto, CHOSEN),
    Section("temperature", sections.temperature, TARGET_ONLY, core=False),
    Section("drafts", sections.drafts, TARGET_ONLY, core=False),
    Section("batch", batches.measure, TARGET_ONLY, core=False),
    Section("drafters", drafters.measure, TARGET_ONLY, core=False, needs_draft=False),
    Section("rules", sections.rules, TARGET_ONLY, core=False),
    Section("real-sizes", real_sizes.measure, core=False, needs_draft=False),
    Section("real", real.section, core=False, full=False, needs_draft=False, prompts=real.all_prompts),
)
NAMES = tuple(section.name for section in SECTIONS)


def choose(names: Sequence[str] = (), full: bool = False, has_draft: bool = True) -> tuple[str, ...]:
    """Returns the sections to run: those that are named with what they need, or the core, or nearly all.

    Where there is no draft model, the section on drafters takes the place of the core.

    Raises:
        ValueError: if a name is unknown, or its section needs a draft model and there is none.
    """
    usable = [section for section in SECTIONS if has_draft or not section.needs_draft]
    for name in names:
        if name not in NAMES:
            raise ValueError(f"there is no section {name!r}; there is {', '.join(NAMES)}")
        if name not in [section.name for section in usable]:
            raise ValueError(f"the section {name} needs a draft model: give one with --draft")
    core = {section.name for section in usable if (section.full if full else section.core)}
    chosen = set(names) or (core if has_draft or full else {"drafters"})
    for section in reversed(SECTIONS):  # what a section needs stands before it
        if section.name in chosen:
            chosen |= set(section.needs)
    return tuple(name for name in NAMES if name in chosen)


def own_prompts(names: Sequence[str]) -> Callable[[Tokenizer], Prompts] | None:
    """Returns what makes the prompts of sections that have the same ones of their own; None of others."""
    makers = {section.prompts for section in SECTIONS if section.name in names}
    return makers.pop() if len(makers) == 1 else None


def run_bench(
    pair: Pair,
    *,
    sections: Sequence[str],
    plan: Plan = CORE,
    seed: int = 0,
    output: Path | None = None,
    tell: Callable[[float, str, str], None] = lambda share, section, text: None,
    more: Sequence[Section] = (),
) -> dict[str, Any]:
    """Measures a pair that has prompts, in the sections that `choose` has returned.

    While the report is not complete, what is finished lies beside `output`, in a file of the same name with
    `.part` added; a run that finds one of the same bench goes on with it. `tell` is told how much is done,
    from 0 to 1, the section, and what comes next in it. A section of `more` can be selected too, after those
    of the bench; one of the same name takes the place of the bench's own. The report is ready for JSON:
    `machine`, `settings`, `sections`.

    Raises:
        ValueError: if the pair has no prompts, or the file cannot be written.
    """
    selected = tuple(sections)
    part = None
    if output is not None:
        check_writable(output)
        if not destination(output)[1]:  # beside a device or a pipe there is no place for a file
            part = Path(f"{output}.part")
    report = new_report(pair, plan, seed, selected)
    if part is not None:
        report |= read_partial(part, report)
    bench = BenchRun(pair, plan, group(pair, plan), seed, selected, report["sections"])
    by_name = {section.name: section for section in (*SECTIONS, *more)}
    queue = [section for name, section in by_name.items() if name in selected]
    for number, section in enumerate(queue):
        if section.name not in report["sections"]:
            bench.tell = partial(tell, number / len(queue), section.name)
            _measure(section, bench, report)
            if part is not None:
                write_json(part, report)
    finish(report)
    if output is not None:
        write_json(output, report)
    if part is not None:
        part.unlink(missing_ok=True)
    return report


def new_report(pair: Pair, plan: Plan, seed: int, selected: Sequence[str]) -> dict[str, Any]:
    """Returns a report in which nothing is measured yet; it says what a reader needs to compare figures."""
    return _json_values(
        {
            "format": FORMAT,
            "kind": "bench",
            "date": date.today().isoformat(),
            "pair": pair.name,
            "machine": describe_machine(),
            "conditions": {
                "sections": selected,
                "plan": asdict(plan),
                "seed": seed,
                "prompt_tokens": PROMPT_TOKENS,
                "dtype": str(pair.kept or pair.target.dtype).removeprefix("torch."),
                "device": pair.target.device.type,
                "end_of_sequence": "off",
                "prefill": "included on both sides",
                "target_only": "the fastest backend and number of threads of the section target-only",
                "target": weights_hash(pair.target),
                "draft": weights_hash(pair.draft),
                "prompts": json_hash({"prompts": pair.info.get("prompts", [])}),
            },
            "settings": [],
            "sections": {},
            "seconds": {},
        }
    )


def read_partial(part: Path, report: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what a cut run of the same bench, on the same machine, has left; {} if there is none."""
    try:
        partial_report = read_json(part)
        if all(partial_report[key] == report[key] for key in ("format", "pair", "machine", "conditions")):
            return {key: partial_report[key] for key in ("sections", "seconds", "date")}
    except (ValueError, KeyError):
        pass
    return {}


def finish(report: dict[str, Any]) -> None:
    """Fills in what is made of the sections: the settings that are reported, and errors of predictions."""
    results: dict[str, Results] = report["sections"]
    report["settings"] = results.get("widths", {}).get("settings", [])
    if "prediction" in results:
        results["prediction"]["compared"] = prediction.compare(results)
    if "drafters" in results:
        report["drafters"] = results["drafters"]["rows"]
    if "real-sizes" in results:
        report["real_sizes"] = results["real-sizes"]["points"]
    for name in real.LISTS:
        rows = [row for found in results.values() for row in found.get(name, ())]
        if rows:
            report[name] = rows


def _measure(section: Section, bench: BenchRun, report: dict[str, Any]) -> None:
    started = perf_counter()
    with torch.random.fork_rng(devices=[]):
        report["sections"][section.name] = _json_values(section.run(bench))
    report["seconds"][section.name] = round(perf_counter() - started, 1)


def _json_values(value: Any) -> Any:
    """Returns a value as JSON gives it back: a run that was resumed must see what one in one go sees."""
    return json.loads(json.dumps(value))
