"""Pieces of source for the walk-through: found by name and by text, never by line number.

A page names an object of the package, and says by text where a piece of it begins and ends. Here the file is
read, not imported. What is not there, or there twice, is said in one line.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MOST_LINES = 25  # what stands next to a few sentences
TO = " … "  # in a mark: from a line with this text to the next line with that text
ALL = "all"  # a mark: the whole piece
DIRECTIVE = re.compile(
    r"^(`{3,})\{(side-by-side|whole-file|full-source)\}[ ]+(\S+)[ ]*\n(.*?)^\1[ ]*$",
    re.MULTILINE | re.DOTALL,
)
OPTION = re.compile(r"^:([a-z-]+):(?:[ ]+(.*?))?[ ]*$")

Functions = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Shown:
    """What a page asks for.

    Attributes:
        name: full name of a function, method, class or constant.
        start_at: text in the first line of the piece; None: the object's own first line.
        end_before: text in the first line after the piece; None: to the object's end.
        page: where it is asked for.
        folded: whether it stands under others of its file, without prose, and may be long.
        marks: texts of lines to be marked; `one … other` marks a stretch, `all` the whole piece.
    """

    name: str
    start_at: str | None = None
    end_before: str | None = None
    page: str = ""
    folded: bool = False
    marks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Piece:
    """Lines of a file.

    Attributes:
        path: of the file, relative to the repository.
        numbers: of the lines, counted from 1, without the object's docstring.
        text: these lines, shifted to the left.
        docstring: the object's, where the piece begins with its first line; else None.
        marked: which lines of the text are marked, counted from 1.
    """

    path: str
    numbers: tuple[int, ...]
    text: str
    docstring: str | None
    marked: tuple[int, ...] = ()


@dataclass(frozen=True)
class Object:
    """A named thing in a file.

    Attributes:
        path: the file.
        first: its first line, decorators included, counted from 1.
        last: its last line.
        hidden: lines of its docstring.
        docstring: as it is read, or None.
    """

    path: Path
    first: int
    last: int
    hidden: range
    docstring: str | None


@cache
def parsed(path: Path) -> tuple[ast.Module, tuple[str, ...]]:
    """Returns a file's tree and its lines."""
    source = path.read_text(encoding="utf-8")
    return ast.parse(source), tuple(source.splitlines())


def find(name: str, root: Path = ROOT) -> Object:
    """Finds an object by its full name.

    Raises:
        ValueError: if there is no such module, or no such object in it.
    """
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        path = root.joinpath(*parts[:cut]).with_suffix(".py")
        if path.is_file():
            break
    else:
        raise ValueError(f"{name}: there is no such module")
    node: ast.AST = parsed(path)[0]
    for part in parts[cut:]:
        inside = next((child for child in ast.iter_child_nodes(node) if part in names_of(child)), None)
        if inside is None:
            raise ValueError(f"{name}: {path.relative_to(root)} has no {part}")
        node = inside
    return as_object(node, path)


def names_of(node: ast.AST) -> list[str]:
    """Returns the names that a statement gives."""
    if isinstance(node, Functions | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def as_object(node: ast.AST, path: Path) -> Object:
    """Returns where a statement stands, and where its docstring does."""
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(d.lineno for d in decorators)])  # type: ignore[attr-defined]
    hidden, docstring = range(0), None
    if isinstance(node, Functions | ast.ClassDef) and ast.get_docstring(node) is not None:
        said = node.body[0]
        hidden = range(said.lineno, (said.end_lineno or said.lineno) + 1)
        docstring = ast.get_docstring(node)
    return Object(path, first, node.end_lineno or first, hidden, docstring)  # type: ignore[attr-defined]


def cut(shown: Shown, root: Path = ROOT) -> Piece:
    """Cuts out what a page asks for.

    Raises:
        ValueError: if the object or one of the texts is not there, or the first text is there twice.
    """
    found = find(shown.name, root)
    lines = parsed(found.path)[1]
    numbers = [n for n in range(found.first, found.last + 1) if n not in found.hidden]
    start, end = numbers[0], numbers[-1] + 1
    if shown.start_at is not None:
        places = [n for n in numbers if shown.start_at in lines[n - 1]]
        if len(places) != 1:
            raise ValueError(f"{shown.name}: {len(places)} lines have {shown.start_at!r}; one should")
        start = places[0]
    if shown.end_before is not None:
        later = [n for n in numbers if n > start and shown.end_before in lines[n - 1]]
        if not later:
            raise ValueError(f"{shown.name}: no line after the piece's first has {shown.end_before!r}")
        end = later[0]
    kept = [n for n in numbers if start <= n < end]
    while kept and re.match(r"\s*(@.*)?$", lines[kept[-1] - 1]):
        kept.pop()  # an empty line, or a decorator: it belongs to what follows
    text = textwrap.dedent("\n".join(lines[n - 1] for n in kept))
    docstring = found.docstring if start == found.first else None
    marked = marked_lines(shown, text.splitlines())
    return Piece(found.path.relative_to(root).as_posix(), tuple(kept), text, docstring, marked)


def marked_lines(shown: Shown, lines: Sequence[str]) -> tuple[int, ...]:
    """Returns which lines of a piece are marked, counted from 1.

    Raises:
        ValueError: if no line has one of the texts.
    """
    if shown.marks == (ALL,):
        return tuple(n for n, line in enumerate(lines, 1) if line)
    found: set[int] = set()
    for mark in shown.marks:
        first, to, last = mark.partition(TO)
        starts = [n for n, line in enumerate(lines, 1) if first in line]
        ends = [n for n, line in enumerate(lines, 1) if to and starts and n > starts[0] and last in line]
        if not starts or (to and not ends):
            raise ValueError(f"{shown.name}: no line of the piece to mark has {mark!r}")
        found |= set(range(starts[0], ends[0] + 1)) if to else set(starts)
    return tuple(sorted(found))


def pieces_of(page: Path) -> Iterator[Shown]:
    """Yields what a page asks for, in order.

    Raises:
        ValueError: if a text has a sign that the page's own parser would take for a comment.
    """
    for match in DIRECTIVE.finditer(page.read_text(encoding="utf-8")):
        if match[2] != "side-by-side":
            yield from all_of(match[3], page.name)
            continue
        options = {}
        for line in match[4].splitlines():
            option = OPTION.match(line)
            if option is None:
                break
            if "#" in (option[2] or ""):
                raise ValueError(f"{page.name}: {line!r}: what follows # would be taken for a comment")
            options[option[1]] = option[2]
        yield Shown(
            match[3],
            options.get("start-at"),
            options.get("end-before"),
            page.name,
            marks=texts_of(options.get("mark")),
        )


def texts_of(option: str | None) -> tuple[str, ...]:
    """Returns the texts of the option `mark`: between them stands ` ; `."""
    return tuple(text.strip() for text in (option or "").split(" ; ") if text.strip())


def all_of(module: str, page: str = "", root: Path = ROOT) -> Iterator[Shown]:
    """Yields the public functions and classes of a file, in order.

    Raises:
        ValueError: if there is no such file, or nothing public in it.
    """
    path = root.joinpath(*module.split(".")).with_suffix(".py")
    if not path.is_file():
        raise ValueError(f"{module}: there is no such module")
    names = list(dict.fromkeys(name.split(".")[0] for name in public_lines(path)))
    if not names:
        raise ValueError(f"{module} has nothing public to show")
    yield from (Shown(f"{module}.{name}", page=page, folded=True) for name in names)


def public_lines(module: Path) -> dict[str, set[int]]:
    """Returns the lines that a complete walk-through shows of a module, by public name.

    Those of every public function and method, and the fields of every public class; no docstrings. Special
    methods count where they have code.
    """
    tree, lines = parsed(module)
    found: dict[str, set[int]] = {}

    def note(name: str, node: ast.AST) -> None:
        thing = as_object(node, module)
        numbers = set(range(thing.first, thing.last + 1)) - set(thing.hidden)
        found[name] = {n for n in numbers if lines[n - 1].strip()}

    for node in tree.body:
        if isinstance(node, Functions) and not node.name.startswith("_"):
            note(node.name, node)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            for part in node.body:
                if isinstance(part, ast.AnnAssign | ast.Assign):
                    note(f"{node.name}.{names_of(part)[0]}", part)
                elif isinstance(part, Functions) and re.match(r"[^_]|__\w+__$", part.name):
                    note(f"{node.name}.{part.name}", part)
    return found


def first_sentence(docstring: str) -> str:
    """Returns what a docstring says in its first paragraph."""
    return " ".join(inspect.cleandoc(docstring).split("\n\n")[0].split())
