"""Patterns: code is found by its structure, whatever its variables are called and however it is laid out.

In a pattern `$name` stands for any expression, the same one wherever the name comes again; in C++ it stands
for any one word. Everything else stands for itself. The notation is that of Semgrep and ast-grep.
"""

import ast
import re
from collections.abc import Sequence
from typing import Any

PLACEHOLDER = re.compile(r"\$(\w+)")
STANDS_FOR = "any_"  # before a placeholder's name, for Python's parser
OPERATORS = (ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Lambda, ast.UnaryOp)


def replacements(source: str, old: str, new: str) -> list[str]:
    """Returns Python code with one place replaced, for each place that a pattern fits.

    Args:
        source: of a function.
        old: the pattern: an expression, or statements that stand one after the other.
        new: what comes there, with the same placeholders.
    """
    pattern: list[Any] = statements(old)
    nodes = list(ast.walk(ast.parse(source)))
    if isinstance(pattern[0], ast.Expr) and is_expression(new):
        pattern = [pattern[0].value]
        places: list[Any] = [[node] for node in nodes if isinstance(node, ast.expr)]
    else:
        blocks = [block for node in nodes for _, block in ast.iter_fields(node) if isinstance(block, list)]
        places = [block[i : i + len(pattern)] for block in blocks for i in range(len(block))]
    matches = []
    for place in places:
        bound: dict[str, str] = {}
        if fits(pattern, place, bound):
            matches.append(spliced(source, place, filled(new, bound)))
    return matches


def statements(text: str) -> list[ast.stmt]:
    """Parses a pattern."""
    return ast.parse(PLACEHOLDER.sub(rf"{STANDS_FOR}\1", text)).body


def is_expression(text: str) -> bool:
    """Whether a pattern is an expression, and no statement."""
    parsed = statements(text)
    return len(parsed) == 1 and isinstance(parsed[0], ast.Expr)


def fits(pattern: object, code: object, bound: dict[str, str]) -> bool:
    """Whether code has the structure of a pattern; notes in `bound` what each placeholder stands for."""
    if isinstance(pattern, ast.Name) and pattern.id.startswith(STANDS_FOR):
        if not isinstance(code, ast.AST):
            return False
        text = f"({ast.unparse(code)})" if isinstance(code, OPERATORS) else ast.unparse(code)
        return bound.setdefault(pattern.id.removeprefix(STANDS_FOR), text) == text
    if isinstance(pattern, list):
        if not isinstance(code, list) or len(code) != len(pattern):
            return False
        return all(fits(part, of_code, bound) for part, of_code in zip(pattern, code, strict=True))
    if isinstance(pattern, ast.AST):
        fields = [name for name in pattern._fields if name != "ctx"]
        same_type = type(pattern) is type(code)
        return same_type and all(fits(getattr(pattern, name), getattr(code, name), bound) for name in fields)
    return pattern == code


def filled(text: str, bound: dict[str, str]) -> str:
    """Puts in what the placeholders stand for."""
    return PLACEHOLDER.sub(lambda match: bound[match[1]], text)


def spliced(source: str, place: Sequence[ast.expr | ast.stmt], new: str) -> str:
    """Returns the source with new text in a place; further lines get the indentation of the first."""
    lines = source.encode().splitlines(keepends=True)  # columns are counted in bytes
    first = place[0]
    last = place[-1]
    before = b"".join(lines[: first.lineno - 1]) + lines[first.lineno - 1][: first.col_offset]
    end = last.end_lineno or last.lineno
    after = lines[end - 1][last.end_col_offset :] + b"".join(lines[end:])
    text = new.replace("\n", "\n" + " " * first.col_offset)
    spliced_text = before.decode() + text + after.decode()
    if not isinstance(first, ast.expr):
        return spliced_text
    in_parentheses = f"{before.decode()}({text}){after.decode()}"
    unchanged = ast.dump(ast.parse(spliced_text)) == ast.dump(ast.parse(in_parentheses))
    return spliced_text if unchanged else in_parentheses


def replacements_in_cpp(source: str, function: str, old: str, new: str) -> list[str]:
    """Returns C++ code with one place replaced, for each place in a function that a pattern fits."""
    words: list[str] = []
    for word in re.findall(r"\$?\w+|\S", old):
        name = word[1:]
        if not word.startswith("$"):
            words.append(rf"\b{word}\b" if word[0].isalnum() else re.escape(word))
        elif any(f"<{name}>" in other_word for other_word in words):
            words.append(rf"\b(?P={name})\b")
        else:
            words.append(rf"\b(?P<{name}>\w+)\b")
    body = re.search(rf"^\S[^\n]*\b{function}\(.*?^}}", source, re.MULTILINE | re.DOTALL)
    if body is None:
        return []
    pattern = re.compile(r"\s*".join(words))
    places = pattern.finditer(source, *body.span())
    return [source[: m.start()] + filled(new, m.groupdict()) + source[m.end() :] for m in places]
