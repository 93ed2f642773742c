"""`minispec check`: find out whether an accept rule of yours keeps the target's distribution."""

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from runpy import run_path
from typing import Annotated, Any

import typer

from minispec.cli import options
from minispec.core.verify import Verifier
from minispec.evidence.checker.check import check_verifier
from minispec.evidence.checker.instances import Table
from minispec.evidence.checker.report import Report


def check_command(
    rule: Annotated[
        str,
        typer.Argument(help="MODULE:RULE or FILE.py:RULE, such as minispec.core.verify:verify_rejection."),
    ],
    seed: options.SeedOption = 0,
    as_json: options.JsonOption = False,
) -> None:
    """Check an accept rule: exit status 0 if it passes, 1 if it fails."""
    report = check_verifier(rule_named(rule), seed=seed)
    if as_json:
        options.print_json({"rule": rule, **document(report)})
    else:
        options.console().print(str(report), soft_wrap=True)
    if not report.passed:
        raise typer.Exit(1)


def rule_named(name: str) -> Verifier:
    """Imports MODULE:RULE, of Python's path or this folder, or FILE.py:RULE; ValueError if it cannot."""
    place, _, attribute = name.rpartition(":")
    if not place or not attribute:
        raise ValueError(f"{name!r} must be MODULE:RULE or FILE.py:RULE")
    is_file = place.endswith(".py")
    sys.path.insert(0, str(Path(place).parent) if is_file else "")
    try:
        names = run_path(place) if is_file else vars(import_module(place))
    except Exception as error:  # whatever somebody's module may raise
        raise ValueError(f"{place} cannot be imported: {type(error).__name__}: {error}") from error
    finally:
        sys.path.pop(0)
    rule: Verifier | None = names.get(attribute)
    if not callable(rule):
        raise ValueError(f"there is no function {attribute} in {place}")
    return rule


def document(report: Report) -> dict[str, Any]:
    """Returns a report as plain data; probabilities are numbers."""
    case, damage = report.counterexample, report.damage
    names = "passed reason method instances branches samples false_alarm detects notes".split()
    found = {name: getattr(report, name) for name in names} | {"damage": damage and vars(damage)}
    shown = case and {"k": case.k, "lengths": case.lengths, "p": numbers(case.p), "q": numbers(case.q)}
    return found | {"counterexample": shown}


def numbers(tables: Sequence[Table]) -> list[list[list[float]]]:
    """Returns tables without their fractions."""
    return [[[float(prob) for prob in row] for row in table] for table in tables]
