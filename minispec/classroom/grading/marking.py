"""Grading a class: for each student what is right, what is not, and why.

The code of a submission runs in a process of its own. That process says what a function returns. Whether it
is right is decided here, where none of that code has run: nothing that a submission prints, patches or exits
with can make an answer right that is not. What it can do to the machine stands in docs/teaching/grading.md.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from minispec.classroom.exercise import Exercise, Judgement, failed
from minispec.classroom.exercises import EXERCISES
from minispec.classroom.grading.guesses import guesses_in
from minispec.classroom.grading.remote import Gone, Worker, words
from minispec.classroom.grading.submission import Answer, Submission, answer_in
from minispec.classroom.running import BLANK, OutOfTime
from minispec.evidence.checker.calls import one_line

SIGNS = {"right": "✓", "wrong": "✗", "blank": "…", "missing": "–"}


@dataclass(frozen=True)
class Mark:
    """What came of one exercise."""

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
    points: int  #: all points together
    right: int  #: how many exercises are right
    faults: tuple[str, ...]  #: what could not be read
    guesses: dict[str, Any]  #: by question, as they were typed
    exercises: dict[str, Mark]  #: by exercise, in their order


def chosen(keys: str, among: Sequence[Exercise] = EXERCISES) -> tuple[Exercise, ...]:
    """Returns exercises by their names, with commas between, in their order; all of them for no names.

    Raises:
        ValueError: if there is no such exercise.
    """
    known = [exercise.key for exercise in among]
    wanted = keys.replace(",", " ").split() or known
    if unknown := [key for key in wanted if key not in known]:
        raise ValueError(f"there is no exercise {unknown[0]!r}; there is {', '.join(known)}")
    return tuple(exercise for exercise in among if exercise.key in wanted)


def full_marks(exercises: Iterable[Exercise]) -> int:
    """Returns the points of somebody who has everything right."""
    return sum(exercise.difficulty for exercise in exercises)


def grade(
    submissions: Sequence[Submission], exercises: Sequence[Exercise], seconds: float = 120, jobs: int = 1
) -> Iterator[Row]:
    """Grades submissions: yields a row for each, in their order, `jobs` of them at once.

    An answer to one of the exercises that has not come after so many seconds is wrong.
    """
    pool = ThreadPoolExecutor(jobs)  # also for one: a judge's own time limit is the main thread's
    try:
        yield from pool.map(partial(grade_one, exercises=exercises, seconds=seconds), submissions)
    finally:
        pool.shutdown(cancel_futures=True)


def grade_one(submission: Submission, exercises: Sequence[Exercise], seconds: float) -> Row:
    """Grades one student: one process for all exercises, and a fresh one after it has ended."""
    faults = tuple(fault for source in submission.sources for fault in source.faults)
    marks: dict[str, Mark] = {}
    with closing(Worker()) as worker:
        for exercise in exercises:
            if answer := answer_in(submission, exercise):
                judgement = failed(BLANK) if answer.blank else judged(exercise, answer, worker, seconds)
                points = exercise.difficulty if judgement.verdict == "right" else 0
                message = words(judgement.message)
                mark = Mark(judgement.verdict, points, message, judgement.detail, answer.uses)
            else:
                mark = Mark("missing", message=" ".join(["Not handed in.", *faults]))
            marks[exercise.key] = mark
    total = sum(mark.points for mark in marks.values())
    right = sum(mark.verdict == "right" for mark in marks.values())
    return Row(submission.student, total, right, faults, guesses_in(submission), marks)


def judged(exercise: Exercise, answer: Answer, worker: Worker, seconds: float) -> Judgement:
    """Judges one answer; ends the worker if it cannot go on."""
    try:
        loaded = worker.load(answer.source, answer.name, seconds)
        if loaded.kind in ("blank", "no function"):
            return failed(loaded)
        if loaded.kind:
            return Judgement("wrong", f"It cannot be loaded on its own: {loaded.fault}")
        judge = exercise.judged_by
        return judge(worker) if judge else exercise.compare(worker.run_trial)
    except Gone as gone:
        fault = f"No answer: {gone}."
    except (Exception, OutOfTime) as error:  # what came back was not what any judge expects
        fault = f"It could not be judged: {one_line(error)}"
    worker.close()
    return Judgement("wrong", fault)
