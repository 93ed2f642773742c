"""What a class has predicted: guesses read from the notebooks, and counted per question."""

import ast
import operator
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from minispec.classroom.grading.submission import Submission
from minispec.classroom.question import Guess, Question
from minispec.classroom.questions import QUESTIONS, predict

UNREADABLE = "…"  # a guess that no figure of ours can be made of
MOST_NUMBERS = 8  # bars for a question whose answer is a number
ARITHMETIC = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


@dataclass(frozen=True)
class AnswerCount:
    """How many gave one answer."""

    answer: str  #: as it was given
    count: int  #: how many gave it
    right: bool | None = None  #: whether it is right; None if that depends on the machine
    belief: str = ""  #: what somebody believes who gives it, or an empty string


@dataclass(frozen=True)
class Tally:
    """All answers to one question."""

    question: Question  #: what was asked
    bars: tuple[AnswerCount, ...]  #: choices in their order, all of them; or the commonest numbers
    unanswered: int  #: how many left it open


def guesses_in(submission: Submission) -> dict[str, Any]:
    """Returns what a student has guessed, by question: the last guess of each that is one. Nothing is run."""
    known = {question.key for question in QUESTIONS}
    found: dict[str, Any] = {}
    for source in submission.sources:
        for statement in source.statements:
            found |= {key: guess for key, guess in predictions_in(statement.node) if guess is not None}
    return {key: guess for key, guess in found.items() if key in known}


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
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return tuple(value_of(part) for part in parts)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return value_of(ast.BinOp(ast.Constant(0), ast.Sub(), operand))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC:
            numbers = value_of(left), value_of(right)
            if all(isinstance(x, int | float) and abs(x) < 1e15 for x in numbers):
                try:
                    return ARITHMETIC[type(op)](*numbers)
                except ZeroDivisionError:
                    return UNREADABLE
    return UNREADABLE


def tally(students: Sequence[Mapping[str, Any]]) -> list[Tally]:
    """Counts the guesses of a class, a mapping by question per student; questions of nobody are left out."""
    found = []
    for question in QUESTIONS:
        said = [student[question.key] for student in students if question.key in student]
        guesses = [predict(question.key, guess=guess) for guess in said]
        bars = numbers(guesses) if question.numeric else choices(question, guesses)
        if odd := sum(guess.guess is None for guess in guesses):
            bars.append(AnswerCount("no possible answer", odd, False))
        if guesses:
            found.append(Tally(question, tuple(bars), len(students) - len(guesses)))
    return found


def choices(question: Question, guesses: Sequence[Guess]) -> list[AnswerCount]:
    """Returns a bar for each choice."""
    counts, bars = Counter(guess.guess for guess in guesses), []
    for letter, choice in question.choices.items():
        bars.append(AnswerCount(f"{letter}  {choice.text}", counts[letter], choice.right, choice.belief))
    return bars


def numbers(guesses: Sequence[Guess]) -> list[AnswerCount]:
    """Returns a bar for each of the commonest numbers, in their order, and one for all others."""
    given: dict[Any, Guess] = {guess.guess: guess for guess in guesses if guess.guess is not None}
    counts: Counter[Any] = Counter(guess.guess for guess in guesses if guess.guess is not None)
    bars = []
    for number in sorted(number for number, _ in counts.most_common(MOST_NUMBERS)):
        guess = given[number]
        belief = next((slip.belief for slip in guess.slips if slip.number == number), "")
        bars.append(AnswerCount(guess.number(number), counts[number], guess.right, belief))
    others = counts.total() - sum(bar.count for bar in bars)
    return bars + ([AnswerCount("other numbers", others)] if others else [])


def histogram_text(tallies: Sequence[Tally], width: int = 30) -> str:
    """Writes the class's predictions with a bar for each answer, of at most `width` characters."""
    blocks = []
    for one in tallies:
        most = max(bar.count for bar in one.bars)
        lines = [f"{one.question.notebook}. {one.question.text}"]
        for bar in one.bars:
            sign = {True: "✓", False: "✗", None: " "}[bar.right]
            lines.append(
                f"  {sign} {'█' * round(width * bar.count / most):{width}} {bar.count:3}  {bar.answer}"
            )
            if bar.count and bar.belief:
                lines.append(f"    {'':{width}}      (believes: {bar.belief})")
        if one.unanswered:
            lines.append(f"    {'':{width}} {one.unanswered:3}  gave no answer")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)
