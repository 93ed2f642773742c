"""The architecture page: its tables are made from the imports, and its contracts are the code's."""

import ast
import re
from pathlib import Path

import import_tables as imports
from source_and_prose import find

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "architecture.md"


def test_imports_are_read_in_whatever_form():
    """Names, modules, and imports inside of functions; a name that is no module counts for its file."""
    known = {"minispec.core", "minispec.core.model", "minispec.core.cache", "minispec.io"}
    source = "from minispec.core.model import GPT\nimport torch\ndef f():\n    import minispec.core.cache\n"
    assert imports.imported(ast.parse(source), known) == {"minispec.core.model", "minispec.core.cache"}
    source = "from minispec.core import cache, nothing\nfrom . import io\n"
    assert imports.imported(ast.parse(source), known) == {"minispec.core", "minispec.core.cache"}


def test_the_tables_say_what_is_imported():
    """A row a package, the importing one before the imported one."""
    heads, *rows = imports.package_rows()
    names = [row[0] for row in rows]
    assert names == [*imports.package_imports()][::-1] and names[-1] == "core"
    found = {name: row[heads.index("imports")] for name, row in zip(names, rows, strict=True)}
    assert (found["core"], found["verifiers"], found["io"]) == ("–", "core", "drafters, core")


def protocols():
    """Returns the full names of the protocols of all packages up to training."""
    return {
        f"minispec.{package}.{path.stem}.{node.name}"
        for package in ("core", "drafters", "verifiers", "io", "native", "train")
        for path in (ROOT / "minispec" / package).glob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and any("Protocol" in ast.unparse(base) for base in node.bases)
    }


def test_all_contracts_are_listed():
    """The table has each protocol of these packages, and no other."""
    rows = re.findall(r"^\| \{py:obj\}`\w+ <([\w.]+)>` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(rows) == protocols() and len(rows) == len(set(rows))


def test_what_the_page_names_is_there():
    """Every object that the page links to exists."""
    named = re.findall(r"\{py:obj\}`(?:\w+ <)?(minispec[\w.]+)>?`", PAGE.read_text(encoding="utf-8"))
    assert len(named) > 15
    for name in set(named) - set(imports.modules()):
        find(name)


def test_every_package_has_its_words():
    """A package that is added needs a paragraph on the page, after those that it imports."""
    page = PAGE.read_text(encoding="utf-8")
    order = re.findall(r"^\*\*`(\w+)`: ", page, re.MULTILINE)
    assert sorted(order) == sorted(imports.package_imports())
    for one, others in imports.package_imports().items():
        assert all(order.index(other) < order.index(one) for other in others)


def test_every_package_has_its_page_of_the_api():
    """And the page lists the modules of its own package."""
    folder = ROOT / "docs" / "api"
    for name in imports.package_imports():
        assert f"<!-- package: {name} -->" in (folder / f"{name}.md").read_text(encoding="utf-8")
        assert f"\n{name}\n" in (folder / "index.md").read_text(encoding="utf-8")
