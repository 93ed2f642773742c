"""Finding a student's answer to an exercise, without running anything.

An exercise asks for one name. Its answer is the function of that name, and whatever else in the notebook that
function needs: imports, helpers, constants. Everything else stays behind: cells that print, plot, check or
patch never run in the grader.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from minispec.classroom.exercise import Exercise
from minispec.classroom.grading.submission import Source, Statement, Submission

# What the exercises themselves tell people to use. Anything else of ours in an answer is worth a look.
TOOLS = {"Draft", "Verdict", "SeededRng", "Warp"}


@dataclass(frozen=True)
class Answer:
    """What a submission holds for one exercise.

    Attributes:
        key: of the exercise.
        name: what is to be judged: a function or a class.
        source: that, and what it needs.
        blank: whether nothing has been written yet.
        uses: names of ours in it, beyond what the exercise says to use.
    """

    key: str
    name: str
    source: str
    blank: bool
    uses: tuple[str, ...] = ()


def answer_in(submission: Submission, exercise: Exercise) -> Answer | None:
    """Returns what a submission has for an exercise; None if the name that is asked for is nowhere in it.

    Where several files have it, one that is written on counts more than a stub, then one whose name begins
    with the notebook's number, then the last.
    """
    (stub,) = ast.parse(exercise.stub).body
    assert isinstance(stub, ast.FunctionDef | ast.ClassDef)
    found = [answer for source in submission.sources if (answer := answer_of(source, exercise.key, stub))]
    names = [source.name for source in submission.sources if answer_of(source, exercise.key, stub)]
    number = f"{exercise.notebook:02d}"
    ranked = sorted(
        range(len(found)),
        key=lambda i: (not found[i].blank, Path(names[i]).name.startswith(number), i),
    )
    return found[ranked[-1]] if ranked else None


def answer_of(source: Source, key: str, stub: ast.FunctionDef | ast.ClassDef) -> Answer | None:
    """Returns the answer in one file, or None."""
    own = [s for s in source.statements if stub.name in s.binds and not is_import(s.node)]
    if not own:
        return None
    written = [s for s in own if not is_blank(s.node, stub)]
    if not written:
        return Answer(key, stub.name, own[-1].source, blank=True)
    needed = what_is_needed([s for s in source.statements if s in written or s not in own], stub.name)
    text = "\n\n\n".join(s.source for s in needed)
    return Answer(key, stub.name, text + "\n", blank=False, uses=ours_in(text))


def what_is_needed(statements: Sequence[Statement], name: str) -> list[Statement]:
    """Returns the statements that bind a name, and all that these need in turn, in order."""
    names, size = {name, "*"}, 0
    while size < len(names):
        size = len(names)
        for statement in statements:
            if statement.binds & names:
                names |= statement.uses
    return [statement for statement in statements if statement.binds & names]


def is_import(node: ast.stmt) -> bool:
    """Whether a statement imports: to import a name is not to write it."""
    return isinstance(node, ast.Import | ast.ImportFrom)


def is_blank(node: ast.stmt, stub: ast.FunctionDef | ast.ClassDef) -> bool:
    """Whether a definition is still the stub, or has nothing in it but a docstring, `...` or `pass`."""
    if ast.dump(node) == ast.dump(stub):
        return True
    if not isinstance(node, ast.FunctionDef):
        return False
    body = [s for s in node.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    return all(
        isinstance(s, ast.Pass) or ast.unparse(s).startswith("raise NotImplementedError") for s in body
    )


def ours_in(text: str) -> tuple[str, ...]:
    """Returns the names of minispec that a source mentions, beyond the tools of the exercises."""
    named = set(re.findall(r"\bminispec(?:\.\w+)+", text))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "minispec":
            named |= {f"{node.module}.{alias.name}" for alias in node.names}
            named -= {node.module}
    return tuple(sorted(name for name in named if name.rpartition(".")[2] not in TOOLS))
