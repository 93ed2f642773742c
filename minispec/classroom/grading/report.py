"""A graded class as a table: for a spreadsheet, for a terminal, for a program."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from minispec.classroom.exercise import Exercise
from minispec.classroom.grading.guesses import Tally
from minispec.classroom.grading.marking import Mark, Row, full_marks

FORMULA = ("=", "+", "-", "@")  # a spreadsheet would compute what begins so


def csv_text(rows: Sequence[Row], exercises: Sequence[Exercise]) -> str:
    """Returns a table with a row per student: totals, then sign, points and message of each exercise.

    What begins like a formula gets an apostrophe before it: names and messages come from students.
    """
    file = io.StringIO()
    table = csv.writer(file, lineterminator="\n")
    parts = ("", " points", " message")
    names = [f"{exercise.key}{part}" for exercise in exercises for part in parts]
    table.writerow(["student", "points", "of", "right", *names, "takes from minispec", "refused"])
    for row in rows:
        cells: list[Any] = [row.student, row.points, full_marks(exercises), row.right]
        for mark in row.marks:
            cells += [mark.sign, mark.points, mark.message]
        cells += ["; ".join(told) for told in (uses(row.marks), alarms(row.marks))]
        table.writerow([plain(cell) for cell in cells])
    return file.getvalue()


def uses(marks: Sequence[Mark]) -> list[str]:
    """Returns what each answer takes from minispec."""
    return [f"{mark.key}: {', '.join(mark.uses)}" for mark in marks if mark.uses]


def alarms(marks: Sequence[Mark]) -> list[str]:
    """Returns what the fence has refused to each answer."""
    return [f"{mark.key}: {', '.join(mark.alarms)}" for mark in marks if mark.alarms]


def plain(cell: Any) -> Any:
    """Returns a cell that no spreadsheet takes for a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell


def document(rows: Sequence[Row], exercises: Sequence[Exercise], tallies: Sequence[Tally]) -> dict[str, Any]:
    """Returns the graded class as plain data."""
    return {
        "of": full_marks(exercises),
        "exercises": [
            {"key": e.key, "title": e.title, "notebook": e.notebook, "points": e.difficulty}
            for e in exercises
        ],
        "students": [
            {
                "student": row.student,
                "points": row.points,
                "right": row.right,
                "faults": list(row.faults),
                "guesses": row.guesses,
                "exercises": {
                    mark.key: {
                        "verdict": mark.verdict,
                        "points": mark.points,
                        "message": mark.message,
                        "detail": mark.detail,
                        "uses": list(mark.uses),
                        "refused": list(mark.alarms),
                    }
                    for mark in row.marks
                },
            }
            for row in rows
        ],
        "predictions": [
            {
                "key": one.question.key,
                "notebook": one.question.notebook,
                "question": one.question.text,
                "answers": [
                    {"answer": bar.label, "count": bar.count, "right": bar.right, "belief": bar.belief}
                    for bar in one.bars
                ],
                "unanswered": one.unanswered,
            }
            for one in tallies
        ],
    }
