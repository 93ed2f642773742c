"""Reading what a student handed in, without running any of it.

A notebook is a list of statements, each with the names that it binds and those that it uses. An exercise
asks for one name. Its answer is the definition of that name, and whatever else in the notebook that needs:
imports, helpers, constants. Cells that print, plot, check or patch are left out.
"""

import ast
import copy
import json
import re
import symtable
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path

from minispec.classroom.exercise import Exercise

MOST_FILES = 20_000  # of a class, folders included: some 100 a student
MOST_BYTES = 5_000_000  # of one file; a notebook without outputs has some 30,000
UNREAD = "solutions"  # `minispec lab --with-solutions` puts ours there
ENDINGS = (".ipynb", ".py")
CANNOT = (SyntaxError, ValueError, RecursionError, MemoryError)
# What the exercises themselves tell people to use. Anything else of ours in an answer is worth a look.
TOOLS = {"Draft", "Verdict", "SeededRng", "Warp"}
Definition = ast.FunctionDef | ast.ClassDef
IDLE = re.compile(r"pass$|\.\.\.$|raise NotImplementedError|(?P<quote>['\"]).*(?P=quote)$", re.DOTALL)


@dataclass(frozen=True)
class Statement:
    """One statement at the top level of a notebook."""

    node: ast.stmt  #: as Python reads it
    source: str  #: as the student wrote it
    binds: frozenset[str]  #: names that it sets
    uses: frozenset[str]  #: names that it needs from elsewhere, also inside of functions


@dataclass(frozen=True)
class Source:
    """A notebook or script."""

    name: str  #: its path within the submission
    statements: tuple[Statement, ...]  #: in order
    faults: tuple[str, ...] = ()  #: what cannot be read, in plain words


@dataclass(frozen=True)
class Submission:
    """All that one student handed in."""

    student: str  #: the name of the folder, or of the file without its ending
    sources: tuple[Source, ...]  #: in the order of their names


@dataclass(frozen=True)
class Answer:
    """What a submission holds for one exercise."""

    name: str  #: what is to be judged: a function or a class
    source: str  #: that, and what it needs
    blank: bool  #: whether nothing has been written yet
    uses: tuple[str, ...] = ()  #: names of ours in it, beyond what the exercise says to use


def read_submissions(folder: Path) -> list[Submission]:
    """Returns what a folder holds: one student per sub-folder, notebook or script.

    Raises:
        ValueError: if it is no folder, holds no submission, is a single student's copy, or holds more than
            any class hands in.
    """
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder}")
    if (folder / ".minispec-lab").exists():
        raise ValueError(f"{folder} is one copy of the notebooks; put each student's into its own folder")
    try:
        entries = (one for one in sorted(folder.iterdir()) if one.is_dir() or one.suffix in ENDINGS)
        # All are found before any is read: `grade /` ends at once.
        found = list(islice(((entry, path) for entry in entries for path in walk(entry)), MOST_FILES + 1))
        if len(found) > MOST_FILES:
            raise ValueError(f"{folder} holds more than {MOST_FILES:,} files; is it the folder of a class?")
        students = [read(entry, [path for _, path in own]) for entry, own in groupby(found, itemgetter(0))]
    except OSError as error:
        raise ValueError(f"cannot read {folder}: {error.strerror or error}") from error
    if not students:
        raise ValueError(f"{folder} holds no submission: no folder, .ipynb or .py in it")
    return students


def walk(entry: Path) -> Iterator[Path]:
    """Yields a file, or a folder and all that is in it, but links, what is hidden, and our solutions.

    Raises:
        OSError: if a folder cannot be read.
    """
    waiting = [entry]
    while waiting:
        path = waiting.pop()
        if path.is_symlink() or path.name.startswith((".", "__")) or path.name == UNREAD:
            continue
        yield path
        if path.is_dir():
            waiting += path.iterdir()


def read(entry: Path, paths: Sequence[Path]) -> Submission:
    """Reads a student's file, or all notebooks and scripts of a student's folder."""
    if entry.is_file():
        return Submission(entry.stem, (read_source(entry, entry.name),))
    own = sorted(path for path in paths if path.suffix in ENDINGS and path.is_file())
    sources = (read_source(path, path.relative_to(entry).as_posix()) for path in own)
    return Submission(entry.name, tuple(sources))


def read_source(path: Path, name: str) -> Source:
    """Reads one notebook or script; what cannot be read is said in its faults."""
    if path.stat().st_size > MOST_BYTES:
        return Source(name, (), (f"{name} is larger than {MOST_BYTES // 10**6} MB",))
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix == ".ipynb":
        try:
            cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
            sources = ["".join(cell["source"]) for cell in cells]
        except (ValueError, RecursionError, TypeError, KeyError):
            return Source(name, (), (f"{name} is no notebook",))
    else:
        sources = re.split(r"(?m)^# %%.*$", text)
    statements: list[Statement] = []
    faults: list[str] = []
    for number, cell in enumerate(sources, 1):
        try:
            statements += statements_of(cell)
        except CANNOT as error:
            faults.append(f"{name}, cell {number}: {' '.join(str(error).split())[:120]}")
    return Source(name, tuple(statements), tuple(faults))


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
    for node in tree.body:
        if isinstance(node, Definition):  # with its comments and decorators, as it was written
            first = min([node.lineno, *(mark.lineno for mark in node.decorator_list)])
            source = "\n".join(cell.splitlines()[first - 1 : node.end_lineno])
        else:
            source = ast.unparse(node)
        yield Statement(node, source, *names_in(node))


def names_in(node: ast.stmt) -> tuple[frozenset[str], frozenset[str]]:
    """Returns the names that a statement binds, and those that it uses, functions in it included."""
    table = symtable.symtable(ast.unparse(node), "cell", "exec")
    binds = {s.get_name() for s in table.get_symbols() if s.is_assigned() or s.is_imported()}
    uses = {s.get_name() for s in table.get_symbols() if s.is_referenced()}
    inner = table.get_children()
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


def answer_in(submission: Submission, exercise: Exercise) -> Answer | None:
    """Returns what a submission has for an exercise; None if the name that is asked for is nowhere in it.

    Where several files have it, one that is written on counts more than a stub, then one whose name begins
    with the notebook's number, then the last.
    """
    (stub,) = ast.parse(exercise.stub).body
    assert isinstance(stub, Definition)
    number = f"{exercise.notebook:02d}"
    found = [
        ((not answer.blank, Path(source.name).name.startswith(number), index), answer)
        for index, source in enumerate(submission.sources)
        if (answer := answer_of(source, stub))
    ]
    return max(found, key=lambda one: one[0])[1] if found else None


def answer_of(source: Source, stub: Definition) -> Answer | None:
    """Returns the answer in one file, or None. To import a name is not to write it."""
    imports = ast.Import | ast.ImportFrom
    own = [s for s in source.statements if stub.name in s.binds and not isinstance(s.node, imports)]
    if not own:
        return None
    stubs = [s for s in own if is_blank(s.node, stub)]
    if len(stubs) == len(own):
        return Answer(stub.name, own[-1].source, blank=True)
    statements = [s for s in source.statements if s not in stubs]
    names, size = {stub.name, "*"}, 0
    while size < len(names):  # and all that what is needed needs in turn
        size = len(names)
        names |= {name for s in statements if s.binds & names for name in s.uses}
    text = "\n\n\n".join(s.source for s in statements if s.binds & names) + "\n"
    return Answer(stub.name, text, blank=False, uses=ours_in(text))


def is_blank(node: ast.stmt, stub: Definition) -> bool:
    """Whether a definition says no more than the stub, or nothing at all."""
    written = [essence(one) for one in (node, stub)]
    return not getattr(written[0], "body", [node]) or ast.dump(written[0]) == ast.dump(written[1])


def essence(node: ast.stmt) -> ast.stmt:
    """Returns a definition without docstrings, `...`, `pass` and what is not implemented."""
    node = copy.deepcopy(node)
    for inner in ast.walk(node):
        if isinstance(inner, Definition):
            inner.body = [s for s in inner.body if not IDLE.match(ast.unparse(s))]
    return node


def ours_in(text: str) -> tuple[str, ...]:
    """Returns the names of minispec that a source mentions, beyond the tools of the exercises."""
    named = set(re.findall(r"\bminispec(?:\.\w+)+", text))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "minispec":
            named |= {f"{node.module}.{alias.name}" for alias in node.names}
            named -= {node.module}
    return tuple(sorted(name for name in named if name.rpartition(".")[2] not in TOOLS))
