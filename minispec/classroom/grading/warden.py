"""Runs one command and sees to it that nothing of it stays behind. Imports nothing of minispec.

`python warden.py COMMAND …` becomes the foster parent of all that the command starts: on Linux, a process
whose parent has died comes to the warden, also if it has made itself a session of its own. When the command
has ended, the warden is told to end (SIGTERM), or whoever called it is gone, all of them are killed.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

PATIENCE = 0.02  # seconds between two looks
LONGEST = 10.0  # seconds spent on killing
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # <linux/prctl.h>


def main(command: list[str]) -> int:
    """Runs a command to its end, kills what it has left, and returns its exit status.

    Args:
        command: with its arguments. It inherits standard input and output.
    """
    caller = os.getppid()
    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: told.append(number))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller has it too, and decides
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    with subprocess.Popen(command, preexec_fn=die_with_parent) as child:
        forget_standard_files()
        while child.poll() is None and not told and os.getppid() == caller:
            time.sleep(PATIENCE)
        status = child.poll()
        if status is None:
            child.kill()
            child.wait()
            status = -signal.SIGKILL
        sweep()
    return status if status >= 0 else 128 - status


def prctl(option: int, value: int) -> None:
    """Tells Linux something about this process; elsewhere does nothing."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def die_with_parent() -> None:
    """Runs in the child before the command: whoever kills the warden kills itself."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def forget_standard_files() -> None:
    """Leaves the pipes to the command, so that its end is their end."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):
        os.dup2(nothing, number)


def sweep() -> None:
    """Kills and buries all descendants, until there is none."""
    end = time.monotonic() + LONGEST
    while time.monotonic() < end:
        for process in children_of(os.getpid()):
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            buried, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:  # nobody is left
            return
        if not buried:
            time.sleep(PATIENCE / 4)


def children_of(parent: int) -> list[int]:
    """Returns the processes whose parent is this one, where the system lists them in /proc."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            after_name = stat.read_text(errors="replace").rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        if int(after_name[1]) == parent:
            found.append(int(stat.parent.name))
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
