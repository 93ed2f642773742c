"""Who imports whom: read from the files of the package, for the architecture page and its drawings."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Module:
    """A file of the package.

    Attributes:
        name: full name, such as `minispec.core.loop`.
        package: the folder it stands in, such as `core`; an empty text for the files outside of all.
        says: the first paragraph of its docstring.
        imports: full names of the package's modules that it imports, anywhere in the file.
        lines: how many it has.
    """

    name: str
    package: str
    says: str
    imports: frozenset[str]
    lines: int


@cache
def modules(root: Path = ROOT) -> dict[str, Module]:
    """Reads the package.

    Args:
        root: the folder that holds `minispec`.

    Returns:
        Every module by its full name; a folder's own file has the folder's name.
    """
    paths = {name_of(path, root): path for path in sorted((root / "minispec").rglob("*.py"))}
    found = {}
    for name, path in paths.items():
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source)
        said = " ".join((ast.get_docstring(tree) or "").split("\n\n")[0].split())
        folders = path.relative_to(root).parts[1:-1]
        others = frozenset(imported(tree, paths) - {name})
        found[name] = Module(name, folders[0] if folders else "", said, others, len(source.splitlines()))
    return found


def name_of(path: Path, root: Path) -> str:
    """Returns the full name of a file."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(tree: ast.Module, known: Iterable[str]) -> set[str]:
    """Returns which of the known modules a file imports: `from a import b` is a.b if that is a module."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name if name in known else node.module for name in inside}
    return names & set(known)


def packages(found: Mapping[str, Module]) -> list[str]:
    """Returns the packages, each before those that it imports; of equals, by name.

    Raises:
        ValueError: if packages import each other in a ring.
    """
    names = {module.package for module in found.values()} - {""}
    depth = levels({name: {other for one, other in package_imports(found) if one == name} for name in names})
    return sorted(names, key=lambda name: (-depth[name], name))


def package_imports(found: Mapping[str, Module]) -> dict[tuple[str, str], int]:
    """Returns how many imports lead from a package to another."""
    counts: dict[tuple[str, str], int] = {}
    for module in found.values():
        for other in module.imports:
            pair = (module.package, found[other].package)
            # The version is all that `minispec` itself is imported for.
            if "" not in pair and pair[0] != pair[1]:
                counts[pair] = counts.get(pair, 0) + 1
    return counts


def levels(edges: Mapping[str, Iterable[str]]) -> dict[str, int]:
    """Returns the length of the longest chain of imports from each module to one that imports nothing.

    Raises:
        ValueError: if modules import each other in a ring.
    """
    depth: dict[str, int] = {}

    def measure(name: str, above: tuple[str, ...]) -> int:
        if name in above:
            raise ValueError(f"modules import each other in a ring: {' → '.join([*above, name])}")
        if name not in depth:
            depth[name] = max((measure(other, (*above, name)) + 1 for other in edges[name]), default=0)
        return depth[name]

    for name in edges:
        measure(name, ())
    return depth


def needed(edges: Mapping[str, Iterable[str]]) -> dict[str, set[str]]:
    """Returns the imports that do not follow from others: a → c goes where a → b → c is there."""

    def reach(name: str) -> set[str]:
        return {below for other in edges[name] for below in {other, *reach(other)}}

    return {
        name: set(others) - {below for other in others for below in reach(other)}
        for name, others in edges.items()
    }


def within(found: Mapping[str, Module], package: str) -> dict[str, set[str]]:
    """Returns who imports whom inside a package, by short names; its `__init__` is left out."""
    inside = {name: found[name] for name in found if name.startswith(f"minispec.{package}.")}
    return {
        short(name): {short(other) for other in module.imports if other in inside}
        for name, module in inside.items()
    }


def short(name: str) -> str:
    """Returns the last part of a name."""
    return name.rpartition(".")[2]
