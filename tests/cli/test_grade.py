"""`minispec grade`: one right, one wrong, one hanging and one hostile submission give four right rows."""

import csv
import io
import json
import sys
from pathlib import Path

import pytest
from pairs import call

sys.path.insert(0, str(Path(__file__).parent))
from submissions import HANGING, NAMES, RIGHT, WRONG, hostile  # noqa: E402

WANTED = "residual,verify-greedily"


@pytest.fixture
def folder(tmp_path):
    """An empty class."""
    path = tmp_path / "class"
    path.mkdir()
    return path


@pytest.mark.slow
def test_four_submissions_four_right_rows(folder, tmp_path, capsys):
    """Right, wrong, hanging, hostile: signs, points and messages; the machine is as it was."""
    table = tmp_path / "marks.csv"
    (folder / "anna.py").write_text(RIGHT)
    (folder / "ben.py").write_text(WRONG)
    (folder / "cleo.py").write_text(HANGING)
    (folder / "dan").mkdir()
    (folder / "dan" / "all.py").write_text(hostile())
    page = tmp_path / "predictions.html"
    status, out, err = call(
        capsys, "grade", folder, "--csv", table, "--json", "--seconds", 6, "--jobs", 2, "--predictions", page,
        "--exercises", f"{WANTED},cache-bytes,positions-computed,shift-the-mask,cache-lengths",
    )  # fmt: skip
    assert status == 0, err
    assert "in a container or on a machine you trust" in err
    students = {one["student"]: one for one in json.loads(out)["students"]}
    check_rows(students)
    rows = {row["student"]: row for row in csv.DictReader(io.StringIO(table.read_text("utf-8-sig")))}
    assert list(rows) == ["anna", "ben", "cleo", "dan"]
    assert {name: row["points"] for name, row in rows.items()} == {
        "anna": "1",
        "ben": "0",
        "cleo": "2",
        "dan": "0",
    }
    assert rows["anna"]["residual"] == "✓" and rows["dan"]["residual"] == rows["ben"]["residual"] == "✗"
    check_predictions(json.loads(out)["predictions"], page.read_text("utf-8"))


def check_rows(students):
    """Each of the four got what it deserved."""

    def verdicts(name):
        return {key: mark["verdict"] for key, mark in students[name]["exercises"].items() if key in WANTED}

    assert verdicts("anna") == {"residual": "right", "verify-greedily": "missing"}
    assert verdicts("ben") == {"residual": "wrong", "verify-greedily": "wrong"}
    assert "That is p." in students["ben"]["exercises"]["residual"]["message"]
    assert "IndexError" in students["ben"]["exercises"]["verify-greedily"]["message"]
    assert verdicts("cleo") == {"residual": "wrong", "verify-greedily": "right"}
    assert "after 6 seconds" in students["cleo"]["exercises"]["residual"]["message"]
    dan = students["dan"]["exercises"]
    assert {mark["verdict"] for mark in dan.values()} == {"wrong"} and len(dan) <= len(NAMES)
    assert "process ended before it had answered" in dan["cache-bytes"]["message"]
    assert "after 6 seconds" in dan["shift-the-mask"]["message"]
    assert students["dan"]["exercises"]["cache-lengths"]["uses"]  # the patches name what is ours


def check_predictions(predictions, page):
    """The class's guesses are counted, with what is right and what people believe."""
    counts = {one["key"]: {a["answer"][:1]: a["count"] for a in one["answers"]} for one in predictions}
    assert counts["correction-again"] == {"a": 1, "b": 2, "c": 0}
    (again,) = (one for one in predictions if one["key"] == "correction-again")
    assert [a["right"] for a in again["answers"]] == [True, False, False] and again["unanswered"] == 1
    assert page.count("<pre>") == 2 and "the correction can equal the rejected token" in page
    assert "http" not in page


def test_a_class_that_wrote_nothing(folder, capsys):
    """Rows of dashes and dots, no process started, a table on standard output alone."""
    (folder / "eve.py").write_text("x = 1\n")
    (folder / "fay.py").write_text("def residual(p, q):\n    ...\n")
    (folder / "gil").mkdir()
    (folder / "hal.ipynb").write_text("{")
    status, out, err = call(capsys, "grade", folder, "--csv", "--exercises", "residual")
    assert status == 0 and "✓ right" in err
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [(row["student"], row["residual"], row["points"], row["of"]) for row in rows] == [
        ("eve", "–", "0", "1"),
        ("fay", "…", "0", "1"),
        ("gil", "–", "0", "1"),
        ("hal", "–", "0", "1"),
    ]
    assert "hal.ipynb is no notebook" in rows[3]["residual message"]


def test_a_semester_is_written_and_graded(folder, tmp_path, capsys):
    """One command writes the stubs; the folder is then graded by the tag; a notebook is never overwritten."""
    stubs = tmp_path / "stubs.ipynb"
    status, out, err = call(capsys, "grade", "--semester", "2027s", "--write", stubs)
    assert status == 0 and "exercises of 2027S" in out and '\\"2027S\\"' in stubs.read_text("utf-8")
    status, _, err = call(capsys, "grade", "--semester", "2027S", "--write", stubs)
    assert status == 2 and err.count("\n") == 1 and "is there already" in err
    (folder / "eve.ipynb").write_bytes(stubs.read_bytes())
    (folder / "fay.py").write_text("def residual(p, q):\n    return p\n")
    chosen = ("--semester", "2027S", "--exercises", "residual,cache-bytes", "--csv")
    status, out, _ = call(capsys, "grade", folder, *chosen)
    rows = list(csv.DictReader(io.StringIO(out)))
    assert status == 0 and [row["residual"] for row in rows] == ["…", "–"]
    assert "look-up-drafter" not in rows[0] and rows[0]["of"] == "2"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "there is no folder"),
        (["class"], "holds no submission"),
        (["class", "marks.csv"], "--csv goes"),
        (["class", "--csv", "--json"], "both want standard output"),
        (["class", "--csv", "no/such/folder.csv"], "there is no folder"),
        (["class", "--predictions", "class"], "it is a folder"),
        (["class", "--exercises", "resdual"], "there is no exercise 'resdual'"),
        (["class", "--seconds", "0"], "--seconds"),
        ([], "Missing argument"),
        (["class", "--semester", "a b"], "letters, digits"),
        (["class", "--semester", "2027S", "--exercises", "look-up-drafter"], "there is no exercise"),
        (["--write", "new.ipynb"], "--semester"),
        (["--semester", "2027S", "--write", "new.txt"], "ends in .ipynb"),
        (["--semester", "2027S", "--write", "no/such.ipynb"], "there is no folder"),
        (["class", "--semester", "2027S", "--write", "new.ipynb"], "grades nothing"),
    ],
)
def test_bad_input_is_one_line(folder, tmp_path, monkeypatch, capsys, arguments, words):
    """Nothing is run, nothing is written."""
    monkeypatch.chdir(tmp_path)
    status, out, err = call(capsys, "grade", *arguments)
    assert status == 2 and out == "" and err.count("\n") == 1 and words in err
    assert [path.name for path in tmp_path.iterdir()] == ["class"]
