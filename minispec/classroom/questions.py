"""All questions (questions.toml has them in the order of the notebooks), and `predict`, which asks them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from minispec.classroom.question import Guess, Question, questions_in

QUESTIONS = questions_in(Path(__file__).with_name("questions.toml").read_text(encoding="utf-8"))


def question_named(key: str) -> Question:
    """Returns the question of a name.

    Raises:
        ValueError: if there is none; the message lists them.
    """
    for question in QUESTIONS:
        if question.key == key:
            return question
    raise ValueError(f"there is no question {key!r}; there is {', '.join(q.key for q in QUESTIONS)}")


def predict(key: str, choices: Mapping[str, str] | None = None, guess: Any = None) -> Guess:
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
    return Guess(question, shown, guess, question.answer, question.slips)
