"""Seeded mutants of the package, and which of them the tests kill.

    python tests/mutants draw    --seed SEED                what would be planted
    python tests/mutants plant   --seed SEED --copy FOLDER  a copy of this checkout with all of them, asleep
    python tests/mutants reach   --copy FOLDER [-- ARGS]    run the tests: which of them reach what
    python tests/mutants kill    --copy FOLDER              wake each in turn, stop at the first failure

ARGS are pytest's: by default those of `make test`. For each mutant `kill` runs the tests that reach it, the
quickest first, for at most 60 seconds of processor time, and writes what came of it into FOLDER/mutants.json.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path

from sites import Mutant, behind_a_switch, draw

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 60  # of processor time for each mutant
TESTS = ["-m", "not browser and not evidence", "-n", "2", "--dist", "loadfile"]
# The copy's `minispec/planted.py`. Which test is running stands in the environment, of child processes too.
SWITCH = '''"""Which mutant acts, and who has reached which."""

import os

AWAKE = int(os.environ.get("MUTANT", "-1"))
SEEN = set()


def is_planted(number):
    """Whether a mutant acts; where FILE is named, notes which test reached it."""
    if file := os.environ.get("MUTANT_REACHED"):
        test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
        if (number, test) not in SEEN:
            SEEN.add((number, test))
            with open(file, "a", encoding="utf-8") as log:
                log.write(f"{number}\\t{test}\\n")
    return number == AWAKE
'''


def plant(seed: str, count: int, copy: Path) -> None:
    """Writes a copy of the files that git tracks, with all mutants in it."""
    mutants = draw(ROOT, seed, count)
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in filter(None, tracked.decode().split("\0")):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_bytes((ROOT / name).read_bytes())
    by_file = defaultdict(list)
    for number, mutant in enumerate(mutants):
        by_file[mutant.path].append((number, mutant))
    for name, numbered in by_file.items():
        source = (ROOT / name).read_text(encoding="utf-8")
        (copy / name).write_text(behind_a_switch(source, numbered), encoding="utf-8")
    (copy / "minispec" / "planted.py").write_text(SWITCH, encoding="utf-8")
    save(copy, {"seed": seed, "mutants": [asdict(mutant) for mutant in mutants]})


def reach(copy: Path, arguments: list[str]) -> None:
    """Runs the tests once, and saves by mutant which of them reach it, and how long each test takes."""
    log = copy / "reached.txt"
    log.unlink(missing_ok=True)
    times = copy / "times.xml"
    pytest(copy, [*arguments, f"--junitxml={times}"], {"MUTANT_REACHED": str(log)})
    reached = defaultdict(set)
    for line in log.read_text(encoding="utf-8").splitlines():
        number, _, test = line.partition("\t")
        if test:
            reached[number].add(test)
    document = load(copy)
    document["reached"] = {number: sorted(tests) for number, tests in reached.items()}
    save(copy, document)


def kill(copy: Path) -> None:
    """Wakes each mutant in turn, and saves which test kills it, or that none does."""
    document = load(copy)
    outcomes = document.setdefault("outcomes", {})
    for number, fields in enumerate(document["mutants"]):
        if str(number) in outcomes:
            continue
        tests = document["reached"].get(str(number), [])
        outcomes[str(number)] = outcome(copy, number, tests) if tests else "not reached"
        print(f"{number:3} {outcomes[str(number)]:50.50} {Mutant(**fields)}", flush=True)
        save(copy, document)
    killed = sum(each.startswith("killed") for each in outcomes.values())
    print(f"{killed} of {len(outcomes)} killed")


def outcome(copy: Path, number: int, tests: list[str]) -> str:
    """Runs the tests that reach a mutant, of other files first, until one fails or the time is over."""
    by_file = defaultdict(list)
    for test in tests:
        by_file[test.partition("::")[0]].append(test)
    mixed = [
        each[i] for i in range(max(map(len, by_file.values()))) for each in by_file.values() if i < len(each)
    ]
    quick = ["-x", "-p", "no:cacheprovider", "-n", "0"]
    ended = pytest(copy, [*quick, *mixed[:200]], {"MUTANT": str(number), "OMP_NUM_THREADS": "1"}, SECONDS)
    failed = [line for line in ended.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    if failed:
        return f"killed by {failed[0].split(' ')[1]}"
    if ended.returncode < 0:
        return "no end within the time"
    return "survived" if ended.returncode == 0 else f"killed: pytest ended with {ended.returncode}"


def pytest(
    copy: Path, arguments: list[str], environment: dict[str, str], seconds: int | None = None
) -> subprocess.CompletedProcess:
    """Runs pytest in the copy, on the copy's package, for at most so many seconds of processor time."""

    def limit() -> None:
        if seconds is not None:
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))

    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rfE", *arguments],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        preexec_fn=limit,
        check=False,
    )


def load(copy: Path) -> dict:
    """Reads what is known of a copy's mutants."""
    return json.loads((copy / "mutants.json").read_text(encoding="utf-8"))


def save(copy: Path, document: dict) -> None:
    """Writes it."""
    (copy / "mutants.json").write_text(json.dumps(document, indent=1), encoding="utf-8")


def main() -> None:
    """Does what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("draw", "plant", "reach", "kill"))
    parser.add_argument("--seed", default="A")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--copy", type=Path)
    options, arguments = parser.parse_known_args()
    if options.what == "draw":
        print(*draw(ROOT, options.seed, options.count), sep="\n")
    elif options.copy is None:
        parser.error("--copy FOLDER is missing")
    elif options.what == "plant":
        plant(options.seed, options.count, options.copy)
    elif options.what == "reach":
        reach(options.copy, [each for each in arguments if each != "--"] or TESTS)
    else:
        kill(options.copy)


if __name__ == "__main__":
    main()
