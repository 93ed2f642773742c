"""What an exercise is, and how an answer is judged: by what it does.

The student's function, the right one and typical wrong ones run on small cases. Cases go from the smallest
up, so the first that differs is the smallest counterexample; degenerate ones come last. A wrong answer is
recognised if it gives the student's results wherever these differ from the right ones. What exercises say
stands in exercises.toml, what they run in Python; keys join the two.
"""

import copy
import inspect
import math
import re
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any, Literal

from minispec.classroom.running import TIMED_OUT, Outcome, call_answer, missing_code, run_answer, time_limit
from minispec.evidence.checker.guard import OutOfTime

TOLERANCE = 1e-6  # students may compute in float32
OTHER = "It does not always give what it should. This is the smallest case found:"
VERBATIM = ("stub", "picture", "cases", "edits")  # as in exercises.toml; other texts are joined to one line
NO_ANSWERS: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Judgement:
    """What came of looking at an answer."""

    verdict: Literal["right", "wrong", "blank"]  #: whether it is right, wrong, or not written yet
    message: str  #: what to say, in plain words
    detail: str = ""  #: the smallest counterexample, or a score, for a fixed-width font


@dataclass(frozen=True)
class Exercise:
    """Something to write."""

    key: str  #: its name in notebooks
    title: str  #: a verb and what to do
    notebook: int  #: its number
    difficulty: Literal[1, 2, 3]  #: 1 to 3
    minutes: int  #: how long it takes, about
    stub: str  #: the source that a notebook starts the student from
    hints: tuple[str, ...]  #: two, the second one says more; none in a second form
    goal: str  #: what is wanted, in a sentence
    praise: str  #: what is said when it is right
    #: typical wrong answers by name, each with what is said to whoever gives one. They are run besides the
    #: student's, and recognised by what they do; where several fit, the first one counts. None where
    #: `judged_by` knows one by something else.
    wrong: Mapping[str, tuple[str, Any]]
    right: Any = None  #: the right answer
    cases: Sequence[Sequence[Any]] = ()  #: what answers are tried on, from the smallest up
    #: the wrong answer, if there is one, that is recognised by where it fails, because its many forms have
    #: different results: whatever fails first where this one does, and nowhere but where this one does.
    by_place: str = ""
    run: Callable[..., Any] = call_answer  #: calls an answer, with a case after it
    case: str = ""  #: says a case, which fills in its places; by default it is a call with these arguments
    read: Callable[[Any], Any] = lambda value: value  #: makes nested tuples, or raises `Malformed`
    show: Callable[[Any], str] = field(default=str)  #: writes such a value for people
    judged_by: Callable[[Any], Judgement] | None = None  #: for answers that cases cannot judge
    picture: str = ""  #: shows the goal in characters

    @property
    def function(self) -> str:
        """The name of the function or class that is to be written."""
        return re.findall(r"^(?:def|class) (\w+)", self.stub, re.MULTILINE)[0]

    @property
    def ordered_cases(self) -> list[Sequence[Any]]:
        """The cases as they are tried: degenerate ones last, shown only where no other fails."""
        return sorted(self.cases, key=is_degenerate)

    def judge(self, answer: Any) -> Judgement:
        """Looks at an answer. Raises nothing but what the student's own code cannot cause."""
        if (missing := missing_code(answer)) is not None:
            return judge_fault(missing)
        if self.judged_by is not None:
            return self.judged_by(answer)
        outcomes = self._outcomes(answer)
        expected = [self._outcome(self.right, case) for case in self.ordered_cases]
        failing = [i for i, outcome in enumerate(outcomes) if not same_outcome(outcome, expected[i])]
        if not failing:
            return Judgement("right", self.praise)
        # What differs only in digits that are not shown would say nothing.
        visible = [i for i in failing if self._shown(outcomes[i]) != self._shown(expected[i])] or failing
        first = visible[0]
        outcome = outcomes[first]
        if outcome.blank:
            return judge_fault(outcome)
        detail = f"{self._text_of(self.ordered_cases[first])}\n  should be: {self._shown(expected[first])}\n"
        detail += f"  came out:  {self._shown(outcome)}"
        message = (
            self._message_to(outcomes, range(len(outcomes)))
            or self._message_by_place(expected, visible)
            or self._message_to(outcomes, failing)
        )
        return Judgement("wrong", message or as_sentence(outcome.fault or OTHER), detail)

    def _outcomes(self, answer: Any) -> list[Outcome]:
        """Runs an answer on the cases, until one is blank or the time is over."""
        outcomes: list[Outcome] = []
        try:
            with time_limit():
                for case in self.ordered_cases:
                    outcomes.append(self._outcome(answer, case))
                    if outcomes[-1].blank:
                        break
        except OutOfTime:
            outcomes.append(TIMED_OUT)
        return outcomes[: len(self.cases)]

    def _message_to(self, outcomes: Sequence[Outcome], numbers: Sequence[int]) -> str:
        """Returns that of the wrong answer which does the same on the cases of these numbers."""
        cases = self.ordered_cases
        for message, wrong in self.wrong.values():
            if all(same_outcome(self._outcome(wrong, cases[i]), outcomes[i]) for i in numbers):
                return message
        return ""

    def _message_by_place(self, expected: Sequence[Outcome], failing: Sequence[int]) -> str:
        """Returns that of the wrong answer `by_place` if the failing cases are those where it fails."""
        if not self.by_place:
            return ""
        message, wrong = self.wrong[self.by_place]
        theirs = [
            i
            for i, case in enumerate(self.ordered_cases)
            if not same_outcome(self._outcome(wrong, case), expected[i])
        ]
        return message if failing[0] == theirs[0] and set(failing) <= set(theirs) else ""

    def _shown(self, outcome: Outcome) -> str:
        """Returns what came of a run as people write it: an exception's name, another fault, or a value."""
        fault = outcome.kind if outcome.kind.isidentifier() else outcome.fault
        return fault or self.show(outcome.value)

    def _outcome(self, answer: Any, case: Sequence[Any]) -> Outcome:
        """Runs an answer on a fresh copy of a case."""
        return run_answer(self.run, answer, copy.deepcopy(case), self.read)

    def _text_of(self, case: Sequence[Any]) -> str:
        """Returns a case as people write it."""
        return self.case.format(*case) or f"{self.function}({', '.join(map(str, case))})"


def is_degenerate(case: Sequence[Any]) -> bool:
    """Whether an argument is 0 or empty: nothing is asked for, drafted or found."""
    return any(not isinstance(argument, bool) and argument in (0, [], ()) for argument in case)


def judge_fault(outcome: Outcome) -> Judgement:
    """Returns what is said to an answer that is blank, or at fault."""
    return Judgement("blank" if outcome.blank else "wrong", as_sentence(outcome.fault))


def same_outcome(first: Outcome, second: Outcome) -> bool:
    """Whether two outcomes are alike: equal values, or faults of one kind."""
    return first.kind == second.kind and (bool(first.kind) or equal_values(first.value, second.value))


def equal_values(first: Any, second: Any) -> bool:
    """Whether two nested tuples are equal, numbers up to 1e-6, NaN like NaN."""
    if isinstance(first, tuple) and isinstance(second, tuple):
        return len(first) == len(second) and all(map(equal_values, first, second))
    if isinstance(first, Real) and isinstance(second, Real):
        both_nan = math.isnan(first) and math.isnan(second)
        return both_nan or math.isclose(first, second, rel_tol=0, abs_tol=TOLERANCE)
    return bool(first == second)


def as_sentence(text: str) -> str:
    """Returns text with a capital and a full stop."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?", "!", ":", "…")) else ".")


def join_lines(value: Any) -> Any:
    """Returns a text with its lines joined; of lists, as tuples, and tables all that is in them."""
    match value:
        case str():
            return " ".join(value.split())
        case list():
            return tuple(map(join_lines, value))
        case dict():
            return {name: join_lines(inner) for name, inner in value.items()}
    return value


def read_texts(text: str) -> dict[str, dict[str, Any]]:
    """Reads what exercises say, by key: fields of an `Exercise`, but in `wrong` messages only."""
    texts = tomllib.loads(text)
    for key, fields in texts.items():
        joined = {part: join_lines(value) for part, value in fields.items() if part not in VERBATIM}
        fields |= joined | {"key": key}
    return texts


def edit_definition(definition: Any, edits: Mapping[str, str]) -> Any:
    """Returns a function or class, defined anew with pieces of its source replaced.

    Raises:
        ValueError: if a piece does not stand in the source.
    """
    source = inspect.getsource(definition)
    for old, new in edits.items():
        if old not in source:
            raise ValueError(f"{definition.__name__} has no {old!r} to replace")
        source = source.replace(old, new)
    namespace = dict(vars(sys.modules[definition.__module__]))
    exec(source, namespace)
    return namespace[definition.__name__]


def exercise(key: str, wrong: Mapping[str, Any] = NO_ANSWERS, **code: Any) -> Exercise:
    """Returns an exercise: what exercises.toml says under this key, and what it runs.

    `wrong` are the typical wrong answers that `edits` in exercises.toml do not make of the right one, by the
    names of their messages; `code`: the other fields.

    Raises:
        KeyError: if exercises.toml lacks it.
        TypeError: if a part is missing there, or unknown.
        ValueError: if it has other wrong answers.
    """
    fields = dict(TEXTS[key])
    edits_by_name = fields.pop("edits", {})
    answers = {name: edit_definition(code["right"], edits) for name, edits in edits_by_name.items()}
    answers |= wrong
    if names := answers.keys() ^ fields["wrong"].keys():
        raise ValueError(f"exercises.toml or the code lacks wrong answers of {key!r}: {', '.join(names)}")
    messages = {name: (message, answers[name]) for name, message in fields["wrong"].items()}
    return Exercise(**(fields | code | {"wrong": messages}))


TEXTS = read_texts((Path(__file__).parent / "exercises/exercises.toml").read_text(encoding="utf-8"))
