"""Running somebody's code: whatever it does, there is an answer in plain words.

It may raise, return nothing or something else, change what it was handed, or run for ever.
"""

from __future__ import annotations

import dis
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from minispec.classroom.exercise import Finding

SECONDS = 30  # for all runs of one check together
NOTHING = "There is nothing in it yet."
EMPTY = {"RESUME", "NOP", "LOAD_CONST", "RETURN_VALUE", "RETURN_CONST"}  # of a function without a body


class Malformed(Exception):
    """What came back has not the form that was asked for. The message says what it should be."""


class OutOfTime(BaseException):
    """The time for a check is over. No `except Exception` of a student's catches it."""


@dataclass(frozen=True)
class Outcome:
    """What came of one run.

    Attributes:
        value: what came back, in a form that can be compared.
        fault: what went wrong, in plain words, or an empty string.
        kind: the name of the exception, where one went wrong; equal faults have equal kinds.
        blank: whether nothing has been written yet.
    """

    value: Any = None
    fault: str = ""
    kind: str = ""
    blank: bool = False


def attempt(answer: Any, arguments: tuple[Any, ...], read: Callable[[Any], Any]) -> Outcome:
    """Runs a student's function once.

    Args:
        answer: what the student handed in.
        arguments: fresh ones; they may be changed.
        read: turns what came back into something that can be compared; raises `Malformed` if it cannot.
    """
    before = [kept(value) for value in arguments]
    try:
        value = answer(*arguments)
    except NotImplementedError:
        return Outcome(fault=NOTHING, kind="blank", blank=True)
    except OutOfTime:
        return Outcome(fault=f"it had not come to an end after {SECONDS} seconds", kind="OutOfTime")
    except Malformed as malformed:
        return Outcome(fault=str(malformed), kind=str(malformed))
    except (Exception, SystemExit) as error:
        return Outcome(fault=raised(error, answer), kind=type(error).__name__)
    if value is ...:
        return Outcome(fault=NOTHING, kind="blank", blank=True)
    if value is None:
        return Outcome(fault="it returned None: is the `return` missing?", kind="None")
    if any(changed(value, old) for value, old in zip(arguments, before, strict=True)):
        return Outcome(fault="it changed the input that it was handed; work on a copy", kind="changed input")
    try:
        return Outcome(read(value))
    except Malformed as malformed:
        return Outcome(fault=str(malformed), kind=str(malformed))
    except (Exception, SystemExit) as error:  # what came back may be any object
        return Outcome(fault=f"what it returned cannot be read: {one_line(error)}", kind="unreadable")


def kept(value: Any) -> Any:
    """Returns a copy of a list or a tensor; of anything else, nothing."""
    if isinstance(value, list):
        return list(value)
    return value.clone() if isinstance(value, Tensor) else None


def changed(value: Any, old: Any) -> bool:
    """Whether a list or a tensor is no longer what it was."""
    if isinstance(value, list):
        return bool(value != old)
    return isinstance(value, Tensor) and not (value.shape == old.shape and torch.equal(value, old))


def raised(error: BaseException, answer: Any) -> str:
    """Says what was raised, and in which line of the student's code."""
    code = getattr(getattr(answer, "__wrapped__", answer), "__code__", None)
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if code is not None and frame.filename == code.co_filename]
    where = ""
    if code is not None and own:
        where = f" in line {(own[-1].lineno or 0) - code.co_firstlineno + 1} of your function"
        where += f", `{own[-1].line}`" if own[-1].line else ""
    return f"it raised {one_line(error)}{where}"


def described(value: Any) -> str:
    """Says what kind of thing something is."""
    if isinstance(value, Tensor):
        return f"a tensor of shape {list(value.shape)}"
    return f"{type(value).__name__} {value!s:.60}"


def one_line(error: BaseException) -> str:
    """Returns an exception in one line of at most 200 characters."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


def unwritten(answer: Any) -> Finding | None:
    """Says what is missing where there is no function to run; None if there is one."""
    if answer is None or answer is ...:
        return Finding("blank", "Nothing was handed in yet.")
    if not callable(answer):
        kind = type(answer).__name__
        return Finding("wrong", f"A function is wanted, not a {kind}: hand in its name, without brackets.")
    return Finding("blank", NOTHING) if is_empty(answer) else None


def is_empty(answer: Any) -> bool:
    """Whether a function has nothing in it but a docstring, `...` or `pass`."""
    code = getattr(answer, "__code__", None)
    return (
        code is not None
        and all(step.opname in EMPTY for step in dis.get_instructions(code))
        and (set(code.co_consts) <= {None, answer.__doc__})
    )


@contextmanager
def time_limit(seconds: float = SECONDS) -> Iterator[None]:
    """Raises `OutOfTime` in the body when its time is over, where the system can do that."""
    main = threading.current_thread() is threading.main_thread()
    if not main or not hasattr(signal, "setitimer"):  # Windows, or not the main thread: no limit
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise OutOfTime

    previous = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
