"""A fence around a worker: what no exercise needs is refused, and the grader is told.

It stops accidents and simple tricks. It is no prison: Python code in the same process finds ways around it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

MEMORY = 8 * 2**30  # bytes of data a worker may hold, where the system counts them
FILE = 16 * 2**20  # bytes of the largest file
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
NEVER = (
    "os.kill",
    "os.fork",
    "os.exec",
    "os.posix_spawn",
    "os.spawn",
    "os.system",
    "os.startfile",
    "pty.spawn",
    "subprocess.",
    "signal.pthread_kill",
    "socket.",
    "ctypes.",
    "resource.",
    "webbrowser.",
)
CHANGES = (
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.mkdir",
    "os.link",
    "os.symlink",
    "os.truncate",
    "os.chmod",
    "os.chown",
    "os.chflags",
    "os.utime",
    "os.setxattr",
    "os.removexattr",
    "shutil.",
)


class Refused(RuntimeError):
    """What was tried is not needed for any exercise, and is not done."""


def put_up(scratch: Path, tell: Callable[[str], None]) -> None:
    """Refuses, from now on and for ever, what no exercise needs.

    That is: other processes, signals, sockets, C libraries by hand, and any change to a file outside of
    `scratch`.

    Args:
        scratch: the folder in which files may be written.
        tell: called with a few words about each attempt, before it is refused.
    """
    inside = str(scratch.resolve()) + os.sep
    limit_memory_and_files()

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event.startswith(NEVER):
            refuse(event)
        if event.startswith(CHANGES):
            outside = [str(a) for a in arguments if isinstance(a, str | bytes) and not is_inside(a, inside)]
            if outside:
                refuse(f"{event} {outside[0]}")
        if event == "open" and is_writing(arguments) and not is_inside(arguments[0], inside):
            refuse(f"write {arguments[0]}")

    def refuse(what: str) -> None:
        tell(what[:200])
        raise Refused(f"no exercise needs {what[:200]}: refused")

    sys.addaudithook(hook)


def is_writing(arguments: tuple[Any, ...]) -> bool:
    """Whether the arguments of Python's `open` event may change a file."""
    _, mode, flags = arguments
    return any(sign in mode for sign in "wax+") if isinstance(mode, str) else bool((flags or 0) & WRITING)


def is_inside(path: Any, folder: str) -> bool:
    """Whether a path lies in a folder, or is where nothing is kept."""
    if not isinstance(path, str | bytes | os.PathLike):
        return True  # a file that is open already
    full = os.path.realpath(os.fsdecode(path))
    return full.startswith(folder) or full == os.devnull


def limit_memory_and_files() -> None:
    """Limits what the process may take, where the system can do that."""
    try:
        import resource
    except ImportError:  # Windows
        return
    for what, most in (("RLIMIT_DATA", MEMORY), ("RLIMIT_FSIZE", FILE), ("RLIMIT_CORE", 0)):
        try:
            resource.setrlimit(getattr(resource, what), (most, most))
        except (AttributeError, ValueError, OSError):  # this system has no such limit
            continue
