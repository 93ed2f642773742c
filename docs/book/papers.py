"""The page of papers in miniature: what `docs/papers` computes and measures, recorded and shown.

make papers                 # all, in minutes; ONLY=leviathan: one
"""

from __future__ import annotations

import datetime
import importlib
from collections.abc import Mapping
from pathlib import Path
from time import process_time
from types import ModuleType
from typing import Any

from book.pages import joined, texts
from minispec.evidence.bench.machine import describe_machine
from minispec.io.files import read_json, write_json
from minispec.show.plots.style import Picture

FOLDER = Path(__file__).parents[1] / "papers"
RECORD = FOLDER / "papers.json"
NAMES = (  # in the order of the page
    "leviathan",
    "chen",
    "block",
    "spectr",
    "sequoia",
    "adaptive",
    "eagle",
    "distillspec",
    "intersection",
    "magicdec",
)


def paper(name: str) -> ModuleType:
    """Returns the file of a paper; ValueError if there is none."""
    if name not in NAMES:
        raise ValueError(f"there is no paper {name!r}; there is {', '.join(NAMES)}")
    return importlib.import_module(f"papers.{name}")


def recorded() -> dict[str, Any]:
    """Returns what was recorded: of each paper `rows`, `date`, `machine`, and `seconds` of the processor."""
    return read_json(RECORD)["papers"] if RECORD.is_file() else {}


def record_papers(only: str = "") -> None:
    """Measure the papers in miniature, or one of them; `pages` then writes the page."""
    found = recorded()
    for name in [only] if only else NAMES:
        module = paper(name)
        begun = process_time()
        rows = module.measure()
        seconds = process_time() - begun
        found[name] = {"date": str(datetime.date.today()), "seconds": round(seconds, 1)}
        found[name] |= {"machine": describe_machine(), "rows": rows}
        print(f"{name}: {len(rows)} rows, {seconds:.0f} s")
        ordered = {one: found[one] for one in NAMES if one in found}
        write_json(RECORD, {"format": 1, "kind": "papers", "papers": ordered})


def page(found: Mapping[str, Any]) -> str:
    """Returns the page as Markdown."""
    text = texts("papers")
    sections = []
    for name in NAMES:
        module = paper(name)
        record = found.get(name, {"rows": []})
        here = module.show(record["rows"]) if record["rows"] else f"`make papers ONLY={name}` records it."
        verdict = module.VERDICT if record["rows"] else "not recorded"
        claim = f"**The paper.** {' '.join(module.CLAIM.split())}"
        sections.append(f"## {module.TITLE}\n\n{claim}\n\n**Here** ({verdict}). {here}")
    words = "{processor}, threads: {threads}, torch {torch}"
    machines = dict.fromkeys(words.format_map(record["machine"]) for record in found.values())
    head = text["head"].format(
        minutes=sum(record["seconds"] for record in found.values()) / 60,
        machines="; ".join(machines),
    )
    return joined([head, *sections])


def figure(name: str) -> Picture:
    """Returns the figure of a paper."""
    return paper(name).figure(recorded()[name]["rows"])
