"""The architecture page: its tables are made from the imports, and its contracts are the code's."""

import ast
import re
from graphlib import CycleError
from pathlib import Path

import import_tables as imports
import pytest
from source_and_prose import find

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "architecture.md"


def small(tmp_path, **files):
    """Writes a few files; the name of each has its package and two underscores before it."""
    for name, text in files.items():
        path = tmp_path / "minispec" / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        (path.parent / "__init__.py").write_text('"""A package."""\n', encoding="utf-8")
    imports.modules.cache_clear()
    return imports.modules(tmp_path)


def test_imports_are_read_in_whatever_form(tmp_path):
    """Names, modules, and imports inside of functions; a name that is no module counts for its file."""
    found = small(
        tmp_path,
        core__model='"""A model."""\n',
        core__cache="",
        io__trace="from minispec.core.model import GPT\n\n\ndef f():\n    import minispec.core.cache\n",
        io__stream="from minispec.core import cache, nothing\nimport torch\n",
    )
    assert found["minispec.io.trace"].imports == {"minispec.core.model", "minispec.core.cache"}
    assert found["minispec.io.stream"].imports == {"minispec.core.cache", "minispec.core"}
    assert imports.package_imports(found) == {"core": set(), "io": {"core"}}
    assert imports.packages(found) == ["io", "core"]
    assert found["minispec.core.model"].says == "A model."


def test_a_ring_is_refused(tmp_path):
    """Packages that import each other have no order."""
    found = small(tmp_path, core__a="import minispec.io.b\n", io__b="import minispec.core.a\n")
    with pytest.raises(CycleError):
        imports.packages(found)


def test_the_tables_say_what_is_imported():
    """A row a package, the importing one before the imported one; a row a file."""
    heads, *rows = imports.package_rows()
    names = [row[0] for row in rows]
    assert names == imports.packages(imports.modules()) and names[-1] == "core"
    found = {name: row[heads.index("imports")] for name, row in zip(names, rows, strict=True)}
    assert (found["core"], found["rules"], found["io"]) == ("–", "core", "drafters, core")
    files = {row[0]: row[1:] for row in imports.file_rows("core")}
    assert files["rollback"] == ["Rollback: forget what was read but not kept.", "cache, records", "25"]
    assert len(imports.file_rows("nothing")) == 1


def protocols():
    """Returns the full names of the protocols of all packages up to training."""
    return {
        f"minispec.{package}.{path.stem}.{node.name}"
        for package in ("core", "drafters", "rules", "io", "native", "train")
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


def test_every_package_has_its_words_and_its_files():
    """A package that is added needs a paragraph and a table on the page, after those that it imports."""
    page = PAGE.read_text(encoding="utf-8")
    order = re.findall(r"^\*\*`(\w+)`: ", page, re.MULTILINE)
    assert sorted(order) == sorted(imports.packages(imports.modules()))
    assert re.findall(r"\{made\} files-of (\w+)", page) == order
    for one, others in imports.package_imports(imports.modules()).items():
        assert all(order.index(other) < order.index(one) for other in others)


def test_every_package_has_its_page_of_the_api():
    """And the page lists the modules of its own package."""
    folder = ROOT / "docs" / "api"
    for name in imports.packages(imports.modules()):
        assert f"<!-- package: {name} -->" in (folder / f"{name}.md").read_text(encoding="utf-8")
        assert f"\n{name}\n" in (folder / "index.md").read_text(encoding="utf-8")


def test_every_file_says_what_it_is_for():
    """The tables are made of the files' first sentences: each must have one."""
    assert [name for name, found in imports.modules().items() if not found.says] == []
