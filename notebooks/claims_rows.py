"""What the notebooks must show, and planted bugs that make their cells fail: from claims.toml."""

import tomllib
from pathlib import Path
from typing import NamedTuple

from minispec.evidence.zoo.mutation import Mutant


class Case(NamedTuple):
    """A planted bug that must make a tagged cell fail: the nth one of this tag in the notebook."""

    notebook: int
    tag: str
    mutant: str  # its name, in the zoo or in claims.toml
    nth: int = 0


WRITTEN = tomllib.loads(Path(__file__).with_name("claims.toml").read_text(encoding="utf-8"))
TABLES: dict[str, dict[str, str]] = WRITTEN["tables"]  # sentences by tag
QUESTIONS: dict[str, list[str]] = WRITTEN["questions"]  # predictions that ask for a misconception
NOT_YET: dict[str, str] = WRITTEN["not_yet"]  # what a claim speaks of and is not built
BUGS = tuple(Mutant(**bug) for bug in WRITTEN["bugs"])
CASES = tuple(Case(**case) for case in WRITTEN["cases"])
