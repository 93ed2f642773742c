"""What a class has predicted: guesses read from the notebooks, and counted per question."""

import ast
import operator
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from minispec.classroom.grading.submission import Submission
from minispec.classroom.questions import QUESTIONS, Guess, predict

UNREADABLE = "…"  # a guess that no figure of ours can be made of
MOST_NUMBERS = 8  # answers listed for a question whose answer is a number
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

    key: str  #: the question's name
    notebook: int  #: its notebook
    question: str  #: what was asked
    answers: list[AnswerCount]  #: choices in their order, all of them; or the commonest numbers
    unanswered: int  #: how many left it open


def guesses_in(submission: Submission) -> dict[str, Any]:
    """Returns what a student has guessed, by question: the last guess of each that is one. Nothing is run."""
    known = {question.key for question in QUESTIONS}
    statements = [statement.node for source in submission.sources for statement in source.statements]
    found: dict[str, Any] = {}
    for call in (call for node in statements for call in ast.walk(node)):
        match call:
            case ast.Call(
                func=ast.Name(id="predict") | ast.Attribute(attr="predict"),
                args=[ast.Constant(value=key), *others],
                keywords=words,
            ) if key in known:
                given = [word.value for word in words if word.arg == "guess"] + others[1:2]
                guess = value_of(given[0]) if given else None
                found |= {} if guess is None else {key: guess}
    return found


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
        guesses = [predict(question.key, guess=own[question.key]) for own in students if question.key in own]
        counts = Counter(guess.guess for guess in guesses)
        odd = counts.pop(None, 0)
        if question.numeric:
            answers = numbers(guesses, counts)
        else:
            answers = [
                AnswerCount(f"{letter}  {choice.text}", counts[letter], choice.right, choice.belief)
                for letter, choice in question.choices.items()
            ]
        if odd:
            answers.append(AnswerCount("no possible answer", odd, False))
        if guesses:
            left = len(students) - len(guesses)
            found.append(Tally(question.key, question.notebook, question.text, answers, left))
    return found


def numbers(guesses: Sequence[Guess], counts: Counter[Any]) -> list[AnswerCount]:
    """Returns the commonest numbers, in their order, and how many guessed others."""
    given = {guess.guess: guess for guess in guesses}
    answers = []
    for number in sorted(number for number, _ in counts.most_common(MOST_NUMBERS)):
        guess = given[number]
        belief = next((slip.belief for slip in guess.slips if slip.number == number), "")
        answers.append(AnswerCount(guess.number(number), counts[number], guess.right, belief))
    others = counts.total() - sum(answer.count for answer in answers)
    return answers + ([AnswerCount("other numbers", others)] if others else [])


def histogram_text(tallies: Sequence[Tally], width: int = 30) -> str:
    """Writes the class's predictions with a bar for each answer, of at most `width` characters."""
    blocks = []
    for one in tallies:
        most = max(answer.count for answer in one.answers)
        lines = [f"{one.notebook}. {one.question}"]
        for answer in one.answers:
            sign = {True: "✓", False: "✗", None: " "}[answer.right]
            bar = "█" * round(width * answer.count / most)
            lines.append(f"  {sign} {bar:{width}} {answer.count:3}  {answer.answer}")
            if answer.count and answer.belief:
                lines.append(f"    {'':{width}}      (believes: {answer.belief})")
        if one.unanswered:
            lines.append(f"    {'':{width}} {one.unanswered:3}  gave no answer")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)
