"""The exercises, for teachers: a line each, and what each tells a student who is wrong."""

from __future__ import annotations

from minispec.classroom.exercise import Exercise
from minispec.classroom.exercises import EXERCISES


def exercise_rows() -> list[list[str]]:
    """Returns a line for each exercise, and one for all; heads first."""
    rows = [["nb", "exercise", "difficulty", "minutes", "the idea"]]
    for e in EXERCISES:
        link = f"[{e.title}](#{e.key})"
        rows.append([str(e.notebook), link, "●" * e.difficulty, str(e.minutes), e.praise])
    points = sum(e.difficulty for e in EXERCISES)
    minutes = sum(e.minutes for e in EXERCISES)
    rows.append(["", f"all {len(EXERCISES)}", f"{points} points", str(minutes), ""])
    return rows


def wrong_rows(exercise: Exercise) -> list[list[str]]:
    """Returns a line for each typical wrong answer of an exercise, heads first."""
    rows = [["typical wrong answer", "message"]]
    return rows + [[f"`{name}`", message] for name, (message, _) in exercise.wrong.items()]


def about(exercise: Exercise) -> str:
    """Returns the paragraphs of one exercise in Markdown, under a heading whose anchor is its key."""
    solved = f"../../notebooks/solutions/{exercise.notebook:02d}_solutions.ipynb"
    return f"""{{#{exercise.key}}}
## {exercise.title}

Notebook {exercise.notebook}, {"●" * exercise.difficulty}, about {exercise.minutes} minutes.
Its name is `{exercise.key}`. Solved in the [solutions to notebook {exercise.notebook}]({solved}).

**Hint 1.** {exercise.hints[0]}

**Hint 2.** {exercise.hints[1]}
"""
