"""Reading what a student handed in, without running any of it.

A notebook is a list of statements, each with the names that it binds and those that it uses.
"""

from __future__ import annotations

import ast
import json
import re
import symtable
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MOST_BYTES = 5_000_000  # of one file; a notebook without outputs has some 30,000
UNREAD = ("solutions", "__pycache__")  # `minispec lab --with-solutions` puts ours there
CANNOT = (SyntaxError, ValueError, RecursionError, MemoryError)


@dataclass(frozen=True)
class Statement:
    """One statement at the top level of a notebook.

    Attributes:
        node: as Python reads it.
        source: as the student wrote it.
        binds: names that it sets.
        uses: names that it needs from elsewhere, also inside of functions.
    """

    node: ast.stmt
    source: str
    binds: frozenset[str]
    uses: frozenset[str]


@dataclass(frozen=True)
class Source:
    """A notebook or script.

    Attributes:
        name: its path within the submission.
        statements: in order.
        faults: what cannot be read, in plain words.
    """

    name: str
    statements: tuple[Statement, ...]
    faults: tuple[str, ...] = ()


@dataclass(frozen=True)
class Submission:
    """All that one student handed in.

    Attributes:
        student: the name of the folder, or of the file without its ending.
        sources: in the order of their names.
    """

    student: str
    sources: tuple[Source, ...]


def read_submissions(folder: Path) -> list[Submission]:
    """Returns what a folder holds: one student per sub-folder, notebook or script.

    Args:
        folder: of the class. Hidden entries and links are left out.

    Raises:
        ValueError: if it is no folder, holds no submission, or is a single student's copy.
    """
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder}")
    if (folder / ".minispec-lab.json").exists():
        raise ValueError(
            f"{folder} is one copy of the notebooks; put each student's into a folder of its own"
        )
    try:
        entries = sorted(entry for entry in folder.iterdir() if wanted(entry))
        found = [Submission(entry.stem if entry.is_file() else entry.name, read(entry)) for entry in entries]
    except OSError as error:
        raise ValueError(f"cannot read {folder}: {error.strerror or error}") from error
    if not found:
        raise ValueError(f"{folder} holds no submission: no folder, .ipynb or .py in it")
    return found


def wanted(entry: Path) -> bool:
    """Whether an entry of the class's folder is a submission."""
    if entry.name.startswith((".", "__")) or entry.is_symlink():
        return False
    return entry.is_dir() or entry.suffix in (".ipynb", ".py")


def read(entry: Path) -> tuple[Source, ...]:
    """Reads a student's file, or all notebooks and scripts of a student's folder."""
    if entry.is_file():
        return (read_source(entry, entry.name),)
    files = sorted(path for ending in ("*.ipynb", "*.py") for path in entry.rglob(ending))
    within = [(path, path.relative_to(entry)) for path in files if path.is_file() and not path.is_symlink()]
    return tuple(
        read_source(path, name.as_posix())
        for path, name in within
        if not any(part.startswith(".") or part in UNREAD for part in name.parts)
    )


def read_source(path: Path, name: str) -> Source:
    """Reads one notebook or script; what cannot be read is said in its faults."""
    if path.stat().st_size > MOST_BYTES:
        return Source(name, (), (f"{name} is larger than {MOST_BYTES // 10**6} MB",))
    text = path.read_text(encoding="utf-8", errors="replace")
    try:
        cells = cells_of(json.loads(text)) if path.suffix == ".ipynb" else re.split(r"(?m)^# %%.*$", text)
    except (ValueError, RecursionError):
        return Source(name, (), (f"{name} is no notebook",))
    statements: list[Statement] = []
    faults: list[str] = []
    for number, cell in enumerate(cells, 1):
        try:
            statements += statements_of(cell)
        except CANNOT as error:
            faults.append(f"{name}, cell {number}: {' '.join(str(error).split())[:120]}")
    return Source(name, tuple(statements), tuple(faults))


def cells_of(notebook: Any) -> list[str]:
    """Returns the code cells of a notebook, each as one text.

    Raises:
        ValueError: if it is none.
    """
    try:
        cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        return ["".join(cell["source"]) for cell in cells]
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError("no notebook") from error


def statements_of(cell: str) -> Iterator[Statement]:
    """Yields the statements of a cell; lines that speak to Jupyter (%, !, ?) count as empty.

    Raises:
        SyntaxError, ValueError, RecursionError or MemoryError: if it is no Python.
    """
    try:
        tree = ast.parse(cell)
    except SyntaxError:
        cell = re.sub(r"(?m)^(\s*)(?:[%!?].*|\S+\?+\s*)$", r"\1pass", cell)
        tree = ast.parse(cell)
    lines = cell.splitlines()
    for node in tree.body:
        yield Statement(node, source_of(node, lines), *names_in(node))


def source_of(node: ast.stmt, lines: Sequence[str]) -> str:
    """Returns a statement as it was written, decorators and all."""
    first = min([node.lineno, *(mark.lineno for mark in getattr(node, "decorator_list", []))])
    alone = "\n".join(lines[first - 1 : node.end_lineno])
    try:
        if len(ast.parse(alone).body) == 1:
            return alone
    except SyntaxError:
        pass
    return ast.unparse(node)  # it shares a line with another


def names_in(node: ast.stmt) -> tuple[frozenset[str], frozenset[str]]:
    """Returns the names that a statement binds, and those that it uses, functions in it included."""
    table = symtable.symtable(ast.unparse(node), "cell", "exec")
    binds = {s.get_name() for s in table.get_symbols() if s.is_assigned() or s.is_imported()}
    uses = {s.get_name() for s in table.get_symbols() if s.is_referenced()}
    inner = list(table.get_children())
    while inner:
        scope = inner.pop()
        uses |= {s.get_name() for s in scope.get_symbols() if s.is_global()}
        inner += scope.get_children()
    for target in getattr(node, "targets", [getattr(node, "target", None)]):
        while isinstance(target, ast.Subscript | ast.Attribute):  # helper[0] = 1 belongs to helper
            target = target.value
            if isinstance(target, ast.Name):
                binds.add(target.id)
    if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
        binds.add("*")
    return frozenset(binds), frozenset(uses)
