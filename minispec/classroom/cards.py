"""What notebooks call, `check`, `hint`, `goal` and `wrote`, and the cards that they answer with.

A card has a glyph and a word for its kind, so that colour never speaks alone. It brings its own background
and ink, so that it reads the same in light and dark themes. Its text twin says the same in characters.
"""

import html
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from minispec.classroom.exercise import Exercise
from minispec.classroom.exercises import EXERCISES
from minispec.evidence.checker.calls import one_line
from minispec.evidence.checker.guard import OutOfTime
from minispec.io.files import read_table

Kind = Literal["right", "wrong", "other", "blank", "ask", "hint", "goal", "wrote"]

STYLES: Mapping[str, Mapping[str, str]] = read_table(__file__, "cards.toml")


@dataclass(frozen=True)
class Card:
    """An answer to a student."""

    kind: Kind  #: what sort of answer
    title: str  #: of the question or the exercise
    paragraphs: tuple[str, ...] = ()  #: in plain words
    choices: tuple[tuple[str, str], ...] = ()  #: what may be chosen, by letter
    detail: str = ""  #: lines in a fixed-width font, such as a counterexample or a picture made of characters

    @property
    def passed(self) -> bool:
        """Whether the card says that something is right."""
        return self.kind == "right"

    @property
    def heading(self) -> str:
        """The first line: glyph, word and title."""
        return "{glyph} {word}: ".format_map(STYLES[self.kind]) + self.title

    def text(self) -> str:
        """Returns the card in characters."""
        choices = (f"  {letter}  {choice}" for letter, choice in self.choices)
        detail = (f"    {line}" for line in self.detail.splitlines())
        return "\n".join([self.heading, *self.paragraphs, *choices, *detail])

    def html(self) -> str:
        """Returns the card as HTML with inline styles only."""
        style = STYLES[self.kind]
        block = '<div style="{}">{}</div>'.format
        parts = [block(f"font-weight:bold;color:{style['ink']};margin-bottom:0.3em", escape(self.heading))]
        parts += [block("margin:0.3em 0", escape(text)) for text in self.paragraphs]
        for letter, choice in self.choices:
            parts.append(block("margin:0.15em 0 0.15em 1em", f"<b>{letter}</b>&ensp;{escape(choice)}"))
        parts += [f'<pre style="{DETAIL}">{escape(self.detail)}</pre>'] if self.detail else []
        frame = f"{FRAME};border-left:6px solid {style['edge']}"
        return f'<div role="note" style="{frame}">{"".join(parts)}</div>'

    def __str__(self) -> str:
        return self.text()

    def _repr_mimebundle_(self, **options: Any) -> Mapping[str, Any]:
        return {"text/html": self.html(), "text/plain": self.text()}


FRAME = (
    "background:#ffffff;color:#1a1a1a;border:1px solid #c8c8c8;border-radius:4px;"
    "padding:0.6em 0.9em;margin:0.4em 0;max-width:46em;line-height:1.45"
)
DETAIL = (
    "background:#f4f4f4;color:#1a1a1a;padding:0.5em 0.7em;margin:0.4em 0;overflow-x:auto;"
    "white-space:pre-wrap;font-size:0.92em"
)
escape = partial(html.escape, quote=False)


def check(key: str, answer: Any = None, strict: bool = False) -> Card:
    """Looks at an answer and shows a card; make it the last line of a cell.

    Args:
        key: the exercise's name.
        answer: what was written: a function or a class, without brackets.
        strict: raise if it is not right. For tests: in a notebook the rest should still run.

    Raises:
        AssertionError: if `strict`, and the answer is not right; its text is the card's.
    """
    card = card_about(key, lambda exercise: card_for(exercise, answer))
    if strict and not card.passed:
        raise AssertionError(card.text())
    return card


def card_for(exercise: Exercise, answer: Any) -> Card:
    """Returns what is said to an answer, whatever it is."""
    try:
        judgement = exercise.judge(answer)
    except (Exception, OutOfTime, SystemExit) as error:  # somebody's code may do anything
        fault = f"Your code could not be judged. It ended in {one_line(error)}"
        return Card("wrong", exercise.title, (fault,))
    paragraphs = [judgement.message]
    if judgement.verdict != "right" and exercise.hints:
        paragraphs.append(f'There are hints: hint("{exercise.key}", 1) and hint("{exercise.key}", 2).')
    return Card(judgement.verdict, exercise.title, tuple(paragraphs), detail=judgement.detail)


def hint(key: str, number: int = 1) -> Card:
    """Shows a hint; the second says more than the first."""

    def make_card(exercise: Exercise) -> Card:
        text = f"There are two hints, 1 and 2; there is no {number!s:.20}."
        if number in (1, 2):
            text = f"{number} of 2. {exercise.hints[number - 1]}"
        return Card("hint", exercise.title, (text,))

    return card_about(key, make_card)


def goal(key: str) -> Card:
    """Shows what is wanted, as a picture, with difficulty and minutes."""

    def make_card(exercise: Exercise) -> Card:
        dots = "●" * exercise.difficulty
        effort = f"Difficulty {dots} ({exercise.difficulty} of 3), about {exercise.minutes} minutes."
        return Card("goal", exercise.title, (effort, exercise.goal), detail=exercise.picture.strip("\n"))

    return card_about(key, make_card)


def wrote(*functions: Callable[..., Any], measured: str) -> Card:
    """Shows lines that a notebook was about, whoever wrote them, and one number measured with them."""
    names = ", ".join(function.__name__ for function in functions)
    return Card("wrote", names, (f"Measured: {measured}",), detail="\n\n".join(map(source_of, functions)))


def source_of(function: Callable[..., Any]) -> str:
    """Returns a function's lines, or its name where they are not to be had."""
    try:
        return inspect.getsource(function).strip()
    except (OSError, TypeError):
        return function.__name__


def card_about(
    key: str, make_card: Callable[[Exercise], Card], exercises: Sequence[Exercise] = EXERCISES
) -> Card:
    """Returns a card about an exercise; for an unknown key, a card that lists the known ones."""
    for exercise in exercises:
        if exercise.key == key:
            return make_card(exercise)
    names = ", ".join(exercise.key for exercise in exercises)
    return Card("wrong", "which exercise?", (f"There is no exercise {str(key)[:40]!r}. There is {names}.",))
