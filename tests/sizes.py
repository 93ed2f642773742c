"""Prints how large each part of the project is, beside its aim: `make lint` runs this and fails on none.

Code is counted in tokens: names, numbers, operators and strings, without comments and docstrings, because
packing lines does not lower their number. Pages are counted in words, and TOML in lines.
"""

import ast
import io
import re
import tokenize
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
MADE = {"_build", "node_modules", ".ipynb_checkpoints", "__pycache__", ".venv", "build"}
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
OTHER_LANGUAGE = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
    |"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`(?:\\.|[^`\\])*`
    |\d[\w.]*|[\w$]+
    |<<=|>>=|===|!==|\.\.\.|->|=>|::|\+\+|--|&&|\|\||<<|>>|[-+*/%&|^!=<>]=
    |\S""",
    re.DOTALL | re.VERBOSE,
)


class Part(NamedTuple):
    """A part of the project and the size that it should have."""

    name: str
    aim: int  #: in what `count` counts
    count: Callable[[str], int]  #: the size of a file's text
    patterns: tuple[str, ...]  #: its files


def python_tokens(source: str) -> int:
    """Counts the tokens of Python that are neither comment nor docstring."""
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            docstrings.update(range(node.lineno, node.end_lineno + 1))
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return sum(token.type not in LAYOUT and token.start[0] not in docstrings for token in tokens)


def other_tokens(source: str) -> int:
    """Counts the tokens of C++ or JavaScript that are no comments."""
    return sum(match["comment"] is None for match in OTHER_LANGUAGE.finditer(source))


def lines(source: str) -> int:
    """Counts lines."""
    return len(source.splitlines())


def words(page: str) -> int:
    """Counts words of prose."""
    return len(page.split())


FOLDERS = {
    "core": 12_000,
    "drafters": 12_000,
    "verifiers": 4_000,
    "io": 13_000,
    "native": 10_000,
    "train": 12_000,
    "evidence": 30_000,
    "show": 14_000,
    "classroom": 9_000,
    "cli": 9_000,
}
PARTS = (
    *(
        Part(f"minispec/{name}", aim, python_tokens, (f"minispec/{name}/**/*.py",))
        for name, aim in FOLDERS.items()
    ),
    Part("minispec", 130_000, python_tokens, ("minispec/**/*.py",)),
    Part("tests", 125_000, python_tokens, ("tests/**/*.py",)),
    Part("docs", 25_000, python_tokens, ("docs/**/*.py",)),
    Part("notebooks", 43_000, python_tokens, ("notebooks/**/*.py",)),
    Part("C++", 14_500, other_tokens, ("minispec/native/cpp/*",)),
    Part("JavaScript", 11_000, other_tokens, ("docs/**/*.js", "minispec/**/*.js")),
    Part("basic.py, lines", 75, lines, ("minispec/core/basic.py",)),
    Part("TOML, lines", 2_700, lines, ("**/*.toml",)),
    Part("pages, words", 44_000, words, ("docs/**/*.md",)),
)


def size(part: Part) -> int:
    """Returns the size of a part: of all its files that are not made or fetched."""
    paths = {path for pattern in part.patterns for path in ROOT.glob(pattern)}
    mine = [path for path in sorted(paths) if not MADE & {*path.relative_to(ROOT).parts}]
    return sum(part.count(path.read_text(encoding="utf-8")) for path in mine)


if __name__ == "__main__":
    print(f"{'size, in tokens of code':<24}{'now':>9}{'aim':>9}")
    for part in PARTS:
        print(f"{part.name:<24}{size(part):>9,}{part.aim:>9,}")
