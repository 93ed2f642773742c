"""Predict, then run: a notebook asks for a guess before it shows what is so.

A prediction never stops a notebook. Unanswered it invites; answered it replies to what was chosen; a guess
that is no choice is told what would be one. A figure may draw `guess.value` besides the truth.

questions.toml has all questions, in the order of the notebooks.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from minispec.classroom.cards import Card, Kind
from minispec.classroom.exercise import join_lines
from minispec.io.files import read_table

Number = float | tuple[float, ...]  # several: a distribution, by the parts of a whole


@dataclass(frozen=True)
class Choice:
    """One possible answer."""

    text: str  #: as it stands in the notebook
    reply: str  #: what is said to whoever chose it
    belief: str = ""  #: what somebody believes who chooses it, in a few words; empty for the right answer
    value: float | None = None  #: the number that a figure can draw for it, if there is one

    @property
    def right(self) -> bool:
        """Whether it is the right answer."""
        return not self.belief


@dataclass(frozen=True)
class Slip:
    """A wrong number that people often give, what somebody believes who gives it, and the reply."""

    number: Number
    belief: str
    reply: str


@dataclass(frozen=True)
class Question:
    """Something to predict before it is shown: one of several choices, a number, or a distribution."""

    key: str  #: its name in notebooks
    notebook: int  #: its number
    text: str  #: the question
    choices: Mapping[str, Choice] = field(default_factory=dict)  #: by letter; empty if a number is asked for
    unit: str = ""  #: what the number counts, such as `target calls`
    #: the number, if it follows from the question alone; None if the notebook computes it. Several numbers
    #: are a distribution, such as (6, 4, 2) twelfths; a guess must then have the same sum.
    answer: Number | None = None
    tolerance: float = 1e-3  #: how far a guess may be off, relative to the answer
    reply: str = ""  #: what is said with a right number
    slips: tuple[Slip, ...] = ()  #: numbers that people often give

    @property
    def numeric(self) -> bool:
        """Whether a number is asked for."""
        return not self.choices


@dataclass(frozen=True)
class Guess:
    """A question, and what was guessed."""

    question: Question  #: what was asked
    choices: Mapping[str, str]  #: the choices as the notebook shows them; empty if a number is asked for
    typed: Any = None  #: the guess as it was typed, or None
    truth: Number | None = None  #: what is so, once it is known; None for a question with choices
    slips: tuple[Slip, ...] = ()  #: numbers that people often give, with replies

    @property
    def guess(self) -> str | Number | None:
        """The guess: a letter, a number or several; None if there is none, or none that could be meant."""
        if self.question.numeric:
            return read_guess(self.typed, self.question.answer)
        letter = self.typed.strip().strip(".)").lower() if isinstance(self.typed, str) else ""
        return letter if letter in self.choices else None

    @property
    def right(self) -> bool | None:
        """Whether the guess is right; None while that cannot be said."""
        if isinstance(self.guess, str):
            return self.question.choices[self.guess].right
        if self.guess is None or self.truth is None:
            return None
        return is_close(self.guess, self.truth, self.question.tolerance)

    @property
    def value(self) -> float | None:
        """The number that a figure can draw for the guess, or None."""
        if isinstance(self.guess, str):
            return self.question.choices[self.guess].value
        return None if isinstance(self.guess, tuple) else self.guess

    @property
    def distribution(self) -> tuple[float, ...] | None:
        """The distribution that a figure can draw for the guess, or None."""
        return tuple(x / sum(self.guess) for x in self.guess) if isinstance(self.guess, tuple) else None

    def against(self, truth: float, slips: Mapping[float, str] | None = None) -> "Guess":
        """Compares the guess with a number that has just been computed; show what it returns.

        slips: replies to numbers that people often give, where these depend on the run.
        """
        more = tuple(Slip(number, reply, reply) for number, reply in (slips or {}).items())
        return replace(self, truth=truth, slips=(*more, *self.question.slips))

    @property
    def card(self) -> Card:
        """What the notebook shows."""
        if self.typed is None and self.truth is not None and self.question.answer is None:
            return Card("ask", self.question.text, (f"It is {self.number(self.truth)}.",))
        if self.guess is None:
            return Card("ask", self.question.text, (self._invitation(),), tuple(self.choices.items()))
        kind: Kind = "ask" if self.right is None else "right" if self.right else "other"
        return Card(kind, self.question.text, (*self._compared(self.guess), self._reply_to(self.guess)))

    def _compared(self, guess: str | Number) -> tuple[str, ...]:
        """Returns the guess and, where it is another one, what is so."""
        if isinstance(guess, str):
            predicted = f"You predicted {guess}: {self.choices[guess]}"
            letter = next(letter for letter, choice in self.question.choices.items() if choice.right)
            truth = f"It is {letter}: {self.choices[letter]}"
        else:
            predicted = f"You predicted {self.number(guess)}."
            truth = "" if self.truth is None else self._distance(guess, self.truth)
        return (predicted, truth) if self.right is False else (predicted,)

    def _distance(self, guess: Number, truth: Number) -> str:
        """Returns what is so, and what of a wrong number is right: some parts of it, or how far it is off."""
        if isinstance(guess, tuple) or isinstance(truth, tuple):
            close = np.isclose(guess, truth, rtol=self.question.tolerance, atol=0)
            right = int(close.sum())
            off = f"{right or 'none'} of the {close.size} numbers {'is' if right == 1 else 'are'} right"
        else:
            off = f"your number is {'more' if guess > truth else 'less'}"
            if guess > 0 and truth > 0:
                off += f", by a factor of {max(guess / truth, truth / guess):.2g}"
        return f"It is {self.number(truth)}: {off}."

    def _invitation(self) -> str:
        answer = self.question.answer
        if self.choices:
            letters = [f'"{letter}"' for letter in self.choices]
            wanted = f"one of {', '.join(letters)}"
            example = letters[0]
        elif isinstance(answer, tuple):
            wanted = f"{len(answer)} numbers that sum to {sum(answer):g} ({self.question.unit})"
            example = f"({', '.join('…' for _ in answer)})"
        else:
            wanted = f"a number ({self.question.unit})"
            example = "a number"
        if self.typed is None:
            return f"Put your guess into the cell as guess={example} and run it again, before you read on."
        return f"{str(self.typed)[:60]!r} is no possible guess here; give {wanted}."

    def _reply_to(self, guess: str | Number) -> str:
        """Returns what a guess shows: the reply to a choice, to a slip, or to the right number."""
        if isinstance(guess, str):
            return self.question.choices[guess].reply
        if self.truth is None:
            return "Noted. Run on, and compare."
        if self.right:
            return self.question.reply or f"It is {self.number(self.truth)}."
        slips = (slip.reply for slip in self.slips if is_close(guess, slip.number, 1e-6))
        return next(slips, self.question.reply)

    def number(self, value: Number) -> str:
        """Returns a number, or several, with the unit."""
        text = f"({', '.join(f'{x:.4g}' for x in value)})" if isinstance(value, tuple) else f"{value:.4g}"
        return f"{text} {self.question.unit}"

    def _repr_mimebundle_(self, **options: Any) -> Mapping[str, Any]:
        return self.card._repr_mimebundle_()

    def __str__(self) -> str:
        return self.card.text()


def read_guess(value: Any, like: Number | None = None) -> Number | None:
    """Returns the number that somebody means, or None; several, of the same sum, if another has several."""
    if isinstance(like, tuple):
        values = value if isinstance(value, tuple | list) else ()
        parts = tuple(x for part in values if isinstance(x := read_guess(part), float) and x >= 0)
        is_whole = len(parts) == len(values) == len(like) and is_close(sum(parts), sum(like), 1e-3)
        return parts if is_whole else None
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return None
    return number if math.isfinite(number) else None


def is_close(first: Number, second: Number, tolerance: float) -> bool:
    """Whether two numbers, or all parts of two distributions, are the same, relative to the second."""
    return np.allclose(first, second, rtol=tolerance, atol=0)


def read_questions(tables: Mapping[str, Any]) -> tuple[Question, ...]:
    """Reads questions, a table each; questions.toml says what stands in it."""
    questions = []
    for key, fields in join_lines(tables).items():
        choices = {letter: Choice(**choice) for letter, choice in fields.pop("choices", {}).items()}
        slips = tuple(Slip(**slip) for slip in fields.pop("slips", ()))
        questions.append(Question(key, **fields, choices=choices, slips=slips))
    return tuple(questions)


QUESTIONS = read_questions(read_table(__file__, "questions.toml"))


def predict(key: str, choices: Mapping[str, str] | None = None, guess: Any = None) -> Guess:
    """Asks a question; make it the last line of a cell.

    Args:
        key: the question's name.
        choices: its choices by letter, as the reader sees them in the cell; by default the question's own.
        guess: a letter, or a number; None: not answered yet. Anything else is told what would be a guess.

    Raises:
        ValueError: if there is no question of this name.
    """
    question = next((q for q in QUESTIONS if q.key == key), None)
    if question is None:
        raise ValueError(f"there is no question {key!r}; there is {', '.join(q.key for q in QUESTIONS)}")
    shown = {letter: (choices or {}).get(letter, choice.text) for letter, choice in question.choices.items()}
    return Guess(question, shown, guess, question.answer, question.slips)
