"""Source beside prose, taken from the package by symbol at every build.

    ```{side-by-side} minispec.core.prefill.prefill
    What is to be said about this function.
    ```

Several names stand with blanks between them; those after the first may leave out their module. `:start-at:`
and `:end-before:` cut a piece out of one, by a text in its first line and in the line after its last.
`:mark: text ; first … last` marks lines. `` ```{full-source} minispec.core.basic `` shows a file from its
first line to its last; `:folded:` under a line that opens.
"""

from __future__ import annotations

import ast
import html
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).resolve().parents[2]
STATIC = Path(__file__).with_name("walk_static")
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
    numbers: tuple[int, ...]
    text: str
    docstring: str | None

    @property
    def where(self) -> str:
        """Returns which lines of which file these are."""
        first, last = self.numbers[0], self.numbers[-1]
        lines = f"line {first}" if first == last else f"lines {first} to {last}"
        return f"{self.path.relative_to(ROOT).as_posix()}, {lines}"


@cache
def parsed(path: Path) -> tuple[ast.Module, tuple[str, ...]]:
    """Returns a file's tree and its lines."""
    source = path.read_text(encoding="utf-8")
    return ast.parse(source), tuple(source.splitlines())


def path_of(module: str) -> Path:
    """Returns the file of a module of the package, whether it is there or not."""
    return ROOT.joinpath(*module.split(".")).with_suffix(".py")


def find(name: str) -> tuple[Path, ast.stmt]:
    """Finds a function, method, class or constant by its full name.

    Raises:
        ValueError: if there is no such module, or no such object in it.
    """
    parts = name.split(".")
    length = next((n for n in range(len(parts) - 1, 0, -1) if path_of(".".join(parts[:n])).is_file()), None)
    if length is None:
        raise ValueError(f"{name}: there is no such module")
    path = path_of(".".join(parts[:length]))
    node: ast.AST = parsed(path)[0]
    for part in parts[length:]:
        inside = [child for child in getattr(node, "body", []) if part == name_of(child)]
        if not inside:
            raise ValueError(f"{name}: {path.name} has no {part}")
        node = inside[0]
    assert isinstance(node, ast.stmt)
    return path, node


def name_of(node: ast.stmt) -> str:
    """Returns the name that a statement gives; "" if it gives none."""
    target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", node)
    return getattr(target, "name", "") or getattr(target, "id", "")


def lines_of(node: ast.stmt) -> list[int]:
    """Returns the numbers of a statement's lines: decorators too, docstrings not."""
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
    numbers = set(range(first, (node.end_lineno or first) + 1))
    for inner in ast.walk(node):
        if isinstance(inner, DOCUMENTED) and ast.get_docstring(inner) is not None:
            docstring = inner.body[0]
            numbers -= set(range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1))
    return sorted(numbers)


def cut(name: str, start_at: str | None = None, end_before: str | None = None) -> Piece:
    """Cuts an object, or a piece of it, out of its file.

    Raises:
        ValueError: if the object or one of the texts is not there, or the first text is there twice.
    """
    path, node = find(name)
    lines = parsed(path)[1]
    numbers = lines_of(node)
    whole = start_at is None
    if start_at is not None:
        starts = [n for n in numbers if start_at in lines[n - 1]]
        if len(starts) != 1:
            raise ValueError(f"{name}: {len(starts)} lines have {start_at!r}; one should")
        numbers = [n for n in numbers if n >= starts[0]]
    if end_before is not None:
        ends = [n for n in numbers[1:] if end_before in lines[n - 1]]
        if not ends:
            raise ValueError(f"{name}: no line after the piece's first has {end_before!r}")
        numbers = [n for n in numbers if n < ends[0]]
    while not lines[numbers[-1] - 1].strip():
        numbers.pop()
    text = textwrap.dedent("\n".join(lines[n - 1] for n in numbers))
    docstring = ast.get_docstring(node) if whole and isinstance(node, DOCUMENTED) else None
    return Piece(name, path, tuple(numbers), text, docstring)


def pieces(names: str, start_at: str | None = None, end_before: str | None = None) -> list[Piece]:
    """Returns what a page asks for: one piece, or several objects of one file.

    Raises:
        ValueError: if something is not there.
    """
    first, *others = names.split()
    found = [cut(first, start_at, end_before)]
    module = ".".join(found[0].path.relative_to(ROOT).with_suffix("").parts)
    return found + [cut(name if name.startswith("minispec.") else f"{module}.{name}") for name in others]


def marked_lines(text: str, marks: str) -> list[int]:
    """Returns which lines of a piece are marked, counted from 1.

    Raises:
        ValueError: if no line has one of the texts.
    """
    lines = text.splitlines()
    marked: set[int] = set()
    for mark in marks.split(" ; "):
        first, to, last = mark.strip().partition(TO)
        starts = [n for n, line in enumerate(lines, 1) if first in line]
        ends = [n for n, line in enumerate(lines, 1) if starts and n > starts[0] and last in line]
        if not starts or (to and not ends):
            raise ValueError(f"no line of the piece to mark has {mark!r}")
        marked |= set(range(starts[0], ends[0] + 1)) if to else set(starts)
    return sorted(marked)


def pieces_of(page: Path) -> Iterator[Piece]:
    """Yields what a page shows beside prose, in order."""
    for names, options in FRAGMENT.findall(page.read_text(encoding="utf-8")):
        wanted = dict(re.findall(r"^:(start-at|end-before): (.*?) *$", options, re.MULTILINE))
        yield from pieces(names, wanted.get("start-at"), wanted.get("end-before"))


def short(name: str) -> str:
    """Returns a name without its module: a function's own name, or a method's with its class."""
    parts = name.split(".")
    return ".".join(parts[-2:] if parts[-2][:1].isupper() else parts[-1:])


def fold(summary: str, *inside: nodes.Node) -> list[nodes.Node]:
    """Returns what opens on request."""
    opening = f'<details class="walk-fold"><summary>{html.escape(summary)}</summary>'
    return [nodes.raw("", opening, format="html"), *inside, nodes.raw("", "</details>", format="html")]


class SideBySide(SphinxDirective):
    """Prose on the left, the lines that it speaks of on the right; one under the other where it is narrow."""

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec = {name: directives.unchanged_required for name in ("start-at", "end-before", "mark")}

    def run(self) -> list[nodes.Node]:
        """Returns the pair."""
        code = nodes.container(classes=["walk-code"])
        try:
            found = pieces(self.arguments[0], self.options.get("start-at"), self.options.get("end-before"))
            for piece in found:
                code += self.shown(piece)
        except ValueError as error:
            raise self.error(str(error)) from None
        prose = nodes.container("", *self.parse_content_to_nodes(), classes=["walk-prose"])
        return [nodes.container("", prose, code, classes=["walk"])]

    def shown(self, piece: Piece) -> list[nodes.Node]:
        """Returns the name, which leads to the API where it is listed, the lines, and the docstring."""
        self.env.note_dependency(str(piece.path))
        link = addnodes.pending_xref(
            "",
            nodes.literal(text=short(piece.name)),
            refdomain="py",
            reftype="obj",
            reftarget=piece.name,
            refexplicit=True,
            refwarn=False,
        )
        where = nodes.paragraph("", "", link, nodes.Text(f" {piece.where}"), classes=["walk-where"])
        block = nodes.literal_block(piece.text, piece.text, language="python")
        if "mark" in self.options:
            block["highlight_args"] = {"hl_lines": marked_lines(piece.text, self.options["mark"])}
        if piece.docstring is None:
            return [where, block]
        summary = " ".join(piece.docstring.split("\n\n")[0].split())
        docstring = nodes.literal_block(piece.docstring, piece.docstring, language="text")
        return [where, block, *fold(f"Docstring: {summary}", docstring)]


class FullSource(SphinxDirective):
    """A file from its first line to its last, as it is."""

    required_arguments = 1
    option_spec = {"folded": directives.flag}

    def run(self) -> list[nodes.Node]:
        """Returns the file as one block."""
        path = path_of(self.arguments[0])
        if not path.is_file():
            raise self.error(f"{self.arguments[0]}: there is no such module")
        self.env.note_dependency(str(path))
        text = path.read_text(encoding="utf-8")
        block = nodes.literal_block(text, text, language="python")
        where = f"{path.relative_to(ROOT).as_posix()}, all {len(text.splitlines())} lines"
        if "folded" in self.options:
            return fold(where, block)
        heading = nodes.paragraph("", where, classes=["walk-where"])
        return [nodes.container("", heading, block, classes=["walk-whole"])]


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the directives and the style sheet."""
    app.add_directive("side-by-side", SideBySide)
    app.add_directive("full-source", FullSource)
    app.connect("config-inited", lambda app, config: config.html_static_path.append(str(STATIC)))
    app.add_css_file("walkthrough.css")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
