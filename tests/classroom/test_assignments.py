"""Assignments: our solutions pass their private tests; planted wrong ones fail, each with its own message."""

import csv
import re
import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest
from otter.test_files.exception_test import ExceptionTestFile

HERE = Path(__file__).parent
ASSIGNMENTS = HERE.parents[1] / "docs/teaching/assignments"
sys.path[:0] = [str(HERE), str(ASSIGNMENTS)]

from hand_out import DRAWN, filled_in, hand_out, main, private_tests, seed_of  # noqa: E402
from test_otter import PAGE, shell  # noqa: E402

pytestmark = pytest.mark.evidence
SECRET = "2027S"
NAMES = sorted(path.stem for path in (ASSIGNMENTS / "private").glob("*.py"))
WRONG = tomllib.loads((HERE / "assignments/wrong.toml").read_text(encoding="utf-8"))


def text_of(folder, name):
    return (folder / f"{name}.py").read_text(encoding="utf-8")


def submission(name, student, planted=None):
    """Returns a student's file: our solution, or a planted wrong one."""
    source = filled_in(text_of(HERE / "assignments", name), name, seed_of(SECRET, name, student))
    wrong = WRONG[name][planted] if planted else {}
    for old, new in wrong.get("edits", {}).items():
        assert old in source, old
        source = source.replace(old, new)
    return source + wrong.get("added", "")


def marks(name, student, source):
    """Returns what the private tests say: the file of tests, and the messages of the cases that fail."""
    space = {}
    exec(compile(source, f"{student}.py", "exec"), space)
    tests = ExceptionTestFile.from_string(private_tests(name, seed_of(SECRET, name, student)))
    tests.run(space)
    return tests, {case.test_case.name: case.message for case in tests.test_case_results if not case.passed}


def student_with(name, drawn):
    """Returns the first of some students who has drawn this."""
    for number in range(100):
        space = {}
        exec(private_tests(name, seed_of(SECRET, name, f"student {number}")), space)
        given = space["parameters"](space["SEED"])
        if all(given[key] == value for key, value in drawn.items()):
            return f"student {number}"
    raise LookupError(drawn)


@pytest.mark.parametrize("name", NAMES)
def test_right_ones_get_all_points_and_wrong_ones_are_told_why(name):
    """Our solution passes, for students who have drawn different numbers; the case that a planted fault is
    about fails, in its own words.
    """
    for student in ("ann", "ben"):
        tests, failed = marks(name, student, submission(name, student))
        assert failed == {} and tests.score == tests.possible
    assert len(WRONG[name]) >= 5
    for planted, wrong in WRONG[name].items():
        student = student_with(name, wrong.get("with", {}))
        tests, failed = marks(name, student, submission(name, student, planted))
        assert wrong["case"] in failed, (planted, failed)
        assert re.search(wrong["says"], failed[wrong["case"]], re.IGNORECASE), (planted, failed)
        assert tests.score < tests.possible


@pytest.mark.parametrize("name", NAMES)
def test_what_is_handed_out(name, tmp_path):
    """A blank starter file gets no point; students have numbers and tests of their own."""
    assert main([str(tmp_path), name, "ann", "ben", "--secret", SECRET]) == 0
    one, other = (text_of(tmp_path / "starters", student) for student in ("ann", "ben"))
    assert one != other and DRAWN not in one
    with ZipFile(tmp_path / "ann/autograder.zip") as archive:
        assert seed_of(SECRET, name, "ann") in archive.read(f"tests/{name}.py").decode()
    tests, failed = marks(name, "ann", one)
    assert tests.score == 0 and all("AssertionError" in m or "Malformed" in m for m in failed.values())


# Put before our solution, or after it where the name ends in a star; each spoils one submission.
BROKEN = {
    "a syntax error": "def gain(:\n",
    "a loop without an end": "while True:\n    pass\n",
    "calls `sys.exit`": "import sys\n\nsys.exit()\n",
    "a number for a function*": "gain = 3\n",
    "not UTF-8": "# \xfc\n",
    "an empty file": "",
    "prints 200 MB": "for _ in range(200):\n    print('x' * 10**6)\n",
    "kills its process": "import os\n\nos.kill(os.getpid(), 9)\n",
    "deletes the folder in which it is graded": """
import shutil
from pathlib import Path

folder = Path.cwd().parent
if folder.name == "autograder":  # otter's own, and nobody else's
    shutil.rmtree(folder)
""",
    "a function is missing*": "del gain\n",
}
LIMIT = 240  # seconds each


def hand_in(stem, name, planted=None, damage=None):
    """Writes a submission into the class, and the tests of the student whose numbers it has."""
    student = student_with(name, WRONG[name][planted].get("with", {})) if planted else stem
    source = submission(name, student, planted)
    if damage:
        added = BROKEN[damage]
        source = (f"{source}\n{added}" if damage[-1] == "*" else f"{added}\n{source}") if added else ""
    Path("class").mkdir(exist_ok=True)
    Path("class", f"{stem}.py").write_text(source, encoding="latin-1" if "\xfc" in source else "utf-8")
    hand_out(Path("exercises"), name, SECRET, [student])
    if student != stem:
        Path("exercises", student).replace(f"exercises/{stem}")


def test_a_class_of_thirty_is_graded_and_ten_are_broken(tmp_path, monkeypatch):
    """By the page's scripts, each in its own process, by its own tests; what is broken costs only itself."""
    monkeypatch.chdir(tmp_path)
    for file, text in re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)\n```", PAGE, re.DOTALL):
        Path(file).write_text(text, encoding="utf-8")
    handed_in = {name: [None, *WRONG[name]][: 3 + (name in ("audit", "surface"))] for name in NAMES}
    for name, answers in handed_in.items():
        for planted in answers:
            hand_in(f"{name}-{planted}", name, planted)
    for number, damage in enumerate(BROKEN):
        hand_in(f"broken-{number}", "surface", damage=damage)
    shell("bash grade.sh class && python marks.py", tmp_path, SECONDS_EACH=str(LIMIT), JOBS="1")
    marks = {row["student"]: row for row in csv.DictReader(Path("marks.csv").open(encoding="utf-8"))}
    assert len(marks) == 30
    lines = []
    for name, answers in handed_in.items():
        points = [float(marks[f"{name}-{planted}"]["points"]) for planted in answers]
        assert all(marks[f"{name}-{planted}"]["graded"] == "True" for planted in answers)
        assert points[0] > max(points[1:]) > 0
        lines.append(f"| {name} | {', '.join(f'{each:g}' for each in points)} |")
    for number, damage in enumerate(BROKEN):
        row = marks[f"broken-{number}"]
        graded = {"True": "yes", "False": "no"}[row["graded"]]
        lines.append(f"| {damage.rstrip('*')} | {graded} | {float(row['points']):g} |")
        assert float(row["points"]) < float(marks["surface-None"]["points"]) or "prints" in damage
    print("\n".join(lines))  # with `-s`: a table of what was graded
