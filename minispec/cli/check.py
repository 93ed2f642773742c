"""`minispec check`: find out whether an accept rule of yours keeps the target's distribution.

The rule's module is imported once, in a process of its own, and the rule runs there.
"""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Annotated, Any

from minispec.cli import options
from minispec.cli.apart import run_apart
from minispec.core.verify import Verifier, as_verifier
from minispec.evidence.checker.check import SAMPLES, TOLERANCE, check_verifier
from minispec.evidence.checker.guard import Stopped, called
from minispec.evidence.checker.instance import CHOICES, Instance
from minispec.evidence.checker.instances import (
    Table,
    greedy_instances,
    tree_instances,
)
from minispec.evidence.checker.report import Report

DEFAULT_LIMIT = 600.0


def check_command(
    rule: str,
    trees: bool = False,
    candidates: Annotated[list[str] | None, CHOICES] = None,
    greedy: bool = False,
    samples: int = SAMPLES,
    tolerance: float = TOLERANCE,
    limit: float = DEFAULT_LIMIT,
    seed: int = 0,
    as_json: bool = False,
) -> int:
    """Check an accept rule: exit status 0 if it passes, 1 if it fails, 2 if it was not checked."""
    for choice in candidates or ():
        options.choose(choice, list(CHOICES), "--candidates")
    if candidates and not trees:
        raise ValueError("--candidates says how candidates of trees are chosen; give --trees too")
    if not 0 < limit < float("inf"):
        raise ValueError(f"--limit must be seconds above 0, not {limit}")
    request = {"name": rule, "trees": trees, "candidates": candidates or [], "greedy": greedy}
    settings = {"samples": samples, "tolerance": tolerance, "seed": seed}
    try:
        answer, printed = run_apart(request | settings, limit)
    except ValueError as error:
        raise ValueError(f"{rule}: {error}") from error
    report = answer["document"]
    if not report["instances"]:
        reasons = "; ".join(f"{row['instances']} left out: {row['why']}" for row in report["left_out"])
        raise ValueError(f"{rule}: nothing was checked, which is no pass: {reasons}")
    if as_json:
        options.print_json({"rule": rule, **report, "printed": printed})
    else:
        text = answer["text"]
        if printed:
            text += f"\n  note: it printed {printed:,} bytes, passed on to standard error"
        options.console().out(text)
    return int(not report["passed"])


def check_named(
    name: str, trees: bool, candidates: Sequence[str], greedy: bool, **settings: Any
) -> dict[str, Any]:
    """Imports a rule and checks it; returns the report as a text and as a document."""
    rule = rule_named(name)
    instances: Sequence[Instance] | None = None  # what `check_verifier` chooses
    if trees:
        instances = tree_instances(*candidates, certain=greedy or rule.greedy)
    elif greedy:
        instances = greedy_instances()
    report = check_verifier(rule, instances=instances, **settings)
    return {"text": str(report), "document": document(report)}


def rule_named(name: str) -> Verifier:
    """Imports MODULE:RULE, of Python's path or this folder, or FILE.py:RULE; ValueError if it cannot."""
    module_name, _, attribute = name.rpartition(":")
    if not module_name or not attribute:
        raise ValueError("it must be MODULE:RULE or FILE.py:RULE")
    try:
        module = called(import_rules, module_name)
    except Stopped as stopped:
        raise ValueError(f"{module_name} cannot be imported: {stopped}") from stopped
    except Exception as error:  # whatever somebody's module may raise
        raise ValueError(f"{module_name} cannot be imported: {type(error).__name__}: {error}") from error
    rule = vars(module).get(attribute)
    if not callable(rule):
        raise ValueError(f"there is no function {attribute} in {module_name}")
    return as_verifier(rule)


def import_rules(name: str) -> Any:
    """Imports a module by its name or its file, once: by the file's name it can be imported again."""
    path = Path(name)
    if path.suffix != ".py":
        sys.path.insert(0, "")
        return import_module(name)
    sys.path.insert(0, str(path.parent))
    spec = spec_from_file_location(path.stem, path.resolve(strict=True))
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    spec.loader.exec_module(module)
    return module


def document(report: Report) -> dict[str, Any]:
    """Returns a report as plain data; probabilities are numbers."""
    case = report.counterexample
    damage = report.damage
    fields = "passed reason method instances branches samples false_alarm detects notes".split()
    plain = {field: getattr(report, field) for field in fields} | {"damage": damage and asdict(damage)}
    plain["left_out"] = [{"why": reason, "instances": count} for reason, count in report.left_out.items()]
    if case is None:
        return plain | {"counterexample": None}
    counterexample = {"k": case.k, "lengths": case.lengths, "p": numbers(case.p), "q": numbers(case.q)}
    if not case.is_chain:
        counterexample |= {"parents": case.parents, "candidates": case.choice}
    return plain | {"counterexample": counterexample}


def numbers(tables: Sequence[Table]) -> list[list[list[float]]]:
    """Returns tables without their fractions."""
    return [[[float(prob) for prob in row] for row in table] for table in tables]
