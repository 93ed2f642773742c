"""`minispec grade`: what a class has handed in, as a table; its predictions as text or as a page."""

import csv
import html
import io
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from string import Template
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from minispec.classroom.exercise import Exercise
from minispec.classroom.exercises import EXERCISES
from minispec.classroom.exercises.semester import semester
from minispec.classroom.grading.guesses import Tally, histogram_text, tally
from minispec.classroom.grading.marking import Row, chosen, full_marks, grade
from minispec.classroom.grading.submission import read_submissions
from minispec.cli import options
from minispec.io.files import check_writable, write_whole

WARNING = "This runs what people have handed in. Run it in a container or on a machine you trust them with."
MOST_SECONDS, MOST_JOBS = 3600, 64
PAGE = Template(Path(__file__).with_name("predictions.html").read_text(encoding="utf-8"))


def grade_command(
    folder: Annotated[
        Path | None, typer.Argument(help="Holds one folder, notebook or script per student.")
    ] = None,
    file: Annotated[Path | None, typer.Argument(help="Where --csv goes; by default standard output.")] = None,
    as_csv: Annotated[bool, options.option("grade", "csv")] = False,
    exercises: Annotated[str, options.option("grade", "exercises")] = "",
    predictions: Annotated[Path | None, options.option("grade", "predictions")] = None,
    seconds: Annotated[float, options.option("grade", "seconds", min=1, max=MOST_SECONDS)] = 120,
    jobs: Annotated[int, options.option("grade", "jobs", min=1, max=MOST_JOBS)] = 1,
    tag: Annotated[str | None, options.option("grade", "semester")] = None,
    write: Annotated[Path | None, options.option("grade", "write")] = None,
    as_json: options.JsonOption = False,
) -> None:
    """Grade a folder of submissions, in a container or on a machine that you trust them with."""
    own = EXERCISES if tag is None else semester(tag).exercises
    if write is not None:
        write_stubs(write, tag, folder)
        return
    if folder is None:
        raise ValueError("Missing argument 'FOLDER': the folder of a class")
    if file is not None and not as_csv:
        raise ValueError(f"what is {file} for? A second name is where --csv goes")
    if as_csv and as_json and file is None:
        raise ValueError("--csv and --json both want standard output; give --csv a file: --csv FILE")
    for path in (file, predictions):
        if path is not None:
            check_writable(path)
    wanted = chosen(exercises, own)
    console = options.console(as_json or (as_csv and file is None))
    submissions = read_submissions(folder)
    typer.echo(WARNING, err=True)
    rows = []
    with console.status(f"grading {len(submissions)} submissions") as status:
        for row in grade(submissions, wanted, seconds, jobs):
            rows.append(row)
            status.update(f"graded {len(rows)} of {len(submissions)}, the last one {row.student}")
    tallies = tally([row.guesses for row in rows])
    show(rows, wanted, tallies, console)
    if file is not None:
        # By its first sign spreadsheets know that it is UTF-8.
        write_whole(file, "\ufeff" + csv_text(rows, wanted))
        console.print(f"table: {file}", soft_wrap=True)
    elif as_csv:
        typer.echo(csv_text(rows, wanted), nl=False)
    if predictions is not None:
        write_whole(predictions, page(tallies, len(rows)))
        console.print(f"predictions: {predictions}", soft_wrap=True)
    if as_json:
        names = ("key", "title", "notebook")
        asked = [{n: getattr(one, n) for n in names} | {"points": one.difficulty} for one in wanted]
        found = {"students": list(map(asdict, rows)), "predictions": list(map(asdict, tallies))}
        options.print_json({"of": full_marks(wanted), "exercises": asked, **found})


def write_stubs(path: Path, tag: str | None, folder: Path | None) -> None:
    """Writes a notebook of a semester's stubs; a ValueError says which options do not go together."""
    if tag is None:
        raise ValueError("--write writes the exercises of a semester; give its tag: --semester 2027S")
    if folder is not None:
        raise ValueError(f"--write writes a notebook and grades nothing; what is {folder} for?")
    if path.suffix != ".ipynb":
        raise ValueError(f"cannot write {path}: a notebook's name ends in .ipynb")
    if path.exists():
        raise ValueError(f"{path} is there already, and may hold somebody's work")
    write_whole(path, semester(tag).notebook())
    typer.echo(f"exercises of {tag.upper()}: {path}")


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
        signs = (mark.sign for mark in row.exercises.values())
        table.add_row(row.student, *signs, f"{row.points} of {full_marks(exercises)}")
    console.print(table)
    for number, exercise in enumerate(exercises, 1):
        console.print(f"{number:2}  {exercise.key}: {exercise.title} ({exercise.difficulty})")
    for row in rows:
        marks = row.exercises.items()
        told = [f"✗ {key}: {mark.message}" for key, mark in marks if mark.verdict == "wrong"]
        told += [f"! {key} takes {', '.join(mark.uses)}" for key, mark in marks if mark.uses]
        told += [f"! cannot be read: {fault}" for fault in row.faults]
        if told:
            console.print("\n".join(["", row.student, *(f"  {line}" for line in told)]), soft_wrap=True)
    if tallies:
        console.print(f"\nWhat the class predicted\n\n{histogram_text(tallies)}", soft_wrap=True)


def page(tallies: Sequence[Tally], students: int) -> str:
    """Returns the class's predictions as an HTML page that needs no other file."""
    body = "" if tallies else "<p>Nobody has answered a prediction.</p>"
    for one in tallies:
        body += f"<h2>Notebook {one.notebook}: {html.escape(one.key)}</h2>"
        body += f"<pre>{html.escape(histogram_text([one]))}</pre>"
    return PAGE.substitute(students=students, body=body)


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
        for mark in row.exercises.values():
            cells += [mark.sign, mark.points, mark.message]
        uses = (f"{key}: {', '.join(mark.uses)}" for key, mark in row.exercises.items() if mark.uses)
        cells.append("; ".join(uses))
        table.writerow([f"'{cell}" if str(cell).startswith(("=", "+", "-", "@")) else cell for cell in cells])
    return file.getvalue()
