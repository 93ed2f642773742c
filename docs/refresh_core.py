"""Writes `core/basic.py` and the table of the files of `core` into the README.

python docs/refresh_core.py
"""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

from minispec.io.files import write_whole

ROOT = Path(__file__).resolve().parents[1]
CORE = ROOT / "minispec" / "core"
README = ROOT / "README.md"
# The order in which to read them: the method on one screen, then from the GPT to the loop.
FILES = (
    *("basic", "model", "cache", "warp", "rng", "records", "prefill", "draft", "verify", "commit"),
    *("rollback", "loop"),
)
BEGIN = "<!-- python docs/refresh_core.py writes this -->\n"
END = "<!-- core: up to here -->\n"
FIRST = "This is `minispec/core/basic.py`. It is all of the method for one row:"
THEN = """`minispec/core` has the same for batches whose rows end, with records. Its files in reading order,
from the GPT to the loop, with lines of code (no docstrings, no comments). [From basic to
loop](docs/walkthrough/from_basic_to_loop.md) shows what is added.
"""


def block() -> str:
    """Returns what the README says of `core`."""
    source = (CORE / "basic.py").read_text(encoding="utf-8")
    return f"{FIRST}\n\n```python\n{source}```\n\n{THEN}\n{table()}\n"


def table() -> str:
    """Returns a line for each file of `core` with its lines of code, and one for all."""
    lines = ["| file | what it is | lines |", "|---|---|---:|"]
    counts = {name: lines_of_code((CORE / f"{name}.py").read_text(encoding="utf-8")) for name in FILES}
    for name, count in counts.items():
        lines.append(f"| [`{name}.py`](minispec/core/{name}.py) | {says(name)} | {count} |")
    return "\n".join([*lines, f"| all | | {sum(counts.values())} |"])


def says(name: str) -> str:
    """Returns the first sentence of a file."""
    said = ast.get_docstring(ast.parse((CORE / f"{name}.py").read_text(encoding="utf-8"))) or ""
    return " ".join(said.split("\n\n")[0].split()).split(". ")[0].rstrip(".") + "."


def lines_of_code(source: str) -> int:
    """Returns how many lines of a source have code: not only blanks, a comment, or a docstring."""
    quiet = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in (*quiet, tokenize.ENDMARKER):
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines - docstring_lines(ast.parse(source)))


def docstring_lines(tree: ast.AST) -> set[int]:
    """Returns the lines of all docstrings in a tree."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if ast.get_docstring(node) is not None and isinstance(first, ast.Expr):
                lines |= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return lines


def replaced(readme: str, text: str) -> str:
    """Returns the README with another block.

    Raises:
        ValueError: if it has none.
    """
    if readme.count(BEGIN) != 1 or readme.count(END) != 1:
        raise ValueError("the README has no block for the files of core")
    head, _, rest = readme.partition(BEGIN)
    return head + BEGIN + "\n" + text + "\n" + END + rest.partition(END)[2]


if __name__ == "__main__":
    write_whole(README, replaced(README.read_text(encoding="utf-8"), block()))
