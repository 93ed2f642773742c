"""Mutation: plant a bug in the shipped code, and take it out again.

A mutant is a pattern of code and what replaces it. To plant it, the source of one function is read, the
place that the pattern fits is replaced, the result is compiled, and the live function gets the new code
object. So everything that refers to the function sees the bug, and nothing is copied: what a check catches,
it would catch in the real thing.

Code in C++ cannot be patched while it runs. There the place is replaced in a copy of the source, which is
built like the shipped one, and kept; all models and verifiers that use the shipped library then call this.

Mutation testing goes back to DeMillo, Lipton and Sayward 1978, "Hints on test data selection".
"""

import __future__

import ast
import difflib
import importlib
import inspect
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType, SimpleNamespace
from typing import Any, Literal, NamedTuple

import torch

from minispec.evidence.zoo.patterns import replacements, replacements_in_cpp
from minispec.native.library import FLAGS, SOURCE, load_native, native_functions
from minispec.native.structs import COMPUTES_IN

Effect = Literal["biased", "slower", "breaks"]
CPP = "minispec/native/cpp/"
QUICK = tuple("-O1" if flag == "-O3" else flag for flag in FLAGS)  # builds in about a second


@dataclass(frozen=True)
class Mutant:
    """One idea of how to get it wrong: a patch (see mutants.toml)."""

    name: str  #: short, with hyphens
    title: str  #: what it does, in a few words
    function: str  #: where: `module:function`, `module:Class.method`, `module:Class`, in C++ `file:function`
    old: str  #: a pattern that fits there once (see patterns.py)
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


class Patch(NamedTuple):
    """What a mutant changes."""

    function: FunctionType | None  #: the live function; None in C++
    source: str  #: its source, the outer indentation removed; in C++ the whole file
    faulty: str  #: the same with the bug


@contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """Runs the body of a `with` statement with the bug in the live code; takes it out whatever happens.

    Raises:
        ValueError: if the patch does not fit, or the library cannot be built.
    """
    changes = find_changes(mutant)
    original = [(owner, name, getattr(owner, name)) for owner, name, _ in changes]
    try:
        for owner, name, faulty in changes:
            setattr(owner, name, faulty)
        yield
    finally:
        for owner, name, sound in original:
            setattr(owner, name, sound)


def find_changes(mutant: Mutant) -> list[tuple[object, str, object]]:
    """Returns which attributes get what: a function another code, the libraries other functions."""
    function, _, faulty = find_patch(mutant)
    if function is not None:
        return [(function, "__code__", compile_function(mutant, faulty))]
    changes: list[tuple[object, str, object]] = []
    for dtype in COMPUTES_IN:
        faulty_functions = vars(build_faulty_library(mutant, dtype))
        # What verifiers use and what a model made now will use: two, if the cache folder is another by now.
        live = {id(functions): functions for functions in (native_functions(dtype), load_native(dtype))}
        changes += [
            (functions, name, faulty_functions[name])
            for functions in live.values()
            for name in set(faulty_functions) - {"type", "dtype"}
        ]
    return changes


def build_faulty_library(mutant: Mutant, dtype: torch.dtype) -> SimpleNamespace:
    """Returns the functions of the library with a bug; it is built if it is not there."""
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copytree(SOURCE.parent, Path(folder) / "cpp")
        (copy / Path(mutant.path).name).write_text(find_patch(mutant).faulty, encoding="utf-8")
        return load_native(dtype, source=copy / SOURCE.name, flags=QUICK)


def called_code(work: Callable[[], object]) -> frozenset[CodeType]:
    """Does some work, and returns the code of all functions that were called for it."""
    called: set[CodeType] = set()
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, _: called.add(frame.f_code) if event == "call" else None)
    try:
        work()
    finally:
        sys.setprofile(before)
    return frozenset(called)


def find_functions(path: str) -> list[FunctionType]:
    """Returns the plain functions at a path: also what properties call, and what decorators wrap.

    Args:
        path: `module:function` or `module:Class.method`, which are one, or `module:Class` for all of it.

    Raises:
        ValueError: if there is none.
    """
    module_name, _, qualified_name = path.partition(":")
    member: Any = importlib.import_module(module_name)
    for part in qualified_name.split("."):
        member = inspect.getattr_static(member, part, None)
    members: list[Any] = list(vars(member).values()) if isinstance(member, type) else [member]
    unwrapped = [inspect.unwrap(getattr(member, "fget", member)) for member in members]
    # What `dataclass` makes stands in no file.
    functions = [f for f in unwrapped if isinstance(f, FunctionType) and f.__code__.co_filename[0] != "<"]
    if not functions:
        raise ValueError(f"there is no function {path}")
    return functions


def find_patch(mutant: Mutant) -> Patch:
    """Finds the one place that a mutant's pattern fits.

    Raises:
        ValueError: if it fits nowhere, or more than one place.
    """
    if mutant.is_native:
        source = SOURCE.with_name(Path(mutant.path).name).read_text(encoding="utf-8")
        name = mutant.function.rpartition(":")[2]
        patches = [
            Patch(None, source, faulty)
            for faulty in replacements_in_cpp(source, name, mutant.old, mutant.new)
        ]
    else:
        sources = {f: textwrap.dedent(inspect.getsource(f)) for f in find_functions(mutant.function)}
        patches = [
            Patch(function, source, faulty)
            for function, source in sources.items()
            for faulty in replacements(source, mutant.old, mutant.new)
        ]
    if len(patches) != 1:
        raise ValueError(
            f"the pattern of {mutant.name} should fit {mutant.function} in one place, not in {len(patches)}"
        )
    return patches[0]


def compile_function(mutant: Mutant, source: str) -> CodeType:
    """Returns the code of the function that a source defines."""
    tree = ast.parse(source)
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef)
    definition.decorator_list = []  # the live function stays inside its decorators
    flags = __future__.annotations.compiler_flag
    module = compile(tree, f"<mutant {mutant.name}>", "exec", flags=flags)
    (code,) = (item for item in module.co_consts if isinstance(item, CodeType))
    return code


def diff(mutant: Mutant) -> str:
    """Returns the patch as a unified diff, with two lines around it."""
    _, source, faulty = find_patch(mutant)
    texts = source.splitlines(), faulty.splitlines()
    lines = difflib.unified_diff(*texts, mutant.path, mutant.name, lineterm="", n=2)
    return "\n".join(lines)
