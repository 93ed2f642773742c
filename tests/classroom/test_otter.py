"""The exercises as otter-grader's tests: a class is graded by the commands of the page on grading."""

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from minispec.classroom.otter import main

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/teaching/grading.md").read_text(encoding="utf-8")
RIGHT = """
def residual(p, q):
    rest = (p - q).clamp(min=0)
    return rest / rest.sum() if rest.sum() > 0 else p
"""
ASKS = "from minispec.classroom import predict\npredict('correction-again', guess='b')\n"
CLASS = {
    "ann.py": f"{RIGHT}\nraise ValueError('what follows does not matter')\n",
    "ben.ipynb": f"{ASKS}\ndef residual(p, q):\n    return p\n",
    "cem.py": "def residual(p, q):\n    ...\n",
    "dora.py": "def residual(p, q)\n    return p\n",
    "eve.py": f"{RIGHT}\nimport os\nos._exit(0)\n",
}


def shell(line, folder, **variables):
    """Runs a line of shell in a folder, with this Python's commands and this minispec."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    names = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **variables}
    done = subprocess.run(["bash", "-c", line], cwd=folder, env=names, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the scripts of the page and a class of five."""
    monkeypatch.chdir(tmp_path)
    scripts = re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)\n```", PAGE, re.DOTALL)
    for name, text in scripts:
        Path(name).write_text(text, encoding="utf-8")
    Path("class").mkdir()
    for name, source in CLASS.items():
        if name.endswith(".ipynb"):
            source = nbformat.writes(new_notebook(cells=[new_code_cell(source)]))
        Path("class", name).write_text(source, encoding="utf-8")
    return tmp_path


@pytest.mark.evidence
def test_a_class_is_graded(folder):
    """Right, wrong, blank, a typing error, and one that ends the process: five rows, the cards' words."""
    assert main(["exercises", "residual"]) == 0
    (command,) = re.findall(r"^bash grade.sh .*$", PAGE, re.MULTILINE)
    assert shell(command, folder).split(":")[0] == "no marks for eve"
    with open("marks.csv", encoding="utf-8") as file:
        rows = [(row["student"], row["graded"], row["points"]) for row in csv.DictReader(file)]
    wrong = [(name, "True", "0.0") for name in ("ben", "cem", "dora")]
    assert rows == [("ann", "True", "1.0"), *wrong, ("eve", "False", "0")]
    for name, says in {"ben": "That is p.", "cem": "Still blank", "dora": "Nothing was handed in"}.items():
        (test,) = json.loads(Path("results", name, "results.json").read_text())["tests"]
        assert test["max_score"] == 1 and says in test["output"]
    assert shell("python predictions.py", folder) == "█ 1  correction-again: 'b'\n"


@pytest.mark.evidence
def test_a_submission_without_an_end_is_ended(folder):
    """By the script, whatever runs: `otter` is a loop here."""
    otter = folder / "otter"
    otter.write_text("#!/bin/bash\nwhile true; do sleep 0.1; done\n")
    otter.chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    printed = shell("bash grade.sh class", folder, PATH=path, SECONDS_EACH="0.2")
    assert printed.count("no marks for") == len(CLASS)


def test_a_semester_brings_its_stubs(folder):
    """With tests that ask for what the tag has drawn."""
    assert main(["new", "residual", "--semester", "2027s"]) == 0
    assert [path.name for path in Path("new/tests").iterdir()] == ["residual.py"]
    test = Path("new/tests/residual.py").read_text()
    assert 'check = semester("2027S").check' in test and 'env.get("surplus")' in test
    assert "def surplus(" in Path("new/stubs.ipynb").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "folder"),
        (["class"], "exists"),
        (["class/ann.py/new"], "Not a directory"),
        (["new", "resdual"], "there is no exercise 'resdual'"),
        (["new", "look-up-drafter", "--semester", "2027S"], "there is no exercise"),
        (["new", "--semester", "a b"], "letters, digits"),
    ],
)
def test_bad_input_is_one_line(folder, capsys, arguments, words):
    """And nothing is written."""
    before = sorted(folder.rglob("*"))
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and words in err
    assert sorted(folder.rglob("*")) == before
