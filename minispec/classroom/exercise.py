"""The records behind exercises: what is asked, what is often answered, and what was found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from minispec.classroom.drawing import Drawing


@dataclass(frozen=True)
class Wrong:
    """A typical wrong answer.

    Attributes:
        name: short, with hyphens.
        message: what is said to whoever gives it.
        answer: an answer of this kind. It is run beside the student's, and recognised by what it does.
    """

    name: str
    message: str
    answer: Any


@dataclass(frozen=True)
class Finding:
    """What came of looking at an answer.

    Attributes:
        verdict: whether it is right, wrong, or not written yet.
        message: what to say, in plain words.
        detail: the smallest counterexample, or a score, for a fixed-width font.
        recognised: the name of the typical wrong answer that it behaves like, or an empty string.
    """

    verdict: Literal["right", "wrong", "blank"]
    message: str
    detail: str = ""
    recognised: str = ""


@dataclass(frozen=True)
class Exercise:
    """Something to write.

    Attributes:
        key: its name in notebooks.
        title: a verb and what to do.
        notebook: 1 to 11.
        difficulty: 1 to 3.
        minutes: how long it takes, about.
        stub: the source that a notebook starts the student from.
        hints: two, the second one says more.
        goal: a drawing of what is wanted.
        judge: looks at an answer. It may raise nothing but what the student's own code cannot cause.
        wrong: typical wrong answers, each with its message.
        praise: what is said when it is right.
    """

    key: str
    title: str
    notebook: int
    difficulty: Literal[1, 2, 3]
    minutes: int
    stub: str
    hints: tuple[str, str]
    goal: Drawing
    judge: Callable[[Any], Finding]
    wrong: tuple[Wrong, ...]
    praise: str
