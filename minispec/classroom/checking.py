"""What notebooks call: `check` an answer, ask for a `hint`, look at the `goal`, see what you `wrote`."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from minispec.classroom.cards import Card
from minispec.classroom.exercise import Exercise
from minispec.classroom.running import OutOfTime, one_line


def check(key: str, answer: Any = None, strict: bool = False) -> Card:
    """Looks at an answer and shows a card; make it the last line of a cell.

    Args:
        key: the exercise's name.
        answer: what was written: a function or a class, without brackets.
        strict: raise if it is not right. For tests: in a notebook the rest should still run.

    Raises:
        AssertionError: if `strict`, and the answer is not right; its text is the card's.
    """
    card = about(key, lambda exercise: card_for(exercise, answer))
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
    said = [judgement.message]
    if judgement.verdict != "right" and exercise.hints:
        said.append(f'There are hints: hint("{exercise.key}", 1) and hint("{exercise.key}", 2).')
    return Card(judgement.verdict, exercise.title, tuple(said), detail=judgement.detail)


def hint(key: str, number: int = 1) -> Card:
    """Shows a hint; the second says more than the first."""

    def card(exercise: Exercise) -> Card:
        said = f"There are two hints, 1 and 2; there is no {number!s:.20}."
        if number in (1, 2):
            said = f"{number} of 2. {exercise.hints[number - 1]}"
        return Card("hint", exercise.title, (said,))

    return about(key, card)


def goal(key: str) -> Card:
    """Shows what is wanted, as a picture, with difficulty and minutes."""

    def card(exercise: Exercise) -> Card:
        dots = "●" * exercise.difficulty
        effort = f"Difficulty {dots} ({exercise.difficulty} of 3), about {exercise.minutes} minutes."
        return Card("goal", exercise.title, (effort, exercise.goal), detail=exercise.picture.strip("\n"))

    return about(key, card)


def wrote(*functions: Callable[..., Any], measured: str) -> Card:
    """Shows lines that a notebook was about, and in a sentence one number that was measured with them."""
    names = ", ".join(function.__name__ for function in functions)
    return Card("wrote", names, (f"Measured: {measured}",), detail="\n\n".join(map(source_of, functions)))


def source_of(function: Callable[..., Any]) -> str:
    """Returns a function's lines, or its name where they are not to be had."""
    try:
        return inspect.getsource(function).strip()
    except (OSError, TypeError):
        return function.__name__


def about(key: str, card: Callable[[Exercise], Card], among: Sequence[Exercise] | None = None) -> Card:
    """Returns a card about an exercise, by default of ours; for an unknown key, one that lists them."""
    if among is None:  # the grader's worker imports this package: it must not load the right answers
        from minispec.classroom.exercises import EXERCISES

        among = EXERCISES
    for exercise in among:
        if exercise.key == key:
            return card(exercise)
    names = ", ".join(exercise.key for exercise in among)
    return Card("wrong", "which exercise?", (f"There is no exercise {str(key)[:40]!r}. There is {names}.",))
