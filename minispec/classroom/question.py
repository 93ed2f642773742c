"""The records behind predictions: a question, and what is said about each answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Number = float | tuple[float, ...]  # several: a law, by the parts of a whole


@dataclass(frozen=True)
class Choice:
    """One possible answer.

    Attributes:
        text: as it stands in the notebook.
        reply: what is said to whoever chose it.
        belief: what somebody believes who chooses it, in a few words; empty for the right answer.
        value: the number that a figure can draw for it, if there is one.
    """

    text: str
    reply: str
    belief: str = ""
    value: float | None = None

    @property
    def right(self) -> bool:
        """Whether it is the right answer."""
        return not self.belief


@dataclass(frozen=True)
class Slip:
    """A wrong number that people often give, the belief behind it, and the reply."""

    number: Number
    belief: str
    reply: str


@dataclass(frozen=True)
class Question:
    """Something to predict before it is shown.

    It has either choices, or a number for its answer, or the numbers of a law.

    Attributes:
        key: its name in notebooks.
        notebook: 1 to 11.
        text: the question.
        choices: by letter; empty if a number is asked for.
        unit: what the number counts, such as `target calls`.
        answer: the number, if it follows from the question alone; None if the notebook computes it. Several
            numbers are a law, such as (6, 4, 2) twelfths; a guess must then sum to the same whole.
        tolerance: how far a guess may be off, relative to the answer.
        reply: what is said with a right number.
        slips: numbers that people often give.
    """

    key: str
    notebook: int
    text: str
    choices: Mapping[str, Choice] = field(default_factory=dict)
    unit: str = ""
    answer: Number | None = None
    tolerance: float = 1e-3
    reply: str = ""
    slips: tuple[Slip, ...] = ()

    @property
    def numeric(self) -> bool:
        """Whether a number is asked for."""
        return not self.choices

    def __post_init__(self) -> None:
        if self.choices and sum(choice.right for choice in self.choices.values()) != 1:
            raise ValueError(f"question {self.key!r} needs exactly one right choice")
        if self.numeric and not self.unit:
            raise ValueError(f"question {self.key!r} asks for a number and needs its unit")
