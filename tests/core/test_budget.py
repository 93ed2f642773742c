"""How large each part of the project may be: tokens of code and words of prose, counted by reading the files.

Tokens are names, numbers, operators and strings: packing lines does not lower them. A tenth is slack.
"""

import ast
import io
import re
import tokenize
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
BASIC = ROOT / "minispec" / "core" / "basic.py"
SLACK = 1.1
MOST_BASIC = 75  # lines: one screen, as the README says
MOST_FUNCTION = 15  # lines of a function there
MOST_PACKED = 20  # assignments of the package such as `a, b = x, y`: for a swap, or two that are one thing
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


@cache
def python_tokens(source: str) -> int:
    """Counts the tokens of Python that are neither comment nor docstring."""
    docstrings = set()
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


def words(page: str) -> int:
    """Counts words of prose."""
    return len(page.split())


def packed(source: str) -> int:
    """Counts the assignments that pack several statements into one."""
    assignments = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Assign))
    return sum(
        isinstance(one.targets[0], ast.Tuple) and isinstance(one.value, ast.Tuple) for one in assignments
    )


class Budget(NamedTuple):
    """How large a part may be."""

    most: int  #: a tenth more is allowed
    count: Callable[[str], int]  #: of the text of a file
    patterns: tuple[str, ...]  #: its files


PARTS = ("minispec", "tests", "docs", "notebooks")
BUDGETS = {
    "minispec/core": Budget(11_000, python_tokens, ("minispec/core/**/*.py",)),
    "minispec": Budget(200_000, python_tokens, ("minispec/**/*.py",)),
    "tests": Budget(258_000, python_tokens, ("tests/**/*.py",)),
    "docs": Budget(55_000, python_tokens, ("docs/**/*.py",)),
    "everything": Budget(553_000, python_tokens, tuple(f"{part}/**/*.py" for part in PARTS)),
    "C++": Budget(18_180, other_tokens, ("minispec/native/cpp/*",)),
    "JavaScript": Budget(12_000, other_tokens, tuple(f"{part}/**/*.js" for part in PARTS)),
    "pages": Budget(59_000, words, ("docs/*.md", "docs/[!t]*/**/*.md")),
    "course pages": Budget(22_000, words, ("docs/teaching/**/*.md",)),
    "README.md": Budget(1_900, words, ("README.md",)),
}


def texts(part: str) -> list[str]:
    """Returns the texts of all files of a part that are not made or fetched."""
    paths = {path for pattern in BUDGETS[part].patterns for path in ROOT.glob(pattern)}
    made = {"_build", "node_modules", ".ipynb_checkpoints"}
    return [path.read_text(encoding="utf-8") for path in sorted(paths) if not made & {*path.parts}]


@pytest.mark.parametrize("part", BUDGETS)
def test_each_part_is_within_its_budget(part):
    """Who adds something looks for what can go: delete what nobody needs, or use a library that has it."""
    budget = BUDGETS[part]
    assert 0 < sum(map(budget.count, texts(part))) <= budget.most * SLACK


def test_the_package_has_one_statement_a_line():
    """A swap, or two that are one thing, may stand in one assignment; `x, y = 1, 2` should be two lines."""
    assert sum(map(packed, texts("minispec"))) <= MOST_PACKED


def test_basic_is_one_screen():
    """At most 75 lines, no function longer than 15."""
    source = BASIC.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= MOST_BASIC
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    assert max(node.end_lineno - node.lineno + 1 for node in functions) <= MOST_FUNCTION


def test_tokens_are_counted():
    """Comments, docstrings and layout are none; the same code in fewer lines has as many."""
    head = '"""One.\n\nTwo."""\n\nimport torch  # used\n\n# no\nx = """a\nb"""\n\n\n'
    source = head + 'def f():\n    """No."""\n    return (\n        1\n    )\n'
    assert python_tokens(source) == 2 + 3 + 5 + 4
    assert python_tokens("x = 1\ny = 2\n") == 6 < python_tokens("x, y = 1, 2\n") == 7
    assert [packed(line) for line in ("x, y = 1, 2", "x, y = f()", "x = 1, 2")] == [1, 0, 0]
    assert other_tokens('// no\nx->y += "a // b"; /* a\nb */ f(1.5e3)\n') == 6 + 4
