"""Hands out an assignment: to each student a starter file with numbers of their own, to you private tests.

    python docs/teaching/assignments/hand_out.py exercises audit --secret 2027S ann ben

writes `exercises/starters/ann.py`, which is for the student, and `exercises/ann/autograder.zip`, which is
not: `grade.sh` of docs/teaching/grading.md takes it. Who does not know the secret cannot draw the tests.
"""

import argparse
import hashlib
import json
import pprint
import sys
from pathlib import Path
from zipfile import ZipFile

from minispec.classroom.otter import CONFIG

HERE = Path(__file__).parent
DRAWN = "PARAMETERS: dict = {}"  # this line of a starter file is filled in
SEED = 'SEED = "practice"'  # and this one of its tests


def seed_of(secret, assignment, student):
    """Returns what a student's numbers and tests are drawn from."""
    return hashlib.sha256(f"{secret}/{assignment}/{student}".encode()).hexdigest()[:16]


def private_tests(assignment, seed):
    """Returns the private tests for a seed: a test file of otter-grader."""
    text = (HERE / "private" / f"{assignment}.py").read_text(encoding="utf-8")
    return text.replace(SEED, f'SEED = "{seed}"')


def filled_in(text, assignment, seed):
    """Returns a starter file, or what has become of one, with the numbers that belong to a seed."""
    names = {}
    exec(compile(private_tests(assignment, seed), f"{assignment}.py", "exec"), names)
    numbers = pprint.pformat(names["parameters"](seed), width=90, compact=True, sort_dicts=False)
    return text.replace(DRAWN, f"PARAMETERS = {numbers}")


def hand_out(folder, assignment, secret, students):
    """Writes the files of an assignment into a folder."""
    starter = (HERE / "starters" / f"{assignment}.py").read_text(encoding="utf-8")
    (folder / "starters").mkdir(parents=True, exist_ok=True)
    for student in students:
        seed = seed_of(secret, assignment, student)
        own = filled_in(starter, assignment, seed)
        (folder / "starters" / f"{student}.py").write_text(own, encoding="utf-8")
        (folder / student).mkdir(exist_ok=True)
        with ZipFile(folder / student / "autograder.zip", "w") as archive:
            archive.writestr("otter_config.json", json.dumps(CONFIG))
            archive.writestr(f"tests/{assignment}.py", private_tests(assignment, seed))


def main(arguments=None):
    """Runs the command line."""
    parser = argparse.ArgumentParser(description="Hand out an assignment: starter files and private tests.")
    parser.add_argument("folder", type=Path, help="starter files and tests go into it")
    names = sorted(path.stem for path in (HERE / "private").glob("*.py"))
    parser.add_argument("assignment", choices=names)
    parser.add_argument("students", nargs="+", help="their names, as in the folder of the class")
    parser.add_argument("--secret", required=True, help="what only you know, another one each year")
    given = parser.parse_args(arguments)
    hand_out(given.folder, given.assignment, given.secret, given.students)
    print(f"{given.folder}: {given.assignment} for {', '.join(given.students)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
