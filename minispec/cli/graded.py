"""How `minispec grade` shows a graded class: on the terminal, and its predictions as a page."""

from __future__ import annotations

import html
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from minispec.classroom.exercise import Exercise
from minispec.classroom.grading.guesses import Tally, histogram_text
from minispec.classroom.grading.marking import Row, full_marks
from minispec.show.plots.guesses import guess_bars


def show(
    rows: Sequence[Row], exercises: Sequence[Exercise], tallies: Sequence[Tally], console: Console
) -> None:
    """Prints signs and points, then each message, then what the class has predicted."""
    table = Table(title="✓ right   ✗ not yet   … blank   – not handed in", title_justify="left")
    table.add_column("student", no_wrap=True, max_width=24)
    for number, _ in enumerate(exercises, 1):
        table.add_column(str(number), justify="center", no_wrap=True)
    table.add_column("points", justify="right", no_wrap=True)
    for row in rows:
        points = f"{row.points} of {full_marks(exercises)}"
        table.add_row(row.student, *(mark.sign for mark in row.marks), points)
    console.print(table)
    for number, exercise in enumerate(exercises, 1):
        console.print(f"{number:2}  {exercise.key}: {exercise.title} ({exercise.difficulty})")
    for row in rows:
        told = [f"✗ {mark.key}: {mark.message}" for mark in row.marks if mark.verdict == "wrong"]
        told += [f"! {mark.key} takes {', '.join(mark.uses)}" for mark in row.marks if mark.uses]
        told += [f"! cannot be read: {fault}" for fault in row.faults]
        if told:
            console.print("\n".join(["", row.student, *(f"  {line}" for line in told)]), soft_wrap=True)
    if tallies:
        console.print(f"\nWhat the class predicted\n\n{histogram_text(tallies)}", soft_wrap=True)


def page(tallies: Sequence[Tally], students: int) -> str:
    """Returns the class's predictions as an HTML page that needs no other file."""
    body = "" if tallies else "<p>Nobody has answered a prediction.</p>"
    for one in tallies:
        figure = guess_bars(one.question.text, one.bars, one.unanswered)
        body += f"<h2>Notebook {one.question.notebook}: {html.escape(one.question.key)}</h2>{figure.html()}"
        body += (
            f"<details><summary>In words</summary><pre>{html.escape(histogram_text([one]))}</pre></details>"
        )
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>What the class predicted</title>'
        "<style>body{font:16px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color:#1a1a1a;"
        "background:#fff}pre{white-space:pre-wrap}figure{break-inside:avoid}</style></head><body>"
        f"<h1>What the class predicted</h1><p>{students} submissions.</p>{body}</body></html>\n"
    )
