"""Tests of the exercises for otter-grader, which grades a class: `python -m minispec.classroom.otter FOLDER`.

otter runs a submission, a notebook or a script, in a process of its own, and then these tests in the same
process. Each asks its exercise as `check` in the notebook does. docs/teaching/grading.md shows how.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import Annotated
from zipfile import ZipFile

import typer

from minispec.classroom.exercise import Exercise
from minispec.classroom.exercises import EXERCISES
from minispec.classroom.exercises.semester import semester
from minispec.io.files import CannotWrite, printable_line, replace_file, write_text_file

TEST = Template('''\
"""The exercise "$key", as a test for otter-grader."""

from otter.test_files import test_case

$checker

OK_FORMAT = False
name = "$key"
points = $points


@test_case(name="$key")
def test(env):
    """Asks about the last definition of `$function`."""
    card = check("$key", env.get("$function"))
    assert card.passed, card.text()
''')
CHECKER = "from minispec.classroom import check"
OF_A_SEMESTER = 'from minispec.classroom.exercises.semester import semester\n\ncheck = semester("{}").check'
# Without these there is one more entry beside the exercises, a summary.
CONFIG = {"show_hidden": True, "force_public_test_summary": False, "logo": False}

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def select_exercises(keys: Sequence[str], exercises: Sequence[Exercise]) -> list[Exercise]:
    """Returns exercises by their names, in their order; all of them for no names.

    Raises:
        ValueError: if there is no such exercise.
    """
    known = [exercise.key for exercise in exercises]
    for key in keys:
        if key not in known:
            raise ValueError(f"there is no exercise {key!r}; there is {', '.join(known)}")
    return [exercise for exercise in exercises if not keys or exercise.key in keys]


@app.command()
def export(
    folder: Annotated[Path, typer.Argument(help="A new folder: tests and autograder.zip go into it.")],
    exercises: Annotated[list[str] | None, typer.Argument(help="Their names; by default all.")] = None,
    tag: Annotated[
        str | None, typer.Option("--semester", help="The exercises of this tag, and a notebook of stubs.")
    ] = None,
) -> None:
    """Write the exercises as tests for otter-grader."""
    forms = None if tag is None else semester(tag)
    selected = select_exercises(exercises or (), forms.exercises if forms else EXERCISES)
    checker = OF_A_SEMESTER.format(forms.tag) if forms else CHECKER
    try:
        folder.mkdir(parents=True)
        (folder / "tests").mkdir()
    except OSError as error:
        raise CannotWrite(folder, error) from error
    with replace_file(folder / "autograder.zip") as path, ZipFile(path, "w") as archive:
        archive.writestr("otter_config.json", json.dumps(CONFIG))
        for exercise in selected:
            test = TEST.substitute(
                key=exercise.key,
                points=exercise.difficulty,
                function=exercise.function,
                checker=checker,
            )
            write_text_file(folder / f"tests/{exercise.key}.py", test)
            archive.writestr(f"tests/{exercise.key}.py", test)
    if forms:
        write_text_file(folder / "stubs.ipynb", forms.notebook())
    points = sum(exercise.difficulty for exercise in selected)
    print(f"{folder}: {', '.join(exercise.key for exercise in selected)} ({points} points)")


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; bad input ends in one line and status 2."""
    try:
        app(arguments, standalone_mode=False)
    except Exception as error:
        if hasattr(error, "format_message"):  # what typer says of wrong options
            message = error.format_message()
        elif isinstance(error, ValueError):
            message = str(error)
        else:
            raise
        print(f"minispec.classroom.otter: {printable_line(message)}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
