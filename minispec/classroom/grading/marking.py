"""Grading a class: for each student what is right, what is not, and why.

The code of a submission runs in a process of its own. That process says what a function returns. Whether it
is right is decided here, where none of that code has run: nothing that a submission prints, patches or exits
with can make an answer right that is not. What it can do to the machine stands in `NOT_STOPPED`.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Literal

from minispec.classroom.exercise import Exercise, Judgement, failed
from minispec.classroom.exercises import EXERCISES
from minispec.classroom.grading.guesses import guesses_in
from minispec.classroom.grading.remote import Gone, Worker, words
from minispec.classroom.grading.submission import Answer, Submission, answer_in
from minispec.classroom.running import BLANK, OutOfTime, one_line

SIGNS = {"right": "✓", "wrong": "✗", "blank": "…", "missing": "–"}


@dataclass(frozen=True)
class Mark:
    """What came of one exercise."""

    key: str  #: of the exercise
    verdict: Literal["right", "wrong", "blank", "missing"]  #: blank: the stub and no more
    points: int = 0  #: the exercise's difficulty if it is right, else 0
    message: str = ""  #: what the card in the notebook would say
    detail: str = ""  #: the smallest counterexample, or a score
    uses: tuple[str, ...] = ()  #: names of minispec in the answer, beyond what the exercise says to use

    @property
    def sign(self) -> str:
        """The verdict as one sign: ✓ right, ✗ wrong, … blank, – missing."""
        return SIGNS[self.verdict]


@dataclass(frozen=True)
class Row:
    """What came of one student."""

    student: str  #: the name of the submission
    marks: tuple[Mark, ...]  #: in the order of the exercises
    guesses: dict[str, Any] = field(default_factory=dict)  #: by question, as they were typed
    faults: tuple[str, ...] = ()  #: what could not be read

    @property
    def points(self) -> int:
        """All points together."""
        return sum(mark.points for mark in self.marks)

    @property
    def right(self) -> int:
        """How many exercises are right."""
        return sum(mark.verdict == "right" for mark in self.marks)


def chosen(keys: Sequence[str], among: Sequence[Exercise] = EXERCISES) -> tuple[Exercise, ...]:
    """Returns exercises by their names, in the order of the notebooks; all of them for no names.

    Raises:
        ValueError: if there is no such exercise.
    """
    known = [exercise.key for exercise in among]
    if unknown := [key for key in keys if key not in known]:
        raise ValueError(f"there is no exercise {unknown[0]!r}; there is {', '.join(known)}")
    return tuple(exercise for exercise in among if not keys or exercise.key in keys)


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
    """Grades a class: a row per submission, in their order.

    Args:
        submissions: from `read_submissions`.
        exercises: what to grade.
        seconds: after which an answer that has not come is wrong; per exercise.
        jobs: how many students at once.
        tell: called with each student's name when the work begins.
    """

    def one(submission: Submission) -> Row:
        tell(submission.student)
        return grade_one(submission, exercises, seconds)

    pool = ThreadPoolExecutor(jobs)  # also for one: a judge's own time limit is the main thread's
    try:
        return list(pool.map(one, submissions))
    finally:
        pool.shutdown(cancel_futures=True)


def grade_one(submission: Submission, exercises: Sequence[Exercise], seconds: float) -> Row:
    """Grades one student: one process for all exercises, and a fresh one after it has ended."""
    faults = tuple(fault for source in submission.sources for fault in source.faults)
    marks: list[Mark] = []
    worker: Worker | None = None
    for exercise in exercises:
        answer = answer_in(submission, exercise)
        if answer is None:
            marks.append(Mark(exercise.key, "missing", message=" ".join(["Not handed in.", *faults])))
            continue
        if answer.blank:
            judgement = failed(BLANK)
        else:
            judgement, worker = judged(exercise, answer, worker, seconds)
        points = exercise.difficulty if judgement.verdict == "right" else 0
        message = words(judgement.message)
        marks.append(Mark(exercise.key, judgement.verdict, points, message, judgement.detail, answer.uses))
    if worker is not None:
        worker.close()
    return Row(submission.student, tuple(marks), guesses_in(submission), faults)


def judged(
    exercise: Exercise, answer: Answer, worker: Worker | None, seconds: float
) -> tuple[Judgement, Worker | None]:
    """Judges one answer, in a new worker for None; returns also the worker, if it can go on."""
    try:
        worker = worker or Worker()
        loaded = worker.load(answer.source, answer.name, seconds)
        if loaded.kind in ("blank", "no function"):
            return failed(loaded), worker
        if loaded.kind:
            return Judgement("wrong", f"It cannot be loaded on its own: {loaded.fault}"), worker
        judge = exercise.judged_by
        return (judge(worker) if judge else exercise.compare(worker.run_trial)), worker
    except Gone as gone:
        judgement = Judgement("wrong", f"No answer: {gone}.")
    except (Exception, OutOfTime) as error:  # what came back was not what any judge expects
        judgement = Judgement("wrong", f"It could not be judged: {one_line(error)}")
    if worker is not None:
        worker.close()
    return judgement, None
