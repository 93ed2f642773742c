"""A graded class as a table for a spreadsheet, and as a document for a program."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from minispec.classroom.exercise import Exercise
from minispec.classroom.grading.guesses import Tally
from minispec.classroom.grading.marking import Row, full_marks


def csv_text(rows: Sequence[Row], exercises: Sequence[Exercise]) -> str:
    """Returns a table with a row per student: totals, then sign, points and message of each exercise.

    What begins like a formula gets an apostrophe before it: names and messages come from students.
    """
    file = io.StringIO()
    table = csv.writer(file, lineterminator="\n")
    names = [f"{exercise.key}{part}" for exercise in exercises for part in ("", " points", " message")]
    table.writerow(["student", "points", "of", "right", *names, "takes from minispec"])
    for row in rows:
        cells: list[Any] = [row.student, row.points, full_marks(exercises), row.right]
        for mark in row.marks:
            cells += [mark.sign, mark.points, mark.message]
        cells.append("; ".join(f"{mark.key}: {', '.join(mark.uses)}" for mark in row.marks if mark.uses))
        table.writerow([f"'{cell}" if str(cell).startswith(("=", "+", "-", "@")) else cell for cell in cells])
    return file.getvalue()


def document(rows: Sequence[Row], exercises: Sequence[Exercise], tallies: Sequence[Tally]) -> dict[str, Any]:
    """Returns the graded class as plain data."""
    students = []
    for row in rows:
        marks = {mark.key: asdict(mark) for mark in row.marks}
        for mark in marks.values():
            del mark["key"]
        student = {"student": row.student, "points": row.points, "right": row.right}
        students.append(student | {"faults": row.faults, "guesses": row.guesses, "exercises": marks})
    return {
        "of": full_marks(exercises),
        "exercises": [
            {"key": e.key, "title": e.title, "notebook": e.notebook, "points": e.difficulty}
            for e in exercises
        ],
        "students": students,
        "predictions": [
            {
                "key": one.question.key,
                "notebook": one.question.notebook,
                "question": one.question.text,
                "answers": [asdict(bar) for bar in one.bars],
                "unanswered": one.unanswered,
            }
            for one in tallies
        ],
    }
