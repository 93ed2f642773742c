"""Ctrl-C while the program is still importing ends in a line, not in a traceback out of a library.

`minispec/__init__.py` imports this before all else, and torch takes seconds. It acts in the program
`minispec` and in `python -m minispec` only: in a notebook or another program Ctrl-C stays what it was.
"""

import os
import signal
import sys
from pathlib import Path
from types import FrameType


def is_program() -> bool:
    """Returns whether this process was started as the program, so that nobody else waits for Ctrl-C."""
    if sys.argv[:1] == ["-m"]:  # so it stands there while the module after -m is looked for
        after = sys.orig_argv[sys.orig_argv.index("-m") + 1 :] if "-m" in sys.orig_argv else []
        return after[:1] == ["minispec"] or "-mminispec" in sys.orig_argv
    return bool(sys.argv) and Path(sys.argv[0]).name in ("minispec", "minispec.exe")


def end(number: int, frame: FrameType | None) -> None:
    """Ends the process at once: an exception could be lost, or turned into another, by what is imported."""
    os.write(2, b"minispec: interrupted\n")
    os._exit(130)


def begin_import() -> None:
    """Lets Ctrl-C end the process until `end_import`, if this is the program and nobody has changed that."""
    if is_program() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, end)


def end_import() -> None:
    """Makes Ctrl-C an exception again, which commands can tidy up after."""
    if signal.getsignal(signal.SIGINT) is end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


begin_import()
