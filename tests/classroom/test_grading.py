"""Grading: answers are found without running anything, and judged where none of their code runs."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch

from minispec.classroom.exercises import EXERCISES
from minispec.classroom.grading import submission
from minispec.classroom.grading.guesses import guesses_in, histogram_text, tally
from minispec.classroom.grading.marking import chosen, grade, judged
from minispec.classroom.grading.remote import Worker
from minispec.classroom.grading.submission import Answer, Submission, answer_in, read_source, read_submissions
from minispec.classroom.grading.worker import limit
from minispec.classroom.running import time_limit
from minispec.classroom.wire import decode, encode, line_of
from minispec.cli.grade import WARNING, csv_text
from minispec.cli.lab import MARK
from minispec.core.records import Draft

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc, needs its limits")
BY_KEY = {exercise.key: exercise for exercise in EXERCISES}


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
    """An untouched copy holds all of them, each blank; nothing is run to know it."""
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


BROKEN = [("mine.ipynb", "{"), ("mine.ipynb", "[]"), ("mine.ipynb", '{"cells": 3}')]
BROKEN += [("mine.py", "def residual(p, q:"), ("mine.py", "(" * 5000), ("mine.py", "\0")]


@pytest.mark.parametrize(("name", "content"), BROKEN)
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
    (tmp_path / MARK).touch()
    with pytest.raises(ValueError, match="one copy of the notebooks"):
        read_submissions(tmp_path)
    with pytest.raises(ValueError, match="no exercise 'resdual'"):
        chosen("resdual")


# Judging from afar.


@pytest.fixture(scope="module")
def worker():
    """One worker for all tests that leave it alive."""
    started = Worker()
    yield started
    started.close()


def judgement_of(worker, key, source):
    """Loads a source and judges it as an exercise's answer."""
    exercise = BY_KEY[key]
    name = exercise.stub.partition("(")[0].partition(":")[0].split()[1]
    before = worker._process
    judgement = judged(exercise, Answer(name, source, False), worker, 300)
    assert before in (None, worker._process), judgement
    return judgement


RULE = "def my_verifier(draft, target_probs, rng):\n    {}\n"
TEST = "def my_test(verifier):\n    {}\n"
HANDS_IN = "def residual(p, q):\n    {}\n"
BUGGY = "from minispec.classroom.rules import rule_with\n" + RULE
GREEDY = "import minispec\n" + RULE.format("{}; return minispec.verify_greedy(draft, target_probs, rng)")
JUDGED = [
    (
        "write-the-verifier",
        BUGGY,
        "return rule_with('correction-from-p')(draft, target_probs, rng)",
        "you draw from p",
    ),
    ("write-the-verifier", RULE, "return [][draft.k]", "IndexError"),
    ("write-the-verifier", RULE, "return (1, 2)", "returned a tuple"),
    ("write-the-verifier", RULE, "x = 1", "returned None"),
    ("write-the-verifier", RULE, "rng.bernoulli(7)", "AttributeError"),
    ("write-the-verifier", GREEDY, "target_probs += 1", "changed the input"),
    ("write-the-verifier", GREEDY, "draft.tokens[:] = 0", "changed the input"),
    ("write-a-test", TEST, "return True", "finds nothing"),
    ("write-a-test", TEST, "return False", "calls right rules wrong"),
    ("write-a-test", TEST, "return 1 / 0", "ZeroDivisionError"),
    ("residual", HANDS_IN, "return p", "That is p."),
    ("residual", HANDS_IN, "p += 1\n    return p", "changed the input"),
    ("residual", HANDS_IN, "y = 1\n    return y[0]", "line 3 of your function, `return y[0]`"),
    ("residual", HANDS_IN, "return object()", "a tensor [V] is wanted"),
]


@pytest.mark.parametrize(("key", "source", "body", "says"), JUDGED, ids=[f"{j[0]}: {j[2]}" for j in JUDGED])
def test_an_answer_in_another_process_is_judged_as_one_in_this(worker, key, source, body, says):
    """Each call crosses the line, and each random decision; messages are those of the card."""
    judgement = judgement_of(worker, key, source.format(body))
    assert judgement.verdict == "wrong" and says.lower() in judgement.message.lower()
    assert key != "residual" or judgement.detail.startswith("residual(")


@pytest.mark.parametrize(("key", "source"), [("write-the-verifier", RULE), ("write-a-test", TEST)])
def test_what_is_not_implemented_there_is_blank(worker, key, source):
    """As it is here."""
    judgement = judgement_of(worker, key, source.format("raise NotImplementedError"))
    assert judgement.verdict == "blank" and "nothing" in judgement.message


@pytest.mark.slow
def test_our_own_solutions_get_full_marks_and_stubs_none(tmp_path):
    """All exercises can be graded from afar."""
    (tmp_path / "right").mkdir()
    for path in (NOTEBOOKS / "solutions").glob("*_solutions.ipynb"):
        (tmp_path / "right" / path.name).write_bytes(path.read_bytes())
    (row,) = grade(read_submissions(tmp_path), EXERCISES, seconds=200)
    assert [mark.verdict for mark in row.exercises.values()] == ["right"] * len(EXERCISES), row
    assert row.points == sum(exercise.difficulty for exercise in EXERCISES)


HANDED_IN = Path(__file__).parent / "handed_in"
NEW = {"draft-one-row", "accept-one-row", "write-the-sampled-loop"}  # since then
NEW |= {exercise.key for exercise in EXERCISES if exercise.notebook > 11}


@pytest.mark.slow
def test_what_was_handed_in_before_is_graded_as_it_was():
    """A class of the notebooks before exercises of one row: one got all points, one made four mistakes."""
    wrong, right = sorted(grade(read_submissions(HANDED_IN), EXERCISES, seconds=200), key=lambda r: r.points)
    verdicts = {key: mark.verdict for key, mark in right.exercises.items()}
    assert {key for key, verdict in verdicts.items() if verdict == "missing"} == NEW
    assert {verdict for key, verdict in verdicts.items() if key not in NEW} == {"right"}
    assert right.points == 28 and wrong.points == 0 and right.faults == wrong.faults == ()
    said = {key: mark.message for key, mark in wrong.exercises.items() if mark.verdict == "wrong"}
    assert {key: " ".join(message.split()[:6]) for key, message in said.items()} == {
        "verify-greedily": "You count agreements after the first",
        "residual": "It does not sum to 1.",
        "write-the-verifier": "After a rejection you draw from",
        "cache-lengths": "After full acceptance the draft lacks",
    }
    assert [key for key, mark in wrong.exercises.items() if mark.verdict == "blank"] == ["remember-q"]


LOOP = "while True:\n    try:\n        list(range(99))\n    except BaseException:\n        1"


@linux
def test_the_clock_ends_a_worker_and_all_of_its_group(tmp_path, monkeypatch):
    """Whatever the code catches, the process is gone, its child and its home too. It knew no keys of ours."""
    monkeypatch.setenv("SECRET_KEY", "1234")
    worker, file = Worker(), tmp_path / "told"
    body = f"""import os, time
    child = os.fork() or time.sleep(600)
    open({str(file)!r}, "w").write(f"{{child}} {{'SECRET_KEY' in os.environ}} {{os.environ['HOME']}}")
    return p"""
    assert judgement_of(worker, "residual", HANDS_IN.format(body)).verdict == "wrong"
    child, known, home = file.read_text().split()
    assert known == "False" and home == worker._home and Path(home).is_dir()
    check_end(worker)
    assert not Path(home).exists()
    assert any(not alive(child) or time.sleep(0.01) for _ in range(500))


def check_end(worker):
    """A loop without an end costs half a second, and the worker."""
    assert judgement_of(worker, "residual", HANDS_IN.format("return p")).verdict == "wrong"
    process = worker._process
    judgement = judged(BY_KEY["residual"], Answer("residual", LOOP, False), worker, 0.5)
    assert "had not come to an end after 0.5 seconds" in judgement.message
    assert process.poll() is not None and worker._process is None


def alive(process):
    """Whether a process runs; a zombie does not."""
    try:
        return psutil.Process(int(process)).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_without_process_groups_the_worker_ends_alone(monkeypatch):
    """As on Windows."""
    monkeypatch.delattr(os, "killpg", raising=False)
    worker = Worker()
    check_end(worker)
    assert not Path(worker._home).exists()


def test_a_system_without_limits_is_no_error(monkeypatch):
    """Windows has no `resource`."""
    monkeypatch.setitem(sys.modules, "resource", None)
    limit()


def test_without_timers_code_runs_unlimited(monkeypatch):
    """Windows has no `setitimer`: what a notebook checks is run all the same."""
    monkeypatch.delattr(signal, "setitimer", raising=False)
    with time_limit(0.001):
        time.sleep(0.01)


@linux
def test_memory_has_a_limit(worker):
    """To ask for more is a MemoryError, and the worker lives on."""
    judgement = judgement_of(worker, "residual", HANDS_IN.format("return bytearray(9 * 2**30)"))
    assert judgement.verdict == "wrong" and "MemoryError" in judgement.message


def test_nothing_right_is_loaded_in_the_worker(worker):
    """The answers of the exercises are in no module there, and importing them fails."""
    names = "[n for n in sys.modules if 'classroom.exercises' in n and sys.modules[n]]"
    body = f"import sys\n    raise KeyError(str({names}) + str('minispec.classroom.trials' in sys.modules))"
    assert "KeyError: '[]True'" in judgement_of(worker, "residual", HANDS_IN.format(body)).message
    body = "from minispec.classroom.exercises.rejection import RESIDUAL\n    return RESIDUAL.right(p, q)"
    assert "ModuleNotFoundError" in judgement_of(worker, "residual", HANDS_IN.format(body)).message
    again = f"import sys\n    sys.modules.pop('minispec.classroom.exercises', None)\n    {body}"
    assert "ModuleNotFoundError" in judgement_of(worker, "residual", HANDS_IN.format(again)).message


def test_the_page_on_grading_has_the_warning():
    """Above the list of what nothing stops."""
    page = " ".join((NOTEBOOKS.parent / "docs/teaching/grading.md").read_text("utf-8").split())
    assert 0 < page.find(WARNING) < page.find("What nothing stops a submission from doing: - read what")


# The wire.


VALUES = {
    "plain": (1, 2.5, "x", None, True, [1, [2]], {"a": (1,)}),
    "floats": torch.tensor([[1.5, float("nan")]]),
    "empty": torch.zeros(0, 3, dtype=torch.long),
    "record": Draft(torch.tensor([[1]]), torch.ones(1, 1, 2) / 2),
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_a_value_crosses_the_wire(value):
    """What comes out is what went in."""
    back = decode(json.loads(line_of({"x": encode(value)}))["x"])
    assert repr(back) == repr(value)


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"tensor": "float64", "shape": [-1], "numbers": [1.0]},
        {"tensor": "float64", "shape": [9], "numbers": [1.0]},
        {"tensor": "object", "shape": [1], "numbers": [1]},
        {"tensor": "int64", "shape": [1], "numbers": [10**30]},
        {"tensor": "int64", "shape": ["x"], "numbers": ["x"]},
        {"record": "Popen", "fields": {"dict": []}},
        {"record": "Verdict", "fields": {"dict": [["accepted", 1], ["token", 2]]}},
        {"dict": [[[], 1]]},
        {"other": 3},
    ],
)
def test_what_is_no_value_is_refused(data):
    """Nothing but plain data is believed, and nothing but `ValueError` is raised."""
    with pytest.raises(ValueError, match="that is no value"):
        decode(data)


# Reports.


def test_a_table_holds_no_formulas(tmp_path):
    """A spreadsheet computes nothing that a student wrote."""
    (tmp_path / "=1+1.py").write_text("x = 1")
    wanted = chosen("residual")
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
    counted = {one.key: one for one in tally(students)}
    again = counted["correction-again"]
    assert [(bar.count, bar.right) for bar in again.answers] == [(1, True), (1, False), (0, False)]
    assert again.unanswered == 3
    by_hand = counted["acceptance-by-hand"]
    assert [(bar.answer.split()[0], bar.count, bar.right) for bar in by_hand.answers] == [
        ("0.25", 1, False),
        ("0.5", 1, True),
        ("no", 1, False),
    ]
    assert "two draws agree" in by_hand.answers[0].belief
    assert counted["law-of-rejection"].answers[0].right is True
    text = histogram_text(tally(students))
    assert "✓ ██████████████████████████████   1  a  never" in text and "3  gave no answer" in text


def test_a_folder_that_is_no_class_is_refused(tmp_path, monkeypatch):
    """Too many files, or folders in one another, before any file is read."""
    monkeypatch.setattr(submission, "MOST_FILES", 10)
    monkeypatch.setattr(submission, "read_source", None)
    for number in range(11):
        (tmp_path / f"many/student-{number % 2}").mkdir(parents=True, exist_ok=True)
        (tmp_path / f"many/student-{number % 2}/{number}.txt").touch()
    with pytest.raises(ValueError, match="many holds more than 10 files; is it the folder of a class"):
        read_submissions(tmp_path / "many")
    (tmp_path / "deep/student/1/2/3/4/5/6/7/8/9/10").mkdir(parents=True)
    with pytest.raises(ValueError, match="deep holds more than 10 files"):
        read_submissions(tmp_path / "deep")
    (tmp_path / "hidden/student/.git/1/2/3/4/5/6/7/8/9/10").mkdir(parents=True)
    assert [one.student for one in read_submissions(tmp_path / "hidden")] == ["student"]
