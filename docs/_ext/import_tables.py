"""Who imports whom, read from the files of the package at every build: tables for the architecture page."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
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
        purpose = " ".join((ast.get_docstring(tree) or "").split("\n\n")[0].replace("`", "").split())
        package = next(iter(path.relative_to(root).parts[1:-1]), "")
        others = frozenset(imported(tree, paths) - {name})
        found[name] = Module(name, package, purpose, others, len(source.splitlines()))
    return found


def name_of(path: Path, root: Path) -> str:
    """Returns the full name of a file."""
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


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


def package_imports(found: Mapping[str, Module]) -> dict[str, set[str]]:
    """Returns the packages that each package imports; `minispec` itself is none."""
    imports: dict[str, set[str]] = {module.package: set() for module in found.values() if module.package}
    for module in found.values():
        if module.package:
            imports[module.package] |= {found[other].package for other in module.imports}
    return {package: others - {package, ""} for package, others in imports.items()}


def packages(found: Mapping[str, Module]) -> list[str]:
    """Returns the packages, each before those that it imports.

    Raises:
        graphlib.CycleError: if packages import each other in a ring.
    """
    return list(TopologicalSorter(package_imports(found)).static_order())[::-1]


def package_rows() -> list[list[str]]:
    """Returns the table of packages, heads first."""
    found = modules()
    order = packages(found)
    imports = package_imports(found)
    rows = [["package", "what it is", "imports", "files", "lines"]]
    for package in order:
        files = [module for module in found.values() if module.package == package]
        others = ", ".join(other for other in order if other in imports[package])
        count = f"{sum(module.lines for module in files):,}"
        rows.append([package, found[f"minispec.{package}"].says, others or "–", str(len(files)), count])
    return rows


def file_rows(package: str) -> list[list[str]]:
    """Returns the table of a package's files, heads first; they are named without the package."""
    prefix = f"minispec.{package}."
    rows = [["file", "what it is for", "imports", "lines"]]
    for name, module in modules().items():
        if name.startswith(prefix):
            others = sorted(other.removeprefix(prefix).removeprefix("minispec.") for other in module.imports)
            rows.append([name.removeprefix(prefix), module.says, ", ".join(others) or "–", str(module.lines)])
    return rows
