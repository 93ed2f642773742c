"""Writes exercises.md from the records of the classroom: `python docs/teaching/write_exercises.py`.

A test compares the page with what this writes now.
"""

from pathlib import Path

from minispec.classroom.exercises import EXERCISES
from minispec.classroom.exercises.semester import FORMS
from minispec.io.files import write_whole

HERE = Path(__file__).resolve().parent
PAGE = HERE / "exercises.md"
INTRODUCTION = f"""# The exercises

There are {len(EXERCISES)} functions and classes to write, each checked by what it does, not by how it is
written. A wrong answer gets the smallest case that shows it. If it is one of the typical wrong answers below,
it gets the message that stands beside it. Two hints each: `hint("residual", 1)`, then `2`. A hint leads to
the step that decides, and leaves it to the student.

`draft-one-row` and `accept-one-row` are about one row of lists. `remember-q` and `write-the-verifier` ask for
the same with many rows and ragged lengths: a second step, for engineers.

The solutions are in the repository, in `notebooks/solutions`. For a second form of {len(FORMS)} of these
exercises, whose solutions are not, see [a semester's tag](grading.md).

Points, for [grading](grading.md), are the difficulty: ● 1, ●● 2, ●●● 3.

This page is made from the code by `python docs/teaching/write_exercises.py`.
"""


def page():
    """Returns the page."""
    parts = [INTRODUCTION, table(), *map(section, EXERCISES)]
    return "\n".join(parts)


def table():
    """Returns all exercises, a line each."""
    total = sum(exercise.minutes for exercise in EXERCISES)
    points = sum(exercise.difficulty for exercise in EXERCISES)
    lines = ["| nb | exercise | difficulty | minutes | the idea |", "|---:|---|---|---:|---|"]
    for e in EXERCISES:
        dots = "●" * e.difficulty
        lines.append(f"| {e.notebook} | [{e.title}](#{e.key}) | {dots} | {e.minutes} | {e.praise} |")
    lines.append(f"| | all {len(EXERCISES)} | {points} points | {total} | |")
    return "\n".join(lines) + "\n"


def section(exercise):
    """Returns what a teacher wants to know of one exercise."""
    number = f"{exercise.notebook:02d}"
    solved = (
        f"[solutions to notebook {exercise.notebook}](../../notebooks/solutions/{number}_solutions.ipynb)"
    )
    lines = [
        f"({exercise.key})=",
        f"## {exercise.title}",
        "",
        f"Notebook {exercise.notebook}, {'●' * exercise.difficulty}, about {exercise.minutes} minutes. "
        f"Its name is `{exercise.key}`. Solved in the {solved}.",
        "",
        f"**Hint 1.** {exercise.hints[0]}",
        "",
        f"**Hint 2.** {exercise.hints[1]}",
        "",
        "| typical wrong answer | message |",
        "|---|---|",
        *(f"| `{name}` | {cell(message)} |" for name, (message, _) in exercise.wrong.items()),
        "",
    ]
    return "\n".join(lines)


def cell(text):
    """Returns a text that can stand in a cell of a table."""
    return text.replace("|", r"\|")


if __name__ == "__main__":
    write_whole(PAGE, page())
