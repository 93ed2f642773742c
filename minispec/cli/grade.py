"""`minispec grade`: what a class has handed in, as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from minispec.cli import options
from minispec.io.files import check_writable

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
    from minispec.cli.graded import grade_class  # it brings figures along: no other command waits for them

    keys = [key.strip() for key in exercises.split(",") if key.strip()]
    grade_class(folder, keys, seconds, jobs, file, as_csv, predictions, as_json)
