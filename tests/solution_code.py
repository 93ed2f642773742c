"""What solutions of exercises are made of: their cells, and the expressions in them as patterns."""

import ast
import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"


def solutions():
    """Returns all solution cells: key and source."""
    found = []
    for path in sorted((FOLDER / "solutions").glob("*_solutions.py")):
        for cell in re.split(r"^# %%.*$", path.read_text(encoding="utf-8"), flags=re.MULTILINE):
            if key := re.search(r'^check\("([\w-]+)", (\w+), strict=True\)\s*\Z', cell, re.MULTILINE):
                found.append((key[1], path, cell))
    return found


WHOLE = ast.Call | ast.BinOp | ast.BoolOp | ast.Compare | ast.Subscript | ast.IfExp | ast.GeneratorExp
PIECE = re.compile(r"\w+|\*\*|//|[<>=!]=|\S")


def pieces(text):
    """Splits text into words and signs."""
    return PIECE.findall(text.replace("·", "*").replace("−", "-").replace("≤", "<=").replace("≥", ">="))


def expressions(source):
    """Yields each expression of a solution, of three pieces or more, as a pattern: its own names are open."""
    (definition,) = (n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef | ast.ClassDef))
    stored = {n.id for n in ast.walk(definition) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    for node in ast.walk(definition):
        found = pieces(ast.unparse(node)) if isinstance(node, WHOLE) else []
        named = any(word.isidentifier() and word not in stored for word in found)
        if len(found) >= (3 if named else 6):
            yield " ".join(r"\w+" if word in stored else re.escape(word) for word in found)


def shared_expressions(text, source):
    """Returns the expressions of a solution that stand in a text."""
    plain = " ".join(pieces(text))
    return [e for e in expressions(source) if re.search(rf"(?<!\S){e}(?!\S)", plain, re.IGNORECASE)]
