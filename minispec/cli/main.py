"""The commands, put together, and the one function where errors become a line.

What a person can cause ends in one clear line on standard error and exit status 2; Ctrl-C in a
line and 130. A closed pipe ends quietly.
"""

import gc
import io
import os
import sys
from typing import Annotated, Any

import typer

from minispec import __version__, interrupt
from minispec.cli import options
from minispec.cli.atlas import atlas_command
from minispec.cli.bench import bench
from minispec.cli.check import check_command
from minispec.cli.demo import demo
from minispec.cli.doctor import doctor
from minispec.cli.export import export
from minispec.cli.generate import generate
from minispec.cli.lab import lab
from minispec.cli.prove import prove_command
from minispec.cli.train import train
from minispec.cli.zoo import zoo_command
from minispec.io.files import printable_line, shorten

STOPPED = 130  # the exit status after Ctrl-C
LINE_LIMIT = 1000  # of an error's line: what a person typed may be in it

app = typer.Typer(
    name="minispec",
    help="Speculative decoding, from scratch: train a draft and a target, decode, measure.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
COMMANDS = (demo, train, generate, bench, export, lab, doctor)
for command in (*COMMANDS, prove_command, check_command, zoo_command, atlas_command):
    name = command.__name__.removesuffix("_command")
    app.command(name)(options.with_options(name, command))


@app.callback(invoke_without_command=True)
def global_options(
    version: Annotated[bool, typer.Option("--version", help="Print the version, and end.")] = False,
) -> None:
    """Speculative decoding, from scratch: train a draft and a target, decode, measure."""
    if version:
        typer.echo(f"minispec {__version__}")
        raise typer.Exit()


def main(arguments: list[str] | None = None) -> None:
    """Runs a command, by default that of the process, and exits with its status."""
    interrupt.end_import()
    gc.freeze()  # what has been imported stays: to look through it for garbage would slow down decoding
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """Runs a command and returns its exit status."""
    lost_output = io.StringIO() if sys.stdout is None else None
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # whoever called us has closed it; no other file may get its number
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot print a sign gets a question mark
    sys.stdout = lost_output or sys.stdout
    try:
        outcome: Any = app(arguments, standalone_mode=False)
        sys.stdout.flush()
        if lost_output is not None and lost_output.tell():
            return print_error("standard output is closed: the results are lost")
        if outcome == STOPPED:  # so typer ends a command after Ctrl-C
            raise KeyboardInterrupt
        return outcome if isinstance(outcome, int) else 0
    except BrokenPipeError:
        # Whoever read our output has gone. Python would complain at exit unless it has somewhere to flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return print_error("interrupted", STOPPED)
    except (ValueError, OSError) as error:
        return print_error(str(error))
    except Exception as error:
        if isinstance(error, MemoryError) or "allocate memory" in str(error):  # torch can't or cannot
            return print_error(
                "there is not enough memory for this; try fewer tokens or rows, or a smaller model"
            )
        if hasattr(error, "format_message"):  # what click says of wrong options
            message = error.format_message()
            return print_error(message) if message else 2  # without a command the help has been printed
        raise


def print_error(message: str, status: int = 2) -> int:
    """Prints one line to standard error, in which nothing controls the terminal, and returns a status."""
    line = printable_line(" ".join(message.split()))
    print(f"minispec: {shorten(line, LINE_LIMIT)}", file=sys.stderr)
    return status
