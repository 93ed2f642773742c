"""Mutation: plant a bug in the shipped code, and take it out again.

A mutant is a patch of a few lines, kept as text. To plant it, the source of one function is read, the lines
are replaced, the result is compiled, and the live function gets the new code object. So everything that
refers to the function sees the bug, and nothing is copied: what a check catches, it would catch in the real
thing.

Code in C++ cannot be patched while it runs. There the lines are replaced in a copy of the source, which is
built like the shipped one, and kept; all models and rules that use the shipped library then call this one.

Mutation testing goes back to DeMillo, Lipton and Sayward 1978, "Hints on test data selection".
"""

from __future__ import annotations
import __future__

import ast
import difflib
import importlib
import inspect
import re
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType, SimpleNamespace
from typing import Any, Literal

import torch

from minispec.native.library import COMPUTES_IN, FLAGS, SOURCE, load_native, native_functions

Effect = Literal["biased", "slower", "breaks"]
CPP = "minispec/native/cpp/"
QUICK = tuple("-O1" if flag == "-O3" else flag for flag in FLAGS)  # builds in about a second


@dataclass(frozen=True)
class Mutant:
    """One idea of how to get it wrong: a patch (see mutants.txt)."""

    name: str  #: short, with hyphens
    title: str  #: what it does, in a few words
    function: str  #: where: `module:function`, `module:Class.method`, in C++ `file:function`
    old: str  #: lines of that function (in C++, of the file), which occur once
    new: str  #: what stands there instead
    seen: str = "not seen in other code"  #: where such a bug was seen
    #: `biased`: the output has another distribution. `slower`: it has not, but less is accepted, drafted or
    #: counted. `breaks`: another promise is broken, as `harm` says.
    effect: Effect = "biased"
    harm: str = ""  #: what is broken
    crosses_rows: bool = False  #: whether a row's distribution comes to depend on the others of its batch

    @property
    def is_native(self) -> bool:
        """Whether it is planted in the C++."""
        return self.function.startswith(CPP)

    @property
    def path(self) -> str:
        """The file that it is planted in, from the project's folder on."""
        module = self.function.partition(":")[0]
        return module if self.is_native else module.replace(".", "/") + ".py"

    def to_json(self) -> dict[str, str]:
        """Returns what there is to read about it, the patch included."""
        names = ("name", "title", "function", "seen", "effect")
        return {name: getattr(self, name) for name in names} | {"diff": diff(self)}


@contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """Runs the body of a `with` statement with the bug in the live code; takes it out whatever happens.

    Raises:
        ValueError: if the patch does not fit, or the library cannot be built.
    """
    changes = changes_of(mutant)
    shipped = [(what, name, getattr(what, name)) for what, name, _ in changes]
    try:
        for what, name, faulty in changes:
            setattr(what, name, faulty)
        yield
    finally:
        for what, name, own in shipped:
            setattr(what, name, own)


def changes_of(mutant: Mutant) -> list[tuple[object, str, object]]:
    """Returns what is given which attribute: a function another code, the libraries other functions."""
    if not mutant.is_native:
        function = find_function(mutant.function)
        return [(function, "__code__", compiled(mutant, function))]
    both = [(native_functions(dtype), faulty_library(mutant, dtype)) for dtype in COMPUTES_IN]
    return [(live, name, function) for live, faulty in both for name, function in vars(faulty).items()]


def faulty_library(mutant: Mutant, dtype: torch.dtype) -> SimpleNamespace:
    """Returns the functions of the library with a bug; it is built if it is not there."""
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copytree(SOURCE.parent, Path(folder) / "cpp")
        (copy / Path(mutant.path).name).write_text(patched(mutant, source_of(mutant)), encoding="utf-8")
        return load_native(dtype, source=copy / SOURCE.name, flags=QUICK)


def build_all(mutants: Iterable[Mutant]) -> None:
    """Builds the libraries of mutants in C++, two at a time."""
    with ThreadPoolExecutor(2) as two:
        list(two.map(lambda one: faulty_library(one, torch.float64), (m for m in mutants if m.is_native)))


def code_run(work: Callable[[], object]) -> frozenset[CodeType]:
    """Does some work, and returns the code of all functions that were called for it."""
    seen: set[CodeType] = set()
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, _: seen.add(frame.f_code) if event == "call" else None)
    try:
        work()
    finally:
        sys.setprofile(before)
    return frozenset(seen)


def find_function(name: str) -> FunctionType:
    """Returns a plain function: a method's, a property's getter, or what stands inside a decorator.

    Raises:
        ValueError: if there is no function of that name, `module:function` or `module:Class.method`.
    """
    module_name, _, path = name.partition(":")
    found: Any = importlib.import_module(module_name)
    for part in path.split("."):
        found = inspect.getattr_static(found, part, None)
    if isinstance(found, property):
        found = found.fget
    plain = inspect.unwrap(found)
    if not isinstance(plain, FunctionType):
        raise ValueError(f"there is no function {name}")
    return plain


def source_of(mutant: Mutant) -> str:
    """Returns what a mutant patches: a function, its outer indentation removed; in C++ the whole file."""
    if mutant.is_native:
        return SOURCE.with_name(Path(mutant.path).name).read_text(encoding="utf-8")
    return textwrap.dedent(inspect.getsource(find_function(mutant.function)))


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
    tree = ast.parse(patched(mutant, source_of(mutant)))
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef)
    definition.decorator_list = []  # the live function stays inside its decorators
    flags = __future__.annotations.compiler_flag
    module = compile(tree, f"<mutant {mutant.name}>", "exec", flags=flags, dont_inherit=True)
    (code,) = (item for item in module.co_consts if isinstance(item, CodeType))
    return code


def diff(mutant: Mutant) -> str:
    """Returns the patch as a unified diff, with two lines around it."""
    source = source_of(mutant)
    texts = source.splitlines(), patched(mutant, source).splitlines()
    lines = difflib.unified_diff(*texts, mutant.path, mutant.name, lineterm="", n=2)
    return "\n".join(lines)
