"""Grading a folder of submissions, each in a process of its own."""

from minispec.classroom.grading.guesses import histogram_text, tally
from minispec.classroom.grading.marking import Mark, Row, chosen, grade
from minispec.classroom.grading.submission import read_submissions

__all__ = ["Mark", "Row", "chosen", "grade", "histogram_text", "read_submissions", "tally"]
