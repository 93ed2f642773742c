"""Running somebody's code: whatever it does, there is an outcome in plain words.

It may raise, return nothing or something else, change what it was handed, or never end.
"""

import dis
import signal
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from minispec.core.records import Draft
from minispec.evidence.checker import guard
from minispec.evidence.checker.calls import one_line
from minispec.evidence.checker.guard import OutOfTime

SECONDS = 30  # for all runs of one check together
BLANK_TEXT = "There is nothing in it yet."
NO_RETURN = "it returned None: does every path end in a `return`?"
EMPTY_OPCODES = {
    "RESUME",
    "NOP",
    "LOAD_CONST",
    "RETURN_VALUE",
    "RETURN_CONST",
}  # of a function without a body


class Malformed(Exception):
    """What came back has not the form that was asked for. The message says what it should be."""


@dataclass(frozen=True)
class Outcome:
    """What came of one run."""

    value: Any = None  #: what came back
    fault: str = ""  #: what went wrong, in plain words, or an empty string
    kind: str = ""  #: the name of the exception, or what else went wrong; equal faults have equal kinds

    @property
    def blank(self) -> bool:
        """Whether nothing has been written yet."""
        return self.kind == "blank"


BLANK = Outcome(fault=BLANK_TEXT, kind="blank")
TIMED_OUT = Outcome(fault="it had not come to an end in time", kind="OutOfTime")


def run_answer(
    run: Callable[..., Any],
    answer: Any,
    arguments: Sequence[Any],
    read: Callable[[Any], Any] = lambda value: value,
) -> Outcome:
    """Runs an answer once, and reads what came back into a form that can be compared.

    `run` is `call_answer`, or another run of `minispec.classroom.trials`. `OutOfTime` goes through: whoever
    has set a limit handles it.
    """
    try:
        return Outcome(read_value(read, require_value(run(answer, *arguments))))
    except NotImplementedError:
        return BLANK
    except Malformed as malformed:
        return Outcome(fault=str(malformed), kind=str(malformed))
    except (Exception, SystemExit) as error:
        return Outcome(fault=describe_error(error, answer), kind=type(error).__name__)


def require_value(value: Any) -> Any:
    """Returns a value that is one; raises NotImplementedError for `...`, and `Malformed` for None."""
    if value is ...:
        raise NotImplementedError
    if value is None:
        raise Malformed(NO_RETURN)
    return value


def read_value(read: Callable[[Any], Any], value: Any) -> Any:
    """Returns what has been read; `Malformed` if it cannot be, for what came back may be any object."""
    try:
        return read(value)
    except Malformed:
        raise
    except (Exception, SystemExit) as error:
        raise Malformed(f"what it returned cannot be read: {one_line(error)}") from None


def call_answer(answer: Any, *arguments: Any) -> Any:
    """Calls an answer.

    Raises:
        Malformed: if it changed what it was handed.
    """
    before = mutable_contents(arguments)
    value = answer(*arguments)
    if mutable_contents(arguments) != before:
        raise Malformed("it changed the input that it was handed; work on a copy")
    return value


def mutable_contents(value: Any) -> Any:
    """Returns what can be changed in an argument (lists, tensors, drafts) as new lists; all else as it is."""
    match value:
        case Tensor():
            return value.tolist()
        case list() | tuple():
            return [mutable_contents(item) for item in value]
        case Draft():
            return [mutable_contents(field) for field in vars(value).values()]
    return value


def describe_error(error: BaseException, answer: Any) -> str:
    """Says what was raised, and in which line of the student's code."""
    code = getattr(answer, "__code__", None)
    where = ""
    for frame in traceback.extract_tb(error.__traceback__):  # a helper beside it has lines of its own
        if code is not None and (frame.filename, frame.name) == (code.co_filename, code.co_name):
            where = f" in line {(frame.lineno or 0) - code.co_firstlineno + 1} of your function"
            where += f", `{frame.line}`" if frame.line else ""
    return f"it raised {one_line(error)}{where}"


def missing_code(answer: Any) -> Outcome | None:
    """Says what is missing where there is no function to run; None if there is one."""
    if answer is None or answer is ...:
        return Outcome(fault="Nothing was handed in yet.", kind="blank")
    if not callable(answer):
        fault = f"A function is wanted, not a {type(answer).__name__}: hand in its name, without brackets."
        return Outcome(fault=fault, kind="no function")
    code = getattr(answer, "__code__", None)
    if code is None or any(step.opname not in EMPTY_OPCODES for step in dis.get_instructions(code)):
        return None
    return BLANK if set(code.co_consts) <= {None, answer.__doc__} else None


def time_limit(seconds: float = SECONDS) -> AbstractContextManager[None]:
    """Raises `OutOfTime` in the body when its time is over; not on Windows, nor outside the main thread."""
    is_main = threading.current_thread() is threading.main_thread()
    return guard.time_limit(seconds if is_main and hasattr(signal, "setitimer") else None)


def value_of(answer: Any, *arguments: Any, seconds: float = SECONDS) -> Any:
    """Calls an answer within a limit of seconds, and returns what it does: for tests that grade.

    Raises:
        AssertionError: if it is blank, raises, changes what it was handed or is too slow; it says so.
    """
    outcome = missing_code(answer)
    try:
        with time_limit(seconds):
            outcome = outcome or run_answer(call_answer, answer, arguments)
    except OutOfTime:
        outcome = TIMED_OUT
    assert not outcome.fault, outcome.fault
    return outcome.value


# What may come back, and in which words it is asked for.


def describe_value(value: Any) -> str:
    """Says what kind of thing something is."""
    if isinstance(value, Tensor):
        return f"a tensor of shape {list(value.shape)}"
    return f"{type(value).__name__} {value!s:.60}"


def read_number(value: Any, name: str = "a number") -> float:
    """Reads a number, out of whatever holds one; NaN and infinity are numbers too."""
    with suppress(TypeError, ValueError, RuntimeError):  # the last of a tensor of several
        if not isinstance(value, bool | str):
            return float(value)
    raise Malformed(f"{name} is wanted, and it returned {describe_value(value)}")


def read_integer(value: Any, name: str = "a whole number") -> int:
    """Reads an integer, out of whatever holds one."""
    number = read_number(value, name)
    if not number.is_integer():
        raise Malformed(f"{name} is wanted, and it returned {number:g}")
    return int(number)


def read_ids(value: Any, name: str = "a list of token ids", count: int | None = None) -> tuple[int, ...]:
    """Reads a list of whole numbers, `count` of them if that is given."""
    if isinstance(value, Tensor) and value.dim() == 1:
        value = value.tolist()
    if not isinstance(value, list | tuple):
        raise Malformed(f"{name} is wanted, and it returned {describe_value(value)}")
    try:
        integers = tuple(read_integer(item) for item in value)
    except Malformed:
        raise Malformed(f"{name} is wanted, and something in it is no whole number: {value!s:.80}") from None
    if count not in (None, len(integers)):
        raise Malformed(f"{name} is wanted, and it returned {len(integers)} numbers")
    return integers


def read_tensor(value: Any, shape: tuple[int, ...] | None = None, name: str = "a tensor") -> Tensor:
    """Reads a tensor of numbers, [shape] if one is given, as float64."""
    try:
        tensor = torch.as_tensor(value, dtype=torch.float64).detach().cpu()
    except (TypeError, ValueError, RuntimeError):
        raise Malformed(f"{name} is wanted, and it returned {describe_value(value)}") from None
    if shape is not None and tuple(tensor.shape) != shape:
        raise Malformed(f"{name} of shape {list(shape)} is wanted, and it has shape {list(tensor.shape)}")
    return tensor


def as_tuples(value: Any) -> Any:
    """Returns nested lists as nested tuples."""
    return tuple(as_tuples(item) for item in value) if isinstance(value, list) else value
