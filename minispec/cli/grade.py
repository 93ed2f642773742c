"""`minispec grade`: what a class has handed in, as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from minispec.cli import options
from minispec.io.files import check_writable, write_whole

MOST_SECONDS, MOST_JOBS = 3600, 64


def grade_command(
    folder: Annotated[Path, typer.Argument(help="Holds one folder, notebook or script per student.")],
    file: Annotated[Path | None, typer.Argument(help="Where --csv goes; by default standard output.")] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Write a table with a row per student.")] = False,
    exercises: Annotated[
        str, typer.Option("--exercises", help="Which to grade, with commas between; by default all.")
    ] = "",
    predictions: Annotated[
        Path | None, typer.Option("--predictions", help="Write the class's predictions to this HTML page.")
    ] = None,
    seconds: Annotated[
        float,
        typer.Option("--seconds", help="Time for one exercise of one student.", min=1, max=MOST_SECONDS),
    ] = 120,
    jobs: Annotated[int, typer.Option("--jobs", help="Students at the same time.", min=1, max=MOST_JOBS)] = 1,
    as_json: options.JsonOption = False,
) -> None:
    """Grade a folder of submissions, in a container or on a machine that you trust them with."""
    if file is not None and not as_csv:
        raise ValueError(f"what is {file} for? A second name is where --csv goes")
    if as_csv and as_json and file is None:
        raise ValueError("--csv and --json both want standard output; give --csv a file: --csv FILE")
    for path in (file, predictions):
        if path is not None:
            check_writable(path)
    # These bring figures along: no other command waits for them.
    from minispec.classroom.grading import WARNING
    from minispec.classroom.grading.guesses import tally
    from minispec.classroom.grading.marking import chosen, grade
    from minispec.classroom.grading.report import csv_text, document
    from minispec.classroom.grading.submission import read_submissions
    from minispec.cli.graded import page, show

    wanted = chosen([key.strip() for key in exercises.split(",") if key.strip()])
    console = options.console(as_json or (as_csv and file is None))
    submissions = read_submissions(folder)
    typer.echo(WARNING, err=True)
    with console.status("grading") as status:
        rows = grade(submissions, wanted, seconds, jobs, lambda name: status.update(f"grading {name}"))
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
        options.print_json(document(rows, wanted, tallies))
