"""Writes `core/basic.py` and the table of the files of `core` into the README.

python docs/refresh_core.py
"""

import ast
import io
import tokenize
from pathlib import Path

from minispec.io.files import write_text_file

ROOT = Path(__file__).resolve().parents[1]
CORE = ROOT / "minispec" / "core"
README = ROOT / "README.md"
# The order in which to read them: the method on one screen, then from the GPT to the loop.
FILES = "basic model cache warp rng records batch prefill draft verify rollback loop".split()
BEGIN = "<!-- python docs/refresh_core.py writes this -->\n"
END = "<!-- core: up to here -->\n"
FIRST = "This is `minispec/core/basic.py`. It is the whole method for one row:"
THEN = """`minispec/core` has the same for batches whose rows end, with records. Its files in reading order,
from the GPT to the loop, with lines of code (no docstrings, no comments). [From basic to
loop](docs/walkthrough/from_basic_to_loop.md) shows what is added.
"""


def block():
    """Returns what the README says of `core`."""
    source = (CORE / "basic.py").read_text(encoding="utf-8")
    return f"{FIRST}\n\n```python\n{source}```\n\n{THEN}\n{table()}\n"


def table():
    """Returns a line for each file of `core` with its lines of code, and one for all."""
    lines = ["| file | what it is | lines |", "|---|---|---:|"]
    total = 0
    for name in FILES:
        source = (CORE / f"{name}.py").read_text(encoding="utf-8")
        first = (
            " ".join(ast.get_docstring(ast.parse(source)).split("\n\n")[0].split()).split(". ")[0].rstrip(".")
        )
        count = lines_of_code(source)
        total += count
        lines.append(f"| [`{name}.py`](minispec/core/{name}.py) | {first}. | {count} |")
    return "\n".join([*lines, f"| all | | {total} |"])


def lines_of_code(source):
    """Returns how many lines of a source have code: not only blanks, a comment, or a docstring."""
    quiet = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in quiet | {tokenize.ENDMARKER}:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str):
            lines.difference_update(range(node.lineno, node.end_lineno + 1))
    return len(lines)


def replaced(readme, text):
    """Returns the README with another block.

    Raises:
        ValueError: if it has none.
    """
    if readme.count(BEGIN) != 1 or readme.count(END) != 1:
        raise ValueError("the README has no block for the files of core")
    head, _, rest = readme.partition(BEGIN)
    return head + BEGIN + "\n" + text + "\n" + END + rest.partition(END)[2]


if __name__ == "__main__":
    write_text_file(README, replaced(README.read_text(encoding="utf-8"), block()))
