"""Judging by behaviour: the student's function, the right one and typical wrong ones run on small trials.

Trials go from the smallest up, so the first that differs is the smallest counterexample. A wrong answer is
recognised if it gives the student's results wherever these differ from the right ones.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from numbers import Number
from typing import Any

import torch
from torch import Tensor

from minispec.classroom.exercise import Finding, Wrong
from minispec.classroom.running import (
    SECONDS,
    Malformed,
    Outcome,
    OutOfTime,
    attempt,
    described,
    time_limit,
    unwritten,
)

CLOSE = 1e-6  # students may compute in float32


@dataclass(frozen=True)
class Trial:
    """One call.

    Attributes:
        text: the call as people write it.
        make: returns fresh arguments.
    """

    text: str
    make: Callable[[], tuple[Any, ...]]


def call(name: str, *arguments: Any) -> Trial:
    """Returns the trial of a function of this name, with a fresh copy of the arguments each time."""
    return Trial(f"{name}({', '.join(map(str, arguments))})", lambda: copy.deepcopy(arguments))


@dataclass(frozen=True)
class Bench:
    """Everything that an answer is compared with.

    Attributes:
        right: the right function.
        trials: from the smallest up.
        wrong: typical wrong answers; where several fit, the first one counts.
        read: turns what came back into nested tuples of numbers and texts.
        show: writes such a value for people.
        praise: what is said when all trials agree.
        play: makes of an answer the function that trials call, where that is not the answer itself.
    """

    right: Callable[..., Any]
    trials: tuple[Trial, ...]
    wrong: tuple[Wrong, ...]
    read: Callable[[Any], Any]
    show: Callable[[Any], str] = field(default=str)
    praise: str = ""
    play: Callable[[Any], Callable[..., Any]] = lambda answer: answer

    def judge(self, answer: Any) -> Finding:
        """Runs an answer on all trials and says what came of it."""
        if (lack := unwritten(answer)) is not None:
            return lack
        should = [self._run(self.right, trial) for trial in self.trials]
        came: list[Outcome] = []
        try:
            with time_limit():
                for trial in self.trials:
                    came.append(self._run(answer, trial))
                    if came[-1].blank or came[-1].kind == "OutOfTime":
                        break
        except OutOfTime:  # between two runs
            if len(came) < len(self.trials):
                fault = f"it had not come to an end after {SECONDS} seconds"
                came.append(Outcome(fault=fault, kind="OutOfTime"))
        failing = [i for i, outcome in enumerate(came) if not same(outcome, should[i])]
        if not failing:
            return Finding("right", self.praise)
        if came[failing[0]].blank:
            return Finding("blank", sentence(came[failing[0]].fault))
        detail = self._detail(self.trials[failing[0]], should[failing[0]], came[failing[0]])
        wrong = self._resembled(came, failing)
        if wrong is not None:
            return Finding("wrong", wrong.message, detail, wrong.name)
        return Finding("wrong", sentence(came[failing[0]].fault or OTHER), detail)

    def _resembled(self, came: Sequence[Outcome], failing: Sequence[int]) -> Wrong | None:
        """Returns the wrong answer that does the same on failing trials, best if also on the others."""
        alike = [wrong for wrong in self.wrong if self._agrees(wrong, came, failing)]
        others = [i for i in range(len(came)) if i not in failing]
        return next((w for w in alike if self._agrees(w, came, others)), alike[0] if alike else None)

    def _agrees(self, wrong: Wrong, came: Sequence[Outcome], trials: Sequence[int]) -> bool:
        return all(same(self._run(wrong.answer, self.trials[i]), came[i]) for i in trials)

    def _run(self, answer: Any, trial: Trial) -> Outcome:
        return attempt(self.play(answer), trial.make(), self.read)

    def _detail(self, trial: Trial, should: Outcome, came: Outcome) -> str:
        given = (came.kind if came.kind.isidentifier() else came.fault) or self.show(came.value)
        return f"{trial.text}\n  should be: {self.show(should.value)}\n  came out:  {given}"


OTHER = "It does not always give what it should. This is the smallest case found:"


def same(one: Outcome, other: Outcome) -> bool:
    """Whether two outcomes are alike: equal values, or faults of one kind."""
    return one.kind == other.kind and (bool(one.kind) or equal(one.value, other.value))


def equal(one: Any, other: Any) -> bool:
    """Whether two nested tuples are equal, numbers up to 1e-6, NaN like NaN."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, Number) and isinstance(other, Number):
        a, b = float(one), float(other)  # type: ignore[arg-type]
        return a == b or abs(a - b) <= CLOSE or (math.isnan(a) and math.isnan(b))
    return bool(one == other)


def sentence(text: str) -> str:
    """Returns text with a capital and a full stop."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?", "!", ":", "…")) else ".")


# What may come back, and in which words it is asked for.


def whole(value: Any, name: str = "a whole number") -> int:
    """Reads an integer, out of whatever holds one."""
    number = real(value, name)
    if not number.is_integer():
        raise Malformed(f"{name} is wanted, and it returned {number:g}")
    return int(number)


def real(value: Any, name: str = "a number") -> float:
    """Reads a number, out of whatever holds one; NaN and infinity are numbers too."""
    if isinstance(value, bool | str) or (isinstance(value, Tensor) and value.numel() != 1):
        raise Malformed(f"{name} is wanted, and it returned {described(value)}")
    try:
        return float(value)
    except (TypeError, ValueError):
        raise Malformed(f"{name} is wanted, and it returned {described(value)}") from None


def ids(value: Any, name: str = "a list of token ids") -> tuple[int, ...]:
    """Reads a list of whole numbers."""
    if isinstance(value, Tensor) and value.dim() == 1:
        value = value.tolist()
    if not isinstance(value, list | tuple):
        raise Malformed(f"{name} is wanted, and it returned {described(value)}")
    try:
        return tuple(whole(item) for item in value)
    except Malformed:
        raise Malformed(f"{name} is wanted, and something in it is no whole number: {value!s:.80}") from None


def numbers(value: Any, shape: tuple[int, ...] | None = None, name: str = "a tensor") -> Tensor:
    """Reads a tensor of numbers, [shape] if one is given, as float64."""
    try:
        tensor = torch.as_tensor(value, dtype=torch.float64).detach().cpu()
    except (TypeError, ValueError, RuntimeError):
        raise Malformed(f"{name} is wanted, and it returned {described(value)}") from None
    if shape is not None and tuple(tensor.shape) != shape:
        raise Malformed(f"{name} of shape {list(shape)} is wanted, and it has shape {list(tensor.shape)}")
    return tensor


def nested(value: Any) -> Any:
    """Returns nested lists as nested tuples."""
    return tuple(nested(item) for item in value) if isinstance(value, list) else value
