"""Patterns: code is found by its structure, whatever its variables are called and however it is laid out.

In a pattern `$name` stands for any expression, the same one wherever the name comes again; in C++ it stands
for any one word. Everything else stands for itself. The notation is that of Semgrep and ast-grep.
"""

import ast
import re
from collections.abc import Sequence
from itertools import repeat
from typing import Any

PLACEHOLDER = re.compile(r"\$(\w+)")
PLACEHOLDER_PREFIX = "any_"  # before a placeholder's name, for Python's parser
OPERATORS = (ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Lambda, ast.UnaryOp)


def replacements(source: str, old: str, new: str) -> list[str]:
    """Returns Python code with one place replaced, for each place that a pattern fits.

    Args:
        source: of a function.
        old: the pattern: an expression, or statements that stand one after the other.
        new: what comes there, with the same placeholders.
    """
    pattern: list[Any] = parse_pattern(old)
    nodes = list(ast.walk(ast.parse(source)))
    if [type(node) for node in (*pattern, *parse_pattern(new))] == [ast.Expr, ast.Expr]:
        pattern = [pattern[0].value]
        places: list[Any] = [[node] for node in nodes if isinstance(node, ast.expr)]
    else:
        blocks = [block for node in nodes for _, block in ast.iter_fields(node) if isinstance(block, list)]
        places = [block[i : i + len(pattern)] for block in blocks for i in range(len(block))]
    replaced = []
    for place in places:
        bindings: dict[str, str] = {}
        if matches(pattern, place, bindings):
            replaced.append(splice(source, place, fill(new, bindings)))
    return replaced


def parse_pattern(text: str) -> list[ast.stmt]:
    """Parses a pattern; placeholders become names."""
    return ast.parse(PLACEHOLDER.sub(rf"{PLACEHOLDER_PREFIX}\1", text)).body


def matches(pattern: Any, code: Any, bindings: dict[str, str]) -> bool:
    """Whether code has the structure of a pattern; notes in `bindings` what each placeholder stands for."""
    if isinstance(pattern, ast.Name) and pattern.id.startswith(PLACEHOLDER_PREFIX):
        if not isinstance(code, ast.AST):
            return False
        text = f"({ast.unparse(code)})" if isinstance(code, OPERATORS) else ast.unparse(code)
        return bindings.setdefault(pattern.id.removeprefix(PLACEHOLDER_PREFIX), text) == text
    if type(pattern) is not type(code):
        return False
    if isinstance(pattern, ast.AST):
        fields = [name for name in pattern._fields if name != "ctx"]
        return all(matches(getattr(pattern, name), getattr(code, name), bindings) for name in fields)
    if isinstance(pattern, list):
        return len(pattern) == len(code) and all(map(matches, pattern, code, repeat(bindings)))
    return bool(pattern == code)


def fill(text: str, bindings: dict[str, str]) -> str:
    """Puts in what the placeholders stand for."""
    return PLACEHOLDER.sub(lambda match: bindings[match[1]], text)


def splice(source: str, place: Sequence[ast.expr | ast.stmt], new: str) -> str:
    """Returns the source with new text in a place; further lines get the indentation of the first."""
    lines = source.encode().splitlines(keepends=True)  # columns are counted in bytes
    first = place[0]
    last = place[-1]
    before = b"".join(lines[: first.lineno - 1]) + lines[first.lineno - 1][: first.col_offset]
    end = last.end_lineno or last.lineno
    after = lines[end - 1][last.end_col_offset :] + b"".join(lines[end:])
    text = new.replace("\n", "\n" + " " * first.col_offset)
    replaced = before.decode() + text + after.decode()
    if not isinstance(first, ast.expr):
        return replaced
    parenthesized = f"{before.decode()}({text}){after.decode()}"
    same = ast.dump(ast.parse(replaced)) == ast.dump(ast.parse(parenthesized))
    return replaced if same else parenthesized


def replacements_in_cpp(source: str, function: str, old: str, new: str) -> list[str]:
    """Returns C++ code with one place replaced, for each place in a function that a pattern fits."""
    word_patterns: list[str] = []
    for word in re.findall(r"\$?\w+|\S", old):
        name = word[1:]
        if not word.startswith("$"):
            word_patterns.append(rf"\b{word}\b" if word[0].isalnum() else re.escape(word))
        elif any(f"<{name}>" in earlier for earlier in word_patterns):
            word_patterns.append(rf"\b(?P={name})\b")
        else:
            word_patterns.append(rf"\b(?P<{name}>\w+)\b")
    body = re.search(rf"^\S[^\n]*\b{function}\(.*?^}}", source, re.MULTILINE | re.DOTALL)
    if body is None:
        return []
    places = re.compile(r"\s*".join(word_patterns)).finditer(source, *body.span())
    return [source[: m.start()] + fill(new, m.groupdict()) + source[m.end() :] for m in places]
