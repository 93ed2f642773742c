"""What notebooks call: `check` an answer, ask for a `hint`, look at the `goal`, see what you `wrote`."""

import inspect
from collections.abc import Callable
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
    card = card_for(key, answer)
    if strict and not card.passed:
        raise AssertionError(card.text())
    return card


def card_for(key: str, answer: Any) -> Card:
    """Returns what is said to an answer, whatever it is."""
    exercise = exercise_named(key)
    if exercise is None:
        return unknown(key)
    try:
        judgement = exercise.judge(answer)
    except (Exception, OutOfTime, SystemExit) as error:  # somebody's code may do anything
        fault = f"Your code could not be judged. It ended in {one_line(error)}"
        return Card("wrong", exercise.title, (fault,))
    said = [judgement.message]
    if judgement.verdict != "right":
        said.append(f'There are hints: hint("{key}", 1) and hint("{key}", 2).')
    return Card(judgement.verdict, exercise.title, tuple(said), detail=judgement.detail)


def hint(key: str, number: int = 1) -> Card:
    """Shows a hint; the second says more than the first."""
    exercise = exercise_named(key)
    if exercise is None:
        return unknown(key)
    if number not in (1, 2):
        return Card("hint", exercise.title, (f"There are two hints, 1 and 2; there is no {number!s:.20}.",))
    return Card("hint", exercise.title, (f"{number} of 2. {exercise.hints[number - 1]}",))


def goal(key: str) -> Card:
    """Shows what is wanted, as a picture, with difficulty and minutes."""
    exercise = exercise_named(key)
    if exercise is None:
        return unknown(key)
    dots = "●" * exercise.difficulty
    effort = f"Difficulty {dots} ({exercise.difficulty} of 3), about {exercise.minutes} minutes."
    return Card("goal", exercise.title, (effort, exercise.goal), detail=exercise.picture.strip("\n"))


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


def exercises() -> tuple[Exercise, ...]:
    """Returns all exercises. The grader's worker imports this package: it must not load the right answers."""
    from minispec.classroom.exercises import EXERCISES

    return EXERCISES


def exercise_named(key: str) -> Exercise | None:
    """Returns the exercise of a name, or None."""
    return next((exercise for exercise in exercises() if exercise.key == key), None)


def unknown(key: str) -> Card:
    """Returns a card that lists the exercises."""
    names = ", ".join(exercise.key for exercise in exercises())
    return Card("wrong", "which exercise?", (f"There is no exercise {str(key)[:40]!r}. There is {names}.",))
