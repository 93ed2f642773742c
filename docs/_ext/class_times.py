"""Is there time? What students read, run and write in a plan or alone, at stated rates, beside the minutes.

In the last column of a plan *A heading* is a section that is read and run (without one: all of them), but not
after "leave out"; `a-key` is an exercise or a prediction; "(3 min)" is what is done beside the notebook.
"""

import re
from functools import cache

import nbformat
from source_and_prose import ROOT

from minispec.classroom.exercises import EXERCISES
from minispec.classroom.questions import QUESTIONS

GUESS = 0.5  # minutes to choose an answer, and to read what the card says
ASK = 0.5  # to ask a class, and to hear answers
EACH = (1 / 200, 1 / 20, 1 / 6)  # to read a word and a line of code; to run a cell and look at what it shows
MINUTES = {e.key: e.minutes for e in EXERCISES} | {q.key: GUESS for q in QUESTIONS}
NOT_READ = {"exercise", "try-it", "hide-input"}  # tags of cells; an exercise's minutes have its text
RATES = """A minute for 200 words or 20 lines of code; 10 seconds for a cell; 30 for a prediction and for a
question of yours; exercises as [their table](exercises.md) has them:"""
HEADS = ["notebook", "words", "lines", "cells", "predictions", "exercises", "beside", "needed", "planned"]


@cache
def sections(number):
    """Returns for each heading of a notebook the words, lines of code and cells below it."""
    (path,) = (ROOT / "notebooks").glob(f"{number:02d}_*.ipynb")
    heading = ""
    loads = {}
    for cell in nbformat.read(path, as_version=4).cells:
        for part in re.split(r"(?m)^(?=## )", cell.source) if cell.cell_type == "markdown" else ():
            heading = part.splitlines()[0][3:] if part.startswith("## ") else heading
            loads.setdefault(heading, [0, 0, 0])[0] += len(re.findall(r"\S*\w\S*", part))
        if cell.cell_type == "code" and not NOT_READ & {*cell.metadata.get("tags", ())}:
            loads[heading][1] += len(cell.source.splitlines())
            loads[heading][2] += 1
    return loads


def rows_of(page):
    """Returns the rows of a plan by notebook: minutes, what you say, what they do."""
    text = (ROOT / "docs" / "teaching" / f"{page}.md").read_text(encoding="utf-8")
    found = {}
    for part in text.split("\n## "):
        title = re.match(r"Notebook (\d+)", part)
        for minutes, row in re.findall(r"(?m)^\| (\d+) \| (.*) \|$", part):
            *first, says, does = ["", "", *row.split(" | ")]
            if number := title or re.match(r"\[(\d+)\]", first[-1]):
                found.setdefault(int(number[1]), []).append((int(minutes), says, does))
    return found


def work(number, does):
    """Returns the counts of what is done in a notebook, from words to minutes beside it, and its minutes."""
    loads = sections(number)
    wanted, _, unwanted = does.partition("leave out")
    named = [heading for heading in loads if f"*{heading}*" in wanted] or [*loads]
    read = [loads[heading] for heading in named if f"*{heading}*" not in unwanted]
    counts = [*map(sum, zip(*read, strict=True))]
    keys = MINUTES.keys() & {*re.findall(r"`([a-z-]+)`", wanted)}
    guesses = sum(MINUTES[key] == GUESS for key in keys)
    beside = sum(map(int, re.findall(r"\((\d+) min\)", does)))
    minutes = sum(n * each for n, each in zip(counts, EACH, strict=True)) + sum(MINUTES[key] for key in keys)
    return [*counts, guesses, len(keys) - guesses, beside], minutes + beside


def alone(number):
    """Returns the minutes of a notebook that is read from the first line to the last, exercises included."""
    own = (item for item in (*EXERCISES, *QUESTIONS) if item.notebook == number)
    return work(number, " ".join(f"`{item.key}`" for item in own))[1]


def class_times(page):
    """Returns a line for each notebook of a plan, heads first."""
    table = [HEADS]
    for number, rows in rows_of(page).items():
        minutes, says, does = zip(*rows, strict=True)
        counts, needed = work(number, " ".join(does))
        needed += ASK * sum('"' in words for words in says)
        table.append([*map(str, (number, *counts, round(needed), sum(minutes)))])
    return table
