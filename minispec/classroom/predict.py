"""Predict, then run: a notebook asks for a guess before it shows what is so.

A prediction never stops a notebook. Unanswered it invites; answered it replies to what was chosen; a guess
that is no choice is told what would be one. A figure may draw `prediction.value` beside the truth.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from minispec.classroom.cards import Card
from minispec.classroom.question import Number, Question, Slip
from minispec.classroom.questions import question_named

Guess = str | Number


@dataclass(frozen=True)
class Prediction:
    """A question, and what was guessed.

    Attributes:
        question: what was asked.
        choices: the choices as the notebook shows them; empty if a number is asked for.
        said: the guess as it was typed, or None.
        truth: the number, or law, that is so, once it is known; None for a question with choices.
        slips: numbers that people often give, with replies.
    """

    question: Question
    choices: Mapping[str, str]
    said: Any = None
    truth: Number | None = None
    slips: tuple[Slip, ...] = field(default=())

    @property
    def key(self) -> str:
        """The question's name."""
        return self.question.key

    @property
    def guess(self) -> Guess | None:
        """The guess: a letter, a number or a law; None if there is none, or none that could be meant."""
        if not self.question.numeric:
            return as_letter(self.said, self.choices)
        whole = self.question.answer
        return as_law(self.said, whole) if isinstance(whole, tuple) else as_number(self.said)

    @property
    def choice(self) -> str | None:
        """The text of what was chosen, or None."""
        return self.choices[self.guess] if isinstance(self.guess, str) else None

    @property
    def right(self) -> bool | None:
        """Whether the guess is right; None while that cannot be said."""
        if isinstance(self.guess, str):
            return self.question.choices[self.guess].right
        if self.guess is None or self.truth is None:
            return None
        return near(self.guess, self.truth, self.question.tolerance)

    @property
    def value(self) -> float | None:
        """The number that a figure can draw for the guess, or None."""
        if isinstance(self.guess, str):
            return self.question.choices[self.guess].value
        return None if isinstance(self.guess, tuple) else self.guess

    @property
    def law(self) -> tuple[float, ...] | None:
        """The law that a figure can draw for the guess, its parts summing to 1, or None."""
        return tuple(x / sum(self.guess) for x in self.guess) if isinstance(self.guess, tuple) else None

    def against(self, truth: float, slips: Mapping[float, str] | None = None) -> Prediction:
        """Holds the guess against a number that has just been computed; show what it returns.

        Args:
            truth: what is so.
            slips: replies to numbers that people often give, where these depend on the run.
        """
        more = tuple(Slip(number, reply, reply) for number, reply in (slips or {}).items())
        return replace(self, truth=truth, slips=(*more, *self.question.slips))

    @property
    def card(self) -> Card:
        """What the notebook shows."""
        if self.said is None and self.truth is not None and self.question.answer is None:
            return Card("ask", self.question.text, (f"It is {self.number(self.truth)}.",))
        if self.guess is None:
            return self._invitation()
        if isinstance(self.guess, str):
            chosen = self.question.choices[self.guess]
            said = f"You said {self.guess}: {self.choices[self.guess]}"
            return Card("right" if chosen.right else "wrong", self.question.text, (said, chosen.reply))
        return self._reply_to_number(self.guess)

    def _invitation(self) -> Card:
        letters = ", ".join(f'"{letter}"' for letter in self.choices)
        wanted = f"a number ({self.question.unit})" if self.question.numeric else f"one of {letters}"
        example = "a number" if self.question.numeric else f'"{next(iter(self.choices))}"'
        if isinstance(self.question.answer, tuple):
            many, whole = len(self.question.answer), sum(self.question.answer)
            wanted = f"{many} numbers that sum to {whole:g} ({self.question.unit})"
            example = f"({', '.join(['…'] * many)})"
        if self.said is None:
            say = f"Put your guess into the cell as guess={example} and run it again, before you read on."
        else:
            say = f"{str(self.said)[:60]!r} is no possible guess here; give {wanted}."
        return Card("ask", self.question.text, (say,), tuple(self.choices.items()))

    def _reply_to_number(self, guess: Number) -> Card:
        said = f"You said {self.number(guess)}."
        if self.truth is None:
            return Card("ask", self.question.text, (said, "Noted. Run on, and compare."))
        if near(guess, self.truth, self.question.tolerance):
            reply = self.question.reply or f"It is {self.number(self.truth)}."
            return Card("right", self.question.text, (said, reply))
        for slip in self.slips:
            if near(guess, slip.number, 1e-6):
                return Card("wrong", self.question.text, (said, slip.reply))
        reply = f"It is {self.number(self.truth)}."
        if not isinstance(guess, tuple) and not isinstance(self.truth, tuple):
            reply = f"{reply[:-1]}: you said {'more' if guess > self.truth else 'less'}."
        return Card("wrong", self.question.text, (said, f"{reply} {self.question.reply}".strip()))

    def number(self, value: Number) -> str:
        """Returns a number, or several, with the unit."""
        if isinstance(value, tuple):
            return f"({', '.join(f'{x:.4g}' for x in value)}) {self.question.unit}"
        return f"{value:.4g} {self.question.unit}"

    def _repr_mimebundle_(
        self, include: Sequence[str] | None = None, exclude: Sequence[str] | None = None
    ) -> Mapping[str, Any]:
        return self.card._repr_mimebundle_()

    def __str__(self) -> str:
        return self.card.text()


def predict(key: str, choices: Mapping[str, str] | None = None, guess: Any = None) -> Prediction:
    """Asks a question; make it the last line of a cell.

    Args:
        key: the question's name.
        choices: its choices by letter, as the reader sees them in the cell; by default the question's own.
        guess: a letter, or a number; None: not answered yet. Anything else is told what would be a guess.

    Raises:
        ValueError: if there is no question of this name.
    """
    question = question_named(key)
    own = {letter: choice.text for letter, choice in question.choices.items()}
    shown = {letter: (choices or own).get(letter, text) for letter, text in own.items()}
    return Prediction(question, shown, guess, question.answer, question.slips)


def as_letter(said: Any, choices: Mapping[str, str]) -> str | None:
    """Returns the letter that somebody means, or None."""
    letter = said.strip().strip(".)").lower() if isinstance(said, str) else ""
    return letter if letter in choices else None


def as_number(said: Any) -> float | None:
    """Returns the number that somebody means, or None."""
    if isinstance(said, bool):
        return None
    try:
        number = float(said)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return None
    return number if math.isfinite(number) else None


def as_law(said: Any, like: tuple[float, ...]) -> tuple[float, ...] | None:
    """Returns the law that somebody means, with as many parts and the same sum as another, or None."""
    if not isinstance(said, (tuple, list)) or len(said) != len(like):
        return None
    numbers = [as_number(part) for part in said]
    law = tuple(number for number in numbers if number is not None and number >= 0)
    return law if len(law) == len(like) and near(sum(law), sum(like), 1e-3) else None


def near(one: Number, other: Number, tolerance: float) -> bool:
    """Whether two numbers, or all parts of two laws, are the same, relative to the second."""
    if isinstance(one, tuple) or isinstance(other, tuple):
        if not (isinstance(one, tuple) and isinstance(other, tuple)):
            return False
        return all(near(a, b, tolerance) for a, b in zip(one, other, strict=True))
    return abs(one - other) <= tolerance * max(abs(other), 1e-12)
