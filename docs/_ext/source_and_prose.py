"""Source beside prose, taken from the package by symbol at every build.

    ```{side-by-side} minispec.core.prefill.prefill
    What is to be said about this function.
    ```

Several names stand with blanks between them; those after the first may leave out their module. `:start-at:`
and `:end-before:` cut a piece out of one, by a text in its first line and in the line after its last.
`:mark: text ; first … last` marks lines.
"""

import ast
import html
import re
import textwrap
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).resolve().parents[2]
TO = " … "  # in a mark: from a line with this text to the next line with that text
FRAGMENT = re.compile(r"^`{3,}\{side-by-side\} (.+)\n((?::.*\n)*)", re.MULTILINE)
DOCUMENTED = (ast.FunctionDef, ast.ClassDef)


@dataclass(frozen=True)
class Piece:
    """Lines of a file.

    Attributes:
        name: full name of what they belong to.
        path: of the file.
        numbers: of the lines, counted from 1, without docstrings.
        text: these lines, shifted to the left.
        docstring: the object's, where the piece begins with its first line; else None.
    """

    name: str
    path: Path
    numbers: list[int]
    text: str
    docstring: str | None

    @property
    def where(self):
        """Returns which lines of which file these are."""
        first, *others = self.numbers
        lines = f"lines {first} to {others[-1]}" if others else f"line {first}"
        return f"{self.path.relative_to(ROOT).as_posix()}, {lines}"


@cache
def parsed(path):
    """Returns a file's statements, each by the name that it gives, and its lines."""
    source = path.read_text(encoding="utf-8")
    return dict(named(ast.parse(source).body)), source.splitlines()


def named(statements, prefix=""):
    """Yields (name, statement) for functions, classes, constants and fields; `Class.name` in a class."""
    for node in statements:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", node)
        name = getattr(target, "name", "") or getattr(target, "id", "")
        if name:
            yield f"{prefix}{name}", node
        if isinstance(node, ast.ClassDef):
            yield from named(node.body, f"{prefix}{name}.")


def find(name):
    """Finds a function, method, class or constant by its full name.

    Returns:
        The path of its file, and its statement.

    Raises:
        ValueError: if there is no such module, or no such object in it.
    """
    parts = name.split(".")
    for length in range(len(parts) - 1, 0, -1):
        path = ROOT.joinpath(*parts[:length]).with_suffix(".py")
        if path.is_file():
            inside = ".".join(parts[length:])
            statements, _ = parsed(path)
            if inside not in statements:
                raise ValueError(f"{name}: {path.name} has no {inside}")
            return path, statements[inside]
    raise ValueError(f"{name}: there is no such module")


def lines_of(node):
    """Returns the numbers of a statement's lines: decorators too, docstrings not."""
    first, *_ = [*getattr(node, "decorator_list", []), node]
    numbers = set(range(first.lineno, node.end_lineno + 1))
    for inner in ast.walk(node):
        if isinstance(inner, DOCUMENTED) and ast.get_docstring(inner) is not None:
            docstring = inner.body[0]
            numbers -= set(range(docstring.lineno, docstring.end_lineno + 1))
    return sorted(numbers)


def cut(name, start_at=None, end_before=None):
    """Cuts an object, or a piece of it, out of its file.

    Raises:
        ValueError: if the object or one of the texts is not there, or the first text is there twice.
    """
    path, node = find(name)
    _, lines = parsed(path)
    numbers = lines_of(node)
    if start_at is not None:
        starts = [n for n in numbers if start_at in lines[n - 1]]
        if len(starts) != 1:
            raise ValueError(f"{name}: {len(starts)} lines have {start_at!r}; one should")
        numbers = numbers[numbers.index(starts[0]) :]
    if end_before is not None:
        end = next((i for i, n in enumerate(numbers) if i and end_before in lines[n - 1]), None)
        if end is None:
            raise ValueError(f"{name}: no line after the piece's first has {end_before!r}")
        numbers = numbers[:end]
    while not lines[numbers[-1] - 1].strip():
        numbers.pop()
    text = textwrap.dedent("\n".join(lines[n - 1] for n in numbers))
    is_whole = start_at is None and isinstance(node, DOCUMENTED)
    return Piece(name, path, numbers, text, ast.get_docstring(node) if is_whole else None)


def pieces(names, start_at=None, end_before=None):
    """Returns what a page asks for: one piece, or several objects of one file.

    Raises:
        ValueError: if something is not there.
    """
    first, *others = names.split()
    whole = cut(first, start_at, end_before)
    module = ".".join(whole.path.relative_to(ROOT).with_suffix("").parts)
    return [whole, *(cut(name if name.startswith("minispec.") else f"{module}.{name}") for name in others)]


def marked_lines(text, marks):
    """Returns which lines of a piece are marked, counted from 1.

    Raises:
        ValueError: if no line has one of the texts.
    """
    lines = [*enumerate(text.splitlines(), 1)]
    marked = set()
    for mark in marks.split(" ; "):
        first, to, last = mark.strip().partition(TO)
        found = [n for n, line in lines if first in line]
        if to and found:
            ends = [n for n, line in lines if n > found[0] and last in line]
            found = ends and range(found[0], ends[0] + 1)
        if not found:
            raise ValueError(f"no line of the piece to mark has {mark!r}")
        marked.update(found)
    return sorted(marked)


def pieces_of(page):
    """Yields what a page shows beside prose, in order."""
    for names, options in FRAGMENT.findall(page.read_text(encoding="utf-8")):
        wanted = dict(re.findall(r"^:(start-at|end-before): (.*?) *$", options, re.MULTILINE))
        yield from pieces(names, wanted.get("start-at"), wanted.get("end-before"))


def short(name):
    """Returns a name without its module: a function's own name, or a method's with its class."""
    parts = name.split(".")
    return ".".join(parts[-2:] if parts[-2][:1].isupper() else parts[-1:])


class SideBySide(SphinxDirective):
    """Prose on the left, the lines that it speaks of on the right; one under the other where it is narrow."""

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec = {name: directives.unchanged_required for name in ("start-at", "end-before", "mark")}

    def run(self):
        """Returns the pair."""
        code = nodes.container(classes=["walk-code"])
        limits = (self.options.get(name) for name in ("start-at", "end-before"))
        try:
            for piece in pieces(self.arguments[0], *limits):
                code += self.parse_text_to_nodes(self.shown(piece))
        except ValueError as error:
            raise self.error(str(error)) from None
        prose = nodes.container("", *self.parse_content_to_nodes(), classes=["walk-prose"])
        return [nodes.container("", prose, code, classes=["walk"])]

    def shown(self, piece):
        """Returns in Markdown the name, which leads to its place in the API, the lines, and the docstring."""
        self.env.note_dependency(str(piece.path))
        marked = ""
        if "mark" in self.options:
            numbers = marked_lines(piece.text, self.options["mark"])
            marked = f":emphasize-lines: {','.join(map(str, numbers))}\n"
        lines = (
            f"{{.walk-where}}\n{{py:obj}}`{short(piece.name)} <{piece.name}>` {piece.where}\n\n"
            f"`````{{code-block}} python\n{marked}\n{piece.text}\n`````\n"
        )
        if piece.docstring is None:
            return lines
        summary = html.escape(" ".join(piece.docstring.split("\n\n")[0].split()))
        return (
            f'{lines}\n<details class="walk-fold"><summary>Docstring: {summary}</summary>\n\n'
            f"`````text\n{piece.docstring}\n`````\n\n</details>\n"
        )


def setup(app):
    """Registers the directive; `walkthrough.css` says how it looks."""
    app.add_directive("side-by-side", SideBySide)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
