"""What a class has predicted: guesses read from the notebooks, and counted per question."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from minispec.classroom.grading.submission import Submission
from minispec.classroom.predict import Prediction, predict
from minispec.classroom.question import Question
from minispec.classroom.questions import QUESTIONS

UNREADABLE = "…"  # a guess that no figure of ours can be made of
MOST_NUMBERS = 8  # bars for a question whose answer is a number


@dataclass(frozen=True)
class Bar:
    """How many gave one answer.

    Attributes:
        label: the answer.
        count: how many gave it.
        right: whether it is right; None if that depends on the machine.
        belief: what somebody believes who gives it, or an empty string.
    """

    label: str
    count: int
    right: bool | None = None
    belief: str = ""


@dataclass(frozen=True)
class Tally:
    """All answers to one question.

    Attributes:
        question: what was asked.
        bars: choices in their order, or the commonest numbers; every choice has one, also those of nobody.
        unanswered: how many left it open.
    """

    question: Question
    bars: tuple[Bar, ...]
    unanswered: int

    @property
    def answered(self) -> int:
        """How many gave an answer."""
        return sum(bar.count for bar in self.bars)


def guesses_in(submission: Submission) -> dict[str, Any]:
    """Returns what a student has guessed, by question: the last guess of each that is one. Nothing is run."""
    known = {question.key for question in QUESTIONS}
    found: dict[str, Any] = {}
    for source in submission.sources:
        for statement in source.statements:
            for key, guess in predictions_in(statement.node):
                if key in known and guess is not None:
                    found[key] = guess
    return found


def predictions_in(node: ast.stmt) -> Iterator[tuple[str, Any]]:
    """Yields key and guess of each call of `predict` in a statement."""
    for call in ast.walk(node):
        if (
            isinstance(call, ast.Call)
            and ast.unparse(call.func).rpartition(".")[2] == "predict"
            and call.args
        ):
            key = call.args[0]
            given = [word.value for word in call.keywords if word.arg == "guess"] + call.args[2:3]
            if isinstance(key, ast.Constant) and isinstance(key.value, str) and given:
                yield key.value, value_of(given[0])


def value_of(node: ast.expr) -> Any:
    """Returns what an expression of plain numbers and texts comes to; of anything else, `UNREADABLE`."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Tuple | ast.List):
        return tuple(value_of(part) for part in node.elts)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return value_of(ast.BinOp(ast.Constant(0), ast.Sub(), node.operand))
    if isinstance(node, ast.BinOp):
        one, other = value_of(node.left), value_of(node.right)
        if all(isinstance(x, int | float) and abs(x) < 1e15 for x in (one, other)):
            match node.op:
                case ast.Add():
                    return one + other
                case ast.Sub():
                    return one - other
                case ast.Mult():
                    return one * other
                case ast.Div() if other:
                    return one / other
    return UNREADABLE


def tally(students: Sequence[Mapping[str, Any]]) -> list[Tally]:
    """Counts the guesses of a class; questions that nobody has answered are left out.

    Args:
        students: guesses by question, one mapping per student.
    """
    counted = [
        tally_of(question, [guesses.get(question.key) for guesses in students]) for question in QUESTIONS
    ]
    return [one for one in counted if one.answered]


def tally_of(question: Question, said: Sequence[Any]) -> Tally:
    """Counts the guesses at one question; None is none."""
    guesses = [predict(question.key, guess=guess) for guess in said if guess is not None]
    bars = numbers(guesses) if question.numeric else choices(question, guesses)
    odd = sum(guess.guess is None for guess in guesses)
    more = (Bar("no possible answer", odd, False),) if odd else ()
    return Tally(question, (*bars, *more), sum(guess is None for guess in said))


def choices(question: Question, guesses: Sequence[Prediction]) -> tuple[Bar, ...]:
    """Returns a bar for each choice."""
    counts = Counter(guess.guess for guess in guesses)
    return tuple(
        Bar(f"{letter}  {choice.text}", counts[letter], choice.right, choice.belief)
        for letter, choice in question.choices.items()
    )


def numbers(guesses: Sequence[Prediction]) -> tuple[Bar, ...]:
    """Returns a bar for each of the commonest numbers, in their order, and one for all others."""
    given = {label: guess for guess in guesses if (label := label_of(guess))}
    counts = Counter(label for guess in guesses if (label := label_of(guess)))
    common = [label for label, _ in counts.most_common(MOST_NUMBERS)]
    common.sort(key=lambda label: as_parts(given[label]))
    bars = [Bar(label, counts[label], given[label].right, belief(given[label])) for label in common]
    others = sum(counts.values()) - sum(bar.count for bar in bars)
    return (*bars, *((Bar("other numbers", others, None),) if others else ()))


def label_of(guess: Prediction) -> str:
    """Returns a guessed number with its unit; an empty string if there is none."""
    number = guess.guess
    return "" if number is None or isinstance(number, str) else guess.number(number)


def as_parts(guess: Prediction) -> tuple[float, ...]:
    """Returns a guessed number, or law, as something that can be sorted."""
    number = guess.guess
    if isinstance(number, tuple):
        return number
    return (number,) if isinstance(number, float) else ()


def belief(guess: Prediction) -> str:
    """Returns the belief behind a wrong number that people often give, or an empty string."""
    return next((slip.belief for slip in guess.slips if guess.guess == slip.number), "")


def histogram_text(tallies: Sequence[Tally], width: int = 30) -> str:
    """Writes the class's predictions with a bar for each answer.

    Args:
        tallies: from `tally`.
        width: of the longest bar, in characters.
    """
    blocks = []
    for one in tallies:
        most = max(bar.count for bar in one.bars)
        lines = [f"{one.question.notebook}. {one.question.text}"]
        for bar in one.bars:
            sign = {True: "✓", False: "✗", None: " "}[bar.right]
            length = round(width * bar.count / most)
            lines.append(f"  {sign} {'█' * length:{width}} {bar.count:3}  {bar.label}")
            if bar.count and bar.belief:
                lines.append(f"    {'':{width}}      (believes: {bar.belief})")
        if one.unanswered:
            lines.append(f"    {'':{width}} {one.unanswered:3}  gave no answer")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)
