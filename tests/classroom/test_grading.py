"""Grading: answers are found without running anything, and judged where none of their code runs."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from book.layout import cut_texts, drawn_texts, overlapping_texts

from minispec.classroom.exercises import EXERCISES
from minispec.classroom.grading import chosen, grade, histogram_text, read_submissions, tally
from minispec.classroom.grading import process as process_module
from minispec.classroom.grading.answers import answer_in
from minispec.classroom.grading.guesses import guesses_in
from minispec.classroom.grading.process import Gone, Worker
from minispec.classroom.grading.remote import judged
from minispec.classroom.grading.report import csv_text
from minispec.classroom.grading.submission import Submission, read_source
from minispec.show.plots.guesses import Given, guess_bars

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
BY_KEY = {exercise.key: exercise for exercise in EXERCISES}
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="foster parents are Linux's")


def handed_in(folder, **files):
    """Returns the submission of a student with these files; a list of cells makes a notebook."""
    home = folder / "ann"
    home.mkdir()
    for name, content in files.items():
        if isinstance(content, str):
            (home / f"{name}.py").write_text(content)
            continue
        cells = [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in content]
        (home / f"{name}.ipynb").write_text(json.dumps({"cells": cells}))
    (submission,) = read_submissions(folder)
    return submission


# Finding answers.


def test_an_answer_is_the_function_and_what_it_needs(tmp_path):
    """Helpers, imports and constants come along, in order and however deep; everything else is left out."""
    cells = [
        "import torch\nimport os\nlaunch_missiles()",
        "LIMIT = 0\nOTHER = explode()",
        "def deeper(x):\n    return x.clamp(min=LIMIT)",
        "def helper(x):\n    return [deeper(y) for y in [x]][0]",
        "def residual(p, q):\n    return helper(p - q)\n\ncheck('residual', residual)",
        "LIMIT = 1e-9; print('now')",
    ]
    answer = answer_in(handed_in(tmp_path, mine=cells), BY_KEY["residual"])
    assert not answer.blank and answer.name == "residual"
    lines = [line for line in answer.source.splitlines() if line and not line.startswith(" ")]
    wanted = ["LIMIT = 0", "def deeper(x):", "def helper(x):", "def residual(p, q):", "LIMIT = 1e-09"]
    assert lines == wanted


@pytest.mark.parametrize("magic", ["%matplotlib inline", "!pip list", "?residual", "residual?", "%%time"])
def test_lines_for_jupyter_are_left_out(tmp_path, magic):
    """A cell that speaks to Jupyter is read all the same."""
    cell = f"{magic}\ndef residual(p, q):\n    return p - q"
    answer = answer_in(handed_in(tmp_path, mine=[cell]), BY_KEY["residual"])
    assert "return p - q" in answer.source


def test_a_written_answer_counts_more_than_a_stub_and_the_last_more_than_the_first(tmp_path):
    """A stub left standing in another notebook, or below the answer, hides nothing."""
    stub = BY_KEY["residual"].stub
    first, last = ("def residual(p, q):\n    return 1", "def residual(p, q):\n    return 2")
    submission = handed_in(tmp_path, a06=[first, stub], b07=[last, stub], c08=[stub])
    answer = answer_in(submission, BY_KEY["residual"])
    assert "return 2" in answer.source and "..." not in answer.source
    named = {"06_verify": [first], "11_map": [last]}
    (tmp_path / "other").mkdir()
    submission = handed_in(tmp_path / "other", **named)
    assert "return 1" in answer_in(submission, BY_KEY["residual"]).source


def test_the_notebooks_as_they_come_are_blank():
    """An untouched copy holds all fourteen, each blank; nothing is run to know it."""
    sources = tuple(read_source(path, path.name) for path in sorted(NOTEBOOKS.glob("[0-9]*.ipynb")))
    submission = Submission("ann", sources)
    assert [fault for source in sources for fault in source.faults] == []
    assert [answer_in(submission, exercise).blank for exercise in EXERCISES] == [True] * len(EXERCISES)
    assert guesses_in(submission) == {}


def test_an_import_is_no_answer_and_what_is_ours_is_told(tmp_path):
    """Who imports the solution has written nothing; who calls it is told so to the teacher."""
    submission = handed_in(tmp_path, mine="from minispec.core.verify import residual\n")
    assert answer_in(submission, BY_KEY["residual"]) is None
    (tmp_path / "other").mkdir()
    text = "import minispec\nfrom minispec import Verdict\n\ndef my_verifier(*a):\n    Verdict\n"
    submission = handed_in(tmp_path / "other", mine=text + "    return minispec.verify_rejection(*a)\n")
    answer = answer_in(submission, BY_KEY["write-the-verifier"])
    assert answer.uses == ("minispec.verify_rejection",)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("mine.ipynb", "{"),
        ("mine.ipynb", "[]"),
        ("mine.ipynb", '{"cells": 3}'),
        ("mine.py", "def residual(p, q:"),
        ("mine.py", "(" * 5000),
        ("mine.py", "\0"),
    ],
)
def test_what_cannot_be_read_is_told(tmp_path, name, content):
    """A damaged file is a fault with the file's name, and no error."""
    (tmp_path / name).write_text(content)
    (submission,) = read_submissions(tmp_path)
    (source,) = submission.sources
    assert source.statements == () and source.faults[0].startswith(name)


def test_a_broken_cell_leaves_the_others(tmp_path):
    """One cell with a typing error does not cost the rest of the notebook."""
    cells = ["def broken(:", "def residual(p, q):\n    return p"]
    submission = handed_in(tmp_path, mine=cells)
    assert "return p" in answer_in(submission, BY_KEY["residual"]).source
    assert "cell 1" in submission.sources[0].faults[0]


def test_folders_files_hidden_ones_and_solutions(tmp_path):
    """A student is a folder or a file; checkpoints, links and copies of our solutions are nobody's work."""
    (tmp_path / "ben" / "solutions").mkdir(parents=True)
    (tmp_path / "ben" / ".ipynb_checkpoints").mkdir()
    for name in ("06.py", "solutions/06.py", ".ipynb_checkpoints/06.py", "notes.txt"):
        (tmp_path / "ben" / name).write_text("x = 1")
    (tmp_path / "ann.py").write_text("x = 1")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "link.py").symlink_to(tmp_path / "ann.py")
    found = read_submissions(tmp_path)
    assert [(s.student, [source.name for source in s.sources]) for s in found] == [
        ("ann", ["ann.py"]),
        ("ben", ["06.py"]),
    ]


def test_no_class_to_grade(tmp_path):
    """No folder, an empty one, and a student's own copy are refused in a line."""
    with pytest.raises(ValueError, match="no folder"):
        read_submissions(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="holds no submission"):
        read_submissions(tmp_path)
    (tmp_path / ".minispec-lab.json").write_text("{}")
    with pytest.raises(ValueError, match="one copy of the notebooks"):
        read_submissions(tmp_path)
    with pytest.raises(ValueError, match="no exercise 'resdual'"):
        chosen(["resdual"])


# Judging from afar.


@pytest.fixture(scope="module")
def worker():
    """One worker for all tests that leave it alive."""
    started = Worker()
    yield started
    started.close()


def found_for(worker, key, source):
    """Loads a source and judges it as an exercise's answer."""
    worker.begin(300, "too late")
    name = answer_name(key)
    loaded = worker.ask({"do": "load", "key": key, "name": name, "source": source})
    assert not {"raised", "verdict"} & loaded.keys(), loaded
    return judged(BY_KEY[key], worker)


def answer_name(key):
    return BY_KEY[key].stub.partition("(")[0].partition(":")[0].split()[1]


VERIFIER = """
import minispec
from minispec.classroom.buggy import rule_with

def my_verifier(draft, target_probs, rng):
    {}
"""


@pytest.mark.parametrize(
    ("body", "verdict", "says"),
    [
        ("return rule_with('correction-from-p')(draft, target_probs, rng)", "wrong", "you draw from p"),
        ("return [][draft.k]", "wrong", "IndexError"),
        ("return (1, 2)", "wrong", "returned a tuple"),
        ("x = 1", "wrong", "returned None"),
        ("target_probs += 1; return minispec.verify_greedy(draft, target_probs, rng)", "wrong", "its input"),
        ("raise NotImplementedError", "blank", "nothing"),
    ],
)
def test_a_rule_in_another_process_is_judged_as_one_in_this(worker, body, verdict, says):
    """Each of the judge's calls crosses the line, and so does each random decision."""
    finding = found_for(worker, "write-the-verifier", VERIFIER.format(body))
    assert finding.verdict == verdict
    assert says in f"{finding.message} {finding.detail}"


@pytest.mark.parametrize(
    ("body", "verdict", "says"),
    [
        ("return True", "wrong", "finds nothing"),
        ("return False", "wrong", "calls right rules wrong"),
        ("return 1 / 0", "wrong", "ZeroDivisionError"),
        ("raise NotImplementedError", "blank", "nothing"),
    ],
)
def test_a_test_in_another_process_is_scored(worker, body, verdict, says):
    """The worker has the same rules under the same names; how it answers is counted here."""
    finding = found_for(worker, "write-a-test", f"def my_test(verifier):\n    {body}\n")
    assert finding.verdict == verdict and says in finding.message


@pytest.mark.parametrize(
    ("source", "verdict", "says"),
    [
        ("def residual(p, q):\n    return p", "wrong", "That is p."),
        ("def residual(p, q):\n    p += 1\n    return p", "wrong", "changed the input"),
        (
            "def residual(p, q):\n    y = 1\n    return y[0]",
            "wrong",
            "line 3 of your function, `return y[0]`",
        ),
        ("def residual(p, q):\n    return object()", "wrong", "a tensor [V] is wanted"),
    ],
)
def test_functions_are_judged_with_the_notebooks_own_words(worker, source, verdict, says):
    """Messages and the line at fault are those of the card."""
    finding = found_for(worker, "residual", source)
    assert finding.verdict == verdict and says.lower() in finding.message.lower()
    assert finding.detail.startswith("residual(")


@pytest.mark.slow
def test_our_own_solutions_get_full_marks_and_stubs_none(tmp_path):
    """All fourteen exercises can be graded from afar."""
    (tmp_path / "right").mkdir()
    for path in (NOTEBOOKS / "solutions").glob("*_solutions.ipynb"):
        (tmp_path / "right" / path.name).write_bytes(path.read_bytes())
    (row,) = grade(read_submissions(tmp_path), EXERCISES, seconds=200)
    assert [mark.verdict for mark in row.marks] == ["right"] * len(EXERCISES), row
    assert row.points == sum(exercise.difficulty for exercise in EXERCISES)


def test_the_clock_ends_a_worker_and_says_why():
    """Whatever the code catches, the process is gone, and so is its home."""
    worker = Worker()
    home = worker._scratch
    assert home.is_dir()
    source = "while True:\n    try:\n        list(range(99))\n    except BaseException:\n        1"
    worker.begin(0.5, "it had not come to an end")
    with pytest.raises(Gone, match="it had not come to an end"):
        worker.ask({"do": "load", "key": "residual", "name": "residual", "source": source})
    worker.close()
    assert worker._process.poll() is not None and not home.exists()


def test_a_worker_sees_none_of_the_teachers_variables(monkeypatch):
    """Keys and the like do not cross."""
    monkeypatch.setenv("SECRET_KEY", "1234")
    assert "SECRET_KEY" not in process_module.clean_environment(Path("x"))
    assert process_module.clean_environment(Path("x"))["HOME"] == "x"


# The warden, with no fence before it.


def under_warden(script, *arguments):
    """Runs a script in Python under the warden; returns the process."""
    command = [sys.executable, "-I", "-S", str(process_module.WARDEN), sys.executable, "-I", "-c", script]
    return subprocess.Popen([*command, *map(str, arguments)], stdout=subprocess.PIPE, start_new_session=True)


def alive(process):
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_for(path):
    """Returns what a file holds as soon as it holds something."""
    for _ in range(1000):
        if path.exists() and path.read_text():
            return int(path.read_text())
        time.sleep(0.01)
    raise AssertionError(f"{path} was not written")


OUTLIVER = """
import os, sys, time
if not os.fork():
    os.setsid()
    if not os.fork():
        open(sys.argv[1], "w").write(str(os.getpid()))
        time.sleep(600)
    os._exit(0)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
"""


@linux
def test_a_child_that_wants_to_outlive_the_worker_is_killed(tmp_path):
    """It has left the session, and its parent is dead: the warden finds it all the same."""
    warden = under_warden(OUTLIVER, tmp_path / "pid")
    assert warden.wait(60) == 0
    assert not alive(wait_for(tmp_path / "pid"))


@linux
def test_the_warden_ends_all_when_told_to(tmp_path):
    """SIGTERM to the warden takes the whole family along."""
    warden = under_warden(OUTLIVER + "time.sleep(600)", tmp_path / "pid")
    outliver = wait_for(tmp_path / "pid")
    assert alive(outliver)
    warden.terminate()
    assert warden.wait(60) == 128 + 9
    assert not alive(outliver)


@linux
def test_who_kills_the_warden_dies_with_it(tmp_path):
    """To kill one's parent is no way out."""
    script = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); os.kill(os.getppid(), 9)"
    warden = under_warden(f"{script}; time.sleep(600)", tmp_path / "pid")
    assert warden.wait(60) == -9
    worker = wait_for(tmp_path / "pid")
    for _ in range(500):
        if not alive(worker):
            return
        time.sleep(0.01)
    os.kill(worker, 9)
    raise AssertionError("it lives on")


# Reports.


def test_a_table_holds_no_formulas(tmp_path):
    """A spreadsheet computes nothing that a student wrote."""
    (tmp_path / "=1+1.py").write_text("x = 1")
    wanted = chosen(["residual"])
    text = csv_text(grade(read_submissions(tmp_path), wanted), wanted)
    assert text.splitlines()[0].startswith(
        "student,points,of,right,residual,residual points,residual message"
    )
    assert text.splitlines()[1].startswith("'=1+1,0,1,0,–,0,Not handed in.")


def predicted(tmp_path, *lines):
    """Returns a class's guesses, one student per line of code."""
    for number, line in enumerate(lines):
        (tmp_path / f"s{number}.py").write_text(line)
    return [guesses_in(submission) for submission in read_submissions(tmp_path)]


def test_guesses_are_read_and_counted(tmp_path):
    """Letters and numbers, sums included; calls of functions are not run; the last guess counts."""
    students = predicted(
        tmp_path,
        'x = predict("correction-again", guess="b")\npredict("correction-again", guess="A) ")',
        'predict("correction-again", {"a": "never"}, "b")\npredict("acceptance-by-hand", guess=3/6)',
        'minispec.classroom.predict("acceptance-by-hand", guess=-(-1) / 4)',
        'predict("acceptance-by-hand", guess=exit())\npredict("no-such-question", guess=1)',
        'predict("law-of-rejection", guess=(6, 4, 2))\npredict("correction-again", guess=None)',
    )
    assert students[2] == {"acceptance-by-hand": 0.25} and "no-such-question" not in students[3]
    counted = {one.question.key: one for one in tally(students)}
    again = counted["correction-again"]
    assert [(bar.count, bar.right) for bar in again.bars] == [(1, True), (1, False), (0, False)]
    assert again.unanswered == 3
    by_hand = counted["acceptance-by-hand"]
    assert [(bar.label.split()[0], bar.count, bar.right) for bar in by_hand.bars] == [
        ("0.25", 1, False),
        ("0.5", 1, True),
        ("no", 1, False),
    ]
    assert "two draws agree" in by_hand.bars[0].belief
    assert counted["law-of-rejection"].bars[0].right is True
    text = histogram_text(tally(students))
    assert "✓ ██████████████████████████████   1  a  never" in text and "3  gave no answer" in text


def test_the_figure_of_guesses_can_be_read():
    """No text over another or over the edge, long answers included; caption and twin have the numbers."""
    long = "a very long answer that goes on and on, as answers of people do when they explain what they think"
    picture = guess_bars(
        f"Is it so? {long}?", [Given(f"a  {long}", 12, True), Given("b  no", 0, False), Given("c", 5)], 3
    )
    lines = drawn_texts(picture.figure)
    assert overlapping_texts(lines) == [] and cut_texts(picture.figure, lines=lines) == []
    assert picture.caption == "17 answered, 12 of them right; 3 gave no answer."
    assert "12 ✓ a  a very" in picture.twin
    with pytest.raises(ValueError, match="no answers"):
        guess_bars("?", [])
