"""Mutation: plant a bug in the shipped code, and take it out again.

A mutant is a patch of a few lines, kept as text. To plant it, the source of one function is read, the lines
are replaced, the result is compiled, and the live function gets the new code object. So everything that
refers to the function sees the bug, and nothing is copied: what a check catches, it would catch in the real
thing.

Mutation testing goes back to DeMillo, Lipton and Sayward 1978, "Hints on test data selection".
"""

from __future__ import annotations
import __future__

import ast
import difflib
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any, Literal

Effect = Literal["biased", "slower", "breaks"]


@dataclass(frozen=True)
class Mutant:
    """One idea of how to get it wrong.

    Attributes:
        name: short, with hyphens.
        title: what it does, in a few words.
        function: where, as `module:function` or `module:Class.method`.
        old: lines of that function, without the indentation of the first; they occur once.
        new: what stands there instead.
        seen: where such a bug was seen.
        effect: `biased`: the output has another distribution. `slower`: the distribution is right, but less
            is accepted, drafted or counted. `breaks`: another promise is broken.
        harm: what is broken, where `effect` is `breaks`.
        crosses_rows: whether a row's distribution comes to depend on the other rows of its batch.
    """

    name: str
    title: str
    function: str
    old: str
    new: str
    seen: str = "not seen in other code"
    effect: Effect = "biased"
    harm: str = ""
    crosses_rows: bool = False

    def to_json(self) -> dict[str, str]:
        """Returns what there is to read about it, the patch included."""
        names = ("name", "title", "function", "seen", "effect")
        return {name: getattr(self, name) for name in names} | {"diff": diff(self)}


@contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """Runs the body of a `with` statement with the bug in the live code; takes it out whatever happens."""
    function = find_function(mutant.function)
    original = function.__code__
    function.__code__ = compiled(mutant, function)
    try:
        yield
    finally:
        function.__code__ = original


def find_function(name: str) -> FunctionType:
    """Returns a plain function: a method's, a property's getter, or what stands inside a decorator.

    Args:
        name: `module:function` or `module:Class.method`.

    Raises:
        ValueError: if there is no such function.
    """
    module_name, _, path = name.partition(":")
    found: Any = importlib.import_module(module_name)
    for part in path.split("."):
        found = inspect.getattr_static(found, part, None)
    if isinstance(found, property):
        found = found.fget
    if found is None:
        raise ValueError(f"there is no function {name}")
    plain = inspect.unwrap(found)
    if not isinstance(plain, FunctionType):
        raise ValueError(f"{name} is no function")
    return plain


def source_of(function: FunctionType) -> str:
    """Returns the source of a function, its outer indentation removed."""
    return textwrap.dedent(inspect.getsource(function))


def patched(mutant: Mutant, source: str) -> str:
    """Returns the source with the patch applied; further lines get the indentation of the first.

    Raises:
        ValueError: if the old lines do not occur exactly once.
    """
    first = mutant.old.split("\n", 1)[0]
    found = []
    for match in re.finditer(re.escape(first), source):
        line = source[source.rfind("\n", 0, match.start()) + 1 :]
        margin = "\n" + line[: len(line) - len(line.lstrip())]
        if source.startswith(mutant.old.replace("\n", margin), match.start()):
            found.append((match.start(), margin))
    if len(found) != 1:
        raise ValueError(
            f"the patch of {mutant.name} should fit {mutant.function} in one place, not in {len(found)}"
        )
    start, margin = found[0]
    after = source[start + len(mutant.old.replace("\n", margin)) :]
    return source[:start] + mutant.new.replace("\n", margin) + after


def compiled(mutant: Mutant, function: FunctionType) -> CodeType:
    """Returns the code of the function with the patch applied."""
    tree = ast.parse(patched(mutant, source_of(function)))
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef)
    definition.decorator_list = []  # the live function stays inside its decorators
    flags = __future__.annotations.compiler_flag
    module = compile(tree, f"<mutant {mutant.name}>", "exec", flags=flags, dont_inherit=True)
    (code,) = (item for item in module.co_consts if isinstance(item, CodeType))
    return code


def diff(mutant: Mutant) -> str:
    """Returns the patch as a unified diff, with two lines around it."""
    source = source_of(find_function(mutant.function))
    path = mutant.function.partition(":")[0].replace(".", "/") + ".py"
    lines = difflib.unified_diff(
        source.splitlines(), patched(mutant, source).splitlines(), path, mutant.name, lineterm="", n=2
    )
    return "\n".join(lines)
