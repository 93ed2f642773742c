"""Who imports whom, read from the files of the package at every build: tables for the architecture page."""

import ast
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Module:
    """A file of the package.

    Attributes:
        package: the folder it stands in, such as `core`; an empty text for the files outside of all.
        says: the first paragraph of its docstring.
        imports: full names of the package's modules that it imports, anywhere in the file.
        lines: how many it has.
    """

    package: str
    says: str
    imports: set[str]
    lines: int


@cache
def modules():
    """Returns every module of the package by its full name; a folder's own file has the folder's name."""
    paths = sorted((ROOT / "minispec").rglob("*.py"))
    parts = {path: path.relative_to(ROOT).with_suffix("").parts for path in paths}
    names = {path: ".".join(parts[path]).removesuffix(".__init__") for path in paths}
    found = {}
    for path, name in names.items():
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source)
        says = " ".join((ast.get_docstring(tree) or "").split("\n\n")[0].replace("`", "").split())
        package = parts[path][1] if len(parts[path]) > 2 else ""
        imports = imported(tree, names.values()) - {name}
        found[name] = Module(package, says, imports, len(source.splitlines()))
    return found


def imported(tree, known):
    """Returns which of the known modules a file imports: `from a import b` is a.b if that is a module."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name if name in known else node.module for name in inside}
    return names & {*known}


@cache
def package_imports():
    """Returns the packages that each package imports, those first that others import; `minispec` is none."""
    found = modules()
    imports = {module.package: set() for module in found.values() if module.package}
    for module in found.values():
        if module.package:
            others = {found[other].package for other in module.imports}
            imports[module.package] |= others - {module.package, ""}
    return {package: imports[package] for package in TopologicalSorter(imports).static_order()}


def package_rows():
    """Returns the table of packages, each before those that it imports; heads first."""
    imports = package_imports()
    rows = []
    for package, others in imports.items():
        lines = [module.lines for module in modules().values() if module.package == package]
        listed = ", ".join(other for other in reversed(imports) if other in others)
        says = modules()[f"minispec.{package}"].says
        rows.append([package, says, listed or "–", str(len(lines)), f"{sum(lines):,}"])
    return [["package", "what it is", "imports", "files", "lines"], *reversed(rows)]
