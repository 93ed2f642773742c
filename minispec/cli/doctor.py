"""`minispec doctor`: what this machine has, what is missing, and what to do about it."""

from __future__ import annotations

from dataclasses import asdict

import typer
from rich.console import Console

from minispec.cli import options
from minispec.cli.health import Finding, examine, usable

GLYPHS = {"fine": "✓", "missing": "–", "broken": "✗"}


def doctor(as_json: options.JsonOption = False) -> None:
    """Look at this machine, and say what to do about what is missing."""
    console = options.console(as_json)
    with console.status("looking"):
        findings = examine()
    if as_json:
        options.print_json({"passed": usable(findings), "findings": [asdict(one) for one in findings]})
    else:
        show(findings, console)
    if not usable(findings):
        raise typer.Exit(1)


def show(findings: list[Finding], console: Console) -> None:
    """Prints a line per finding, what to do below it, and in the end whether `make demo` can work."""
    wide = max(len(one.name) for one in findings)
    for one in findings:
        console.print(f"{GLYPHS[one.state]} {one.name:{wide}}  {one.value}", soft_wrap=True)
        if one.advice:
            console.print(f"{'':{wide + 4}}{one.advice}", soft_wrap=True)
    broken = [one.name for one in findings if one.needed and one.state == "broken"]
    console.print(
        f"\nbroken, and needed: {', '.join(broken)}" if broken else "\nall that `make demo` needs is there",
        soft_wrap=True,
    )
