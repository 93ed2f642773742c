"""Grading a class: for each student what is right, what is not, and why.

The code of a submission runs in a process of its own, with a scratch home, under a clock. That process says
what a function returns. Whether it is right is decided here, where none of that code has run: nothing that a
submission prints, patches or exits with can make an answer right that is not.

For a machine that holds nothing you would miss, all the same. Whoever knows Python well gets around a fence
that is made of Python, reads what the account may read, and can call our own solution instead of writing one;
`uses` lists what an answer takes from minispec.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Literal

from minispec.classroom.exercise import Exercise, Finding
from minispec.classroom.exercises import EXERCISES
from minispec.classroom.grading.answers import Answer, answer_in
from minispec.classroom.grading.guesses import guesses_in
from minispec.classroom.grading.process import Gone, Worker, words
from minispec.classroom.grading.remote import judged
from minispec.classroom.grading.submission import Submission
from minispec.classroom.running import NOTHING, OutOfTime, one_line

Verdict = Literal["right", "wrong", "blank", "missing"]
SIGNS: dict[str, str] = {"right": "✓", "wrong": "✗", "blank": "…", "missing": "–"}


@dataclass(frozen=True)
class Mark:
    """What came of one exercise.

    Attributes:
        key: of the exercise.
        verdict: right, wrong, blank (the stub is there, and nothing in it), or missing.
        points: the exercise's difficulty if it is right, else 0.
        message: what the card in the notebook would say.
        detail: the smallest counterexample, or a score.
        uses: names of minispec in the answer, beyond what the exercise says to use.
        alarms: what the fence has refused while it ran.
    """

    key: str
    verdict: Verdict
    points: int = 0
    message: str = ""
    detail: str = ""
    uses: tuple[str, ...] = ()
    alarms: tuple[str, ...] = ()

    @property
    def sign(self) -> str:
        """The verdict as one sign: ✓ right, ✗ wrong, … blank, – missing."""
        return SIGNS[self.verdict]


@dataclass(frozen=True)
class Row:
    """What came of one student.

    Attributes:
        student: the name of the submission.
        marks: in the order of the exercises.
        guesses: by question, as they were typed.
        faults: what could not be read.
    """

    student: str
    marks: tuple[Mark, ...]
    guesses: dict[str, Any] = field(default_factory=dict)
    faults: tuple[str, ...] = ()

    @property
    def points(self) -> int:
        """All points together."""
        return sum(mark.points for mark in self.marks)

    @property
    def right(self) -> int:
        """How many exercises are right."""
        return sum(mark.verdict == "right" for mark in self.marks)


def chosen(keys: Sequence[str]) -> tuple[Exercise, ...]:
    """Returns exercises by their names, in the order of the notebooks; all of them for no names.

    Raises:
        ValueError: if there is no such exercise.
    """
    known = {exercise.key for exercise in EXERCISES}
    if unknown := [key for key in keys if key not in known]:
        names = ", ".join(exercise.key for exercise in EXERCISES)
        raise ValueError(f"there is no exercise {unknown[0]!r}; there is {names}")
    return tuple(exercise for exercise in EXERCISES if not keys or exercise.key in keys)


def full_marks(exercises: Iterable[Exercise]) -> int:
    """Returns the points of somebody who has everything right."""
    return sum(exercise.difficulty for exercise in exercises)


def grade(
    submissions: Sequence[Submission],
    exercises: Sequence[Exercise],
    seconds: float = 120,
    jobs: int = 1,
    tell: Callable[[str], None] = lambda student: None,
) -> list[Row]:
    """Grades a class.

    Args:
        submissions: from `read_submissions`.
        exercises: what to grade.
        seconds: after which an answer that has not come is wrong; per exercise.
        jobs: how many students at once.
        tell: called with each student's name when the turn comes.

    Returns:
        A row per submission, in their order.
    """

    def one(submission: Submission) -> Row:
        tell(submission.student)
        return grade_one(submission, exercises, seconds)

    pool = ThreadPoolExecutor(
        jobs
    )  # also with one job: a judge's own time limit works in the main thread only
    try:
        return list(pool.map(one, submissions))
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def grade_one(submission: Submission, exercises: Sequence[Exercise], seconds: float) -> Row:
    """Grades one student: one process for all exercises, and a fresh one after it has ended."""
    faults = tuple(fault for source in submission.sources for fault in source.faults)
    marks: list[Mark] = []
    worker: Worker | None = None
    try:
        for exercise in exercises:
            answer = answer_in(submission, exercise)
            if answer is None:
                marks.append(Mark(exercise.key, "missing", message=" ".join(["Not handed in.", *faults])))
                continue
            if answer.blank:
                marks.append(Mark(exercise.key, "blank", message=NOTHING))
                continue
            worker = worker or Worker()
            finding, alive = try_out(exercise, answer, worker, seconds)
            marks.append(mark_of(exercise, answer, finding, worker.alarms))
            if not alive:
                worker.close()
                worker = None
    finally:
        if worker is not None:
            worker.close()
    return Row(submission.student, tuple(marks), guesses_in(submission), faults)


def try_out(exercise: Exercise, answer: Answer, worker: Worker, seconds: float) -> tuple[Finding, bool]:
    """Judges one answer; returns what came of it, and whether the worker can go on."""
    worker.begin(seconds, f"it had not come to an end after {seconds:g} seconds")
    try:
        loaded = worker.ask({"do": "load", "key": answer.key, "name": answer.name, "source": answer.source})
        if "raised" in loaded:
            text = f"It cannot be loaded on its own: {words(loaded.get('text'))}"
            return Finding("wrong", text), True
        if "verdict" in loaded:
            return Finding(
                "blank" if loaded["verdict"] == "blank" else "wrong", words(loaded["message"])
            ), True
        return judged(exercise, worker), True
    except Gone as gone:
        return Finding("wrong", f"No answer: {gone}."), False
    except (Exception, OutOfTime) as error:  # what came back was not what any judge expects
        return Finding("wrong", f"It could not be judged: {one_line(error)}"), False


def mark_of(exercise: Exercise, answer: Answer, finding: Finding, alarms: Sequence[str]) -> Mark:
    """Returns the mark for a finding."""
    points = exercise.difficulty if finding.verdict == "right" else 0
    message, detail = words(finding.message), finding.detail
    return Mark(
        exercise.key, finding.verdict, points, message, detail, answer.uses, tuple(dict.fromkeys(alarms))
    )
