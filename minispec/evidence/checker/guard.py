"""Calling somebody's code so that it cannot end a check, double it or hold it up in silence.

It may call `sys.exit`, which would end the process with the status of a success. It may fork, and then two
processes would go on with the check. It may never come back.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from multiprocessing import Pipe
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")

COPY_SECONDS = 1.0  # seconds in which the copy of a process that has forked may come back
MIN_SECONDS = 0.01  # seconds that are left to a limit which ran out meanwhile


class Stopped(Exception):
    """A call did not simply come back. The message says what happened."""


class OutOfTime(BaseException):
    """The time of a call is over. No `except Exception` of somebody's code catches it."""


class Forks:
    """The pipes in which a copy of this process, made by a fork, says that it came back."""

    latest: Any = None  #: the latest pipe: where to read from, and where to write to
    origin: Any = None  #: in a copy: where to write what the process that was copied reads


def called(function: Callable[..., T], *arguments: object, limit: float | None = None) -> T:
    """Calls a function within a limit of seconds, or without one.

    If it forks and both processes come back, the copy ends here. The limit needs Python to be running: a
    loop in C that never returns to it is not ended.

    Raises:
        Stopped: if it exits, forks and comes back twice, or takes too long.
        ValueError: if there is a limit that this system or this thread cannot keep.
    """
    watch_forks()
    process = os.getpid()
    latest = Forks.latest
    try:
        with time_limit(limit):
            return function(*arguments)
    except SystemExit as error:
        raise Stopped(f"it called sys.exit({'' if error.code is None else repr(error.code)})") from None
    except OutOfTime:
        raise Stopped(f"it had not come back after {limit:g} seconds") from None
    finally:
        if os.getpid() != process:  # this is a copy, and ends here
            if Forks.origin is not None:
                Forks.origin.send(True)
            os._exit(1)
        if Forks.latest is not latest and copy_came_back():
            raise Stopped("it forked, and the copy of the process came back from it too")


@cache
def watch_forks() -> None:
    """Opens a pipe for each fork from now on, where there are any."""

    def before() -> None:
        Forks.latest = Pipe(duplex=False)

    def in_copy() -> None:
        Forks.origin = Forks.latest[1]

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=before, after_in_child=in_copy)


def copy_came_back() -> bool:
    """Waits until the latest copy comes back or ends; one that works on for a second may live."""
    from_copy, to_copy = Forks.latest
    to_copy.close()
    try:
        return from_copy.poll(COPY_SECONDS) and from_copy.recv()
    except EOFError:  # it has ended
        return False


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raises `OutOfTime` in the body when its time is over; None is no limit.

    Raises:
        ValueError: if the limit is no time, or nothing here can keep it.
    """
    if seconds is None:
        yield
        return
    if not 0 < seconds < float("inf"):
        raise ValueError(f"a limit must be seconds above 0, not {seconds}")
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        raise ValueError("a limit needs the main thread, and a system that has SIGALRM; leave it out")

    def stop(number: int, frame: FrameType | None) -> None:
        raise OutOfTime

    previous = signal.signal(signal.SIGALRM, stop)
    started = time.monotonic()
    outer_seconds, _ = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        # A limit around this one goes on; if it ran out meanwhile, it ends as soon as it can.
        remaining = max(outer_seconds - (time.monotonic() - started), MIN_SECONDS) if outer_seconds else 0.0
        signal.signal(signal.SIGALRM, previous)
        signal.setitimer(signal.ITIMER_REAL, remaining)
