"""The architecture page: its drawings are what the script draws now, and its contracts are the code's."""

import ast
import importlib
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "architecture.md"
SVG = "{http://www.w3.org/2000/svg}"


def module(name):
    sys.path.insert(0, str(ROOT / "docs" / "_ext"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.pop(0)


imports, diagram = module("import_map"), module("import_diagram")


@pytest.mark.parametrize("name", diagram.DRAWINGS)
def test_drawings_are_current(name):
    """`python docs/_ext/import_diagram.py` would write what is there."""
    assert (ROOT / "docs" / name).read_text(encoding="utf-8") == diagram.drawings()[name]


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
    assert imports.package_imports(found) == {("io", "core"): 4}
    assert imports.packages(found) == ["io", "core"]
    assert found["minispec.core.model"].says == "A model."


def test_a_new_import_changes_the_drawing(tmp_path):
    """An arrow more in the code is an arrow more in the drawing."""
    plain = small(tmp_path, core__a="", io__b="", io__c="from minispec.core import a\n")
    before = diagram.draw_packages(plain), diagram.draw_files(plain, "io")
    more = small(tmp_path, core__a="", io__b="", io__c="from minispec.io import b\n")
    after = diagram.draw_packages(more), diagram.draw_files(more, "io")
    assert before[0] != after[0] and before[1] != after[1]
    assert "io imports core" in before[0] and "io imports no other package" in after[0]


def test_only_arrows_that_say_something_are_drawn():
    """a → c follows from a → b → c."""
    edges = {"a": {"b", "c"}, "b": {"c"}, "c": set()}
    assert imports.needed(edges) == {"a": {"b"}, "b": {"c"}, "c": set()}
    assert imports.levels(edges) == {"a": 2, "b": 1, "c": 0}


def test_a_ring_is_refused():
    """Files that import each other in a ring have no levels."""
    with pytest.raises(ValueError, match="in a ring: a → b → a"):
        imports.levels({"a": {"b"}, "b": {"a"}})


def parts(name):
    return ElementTree.fromstring((ROOT / "docs" / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", diagram.DRAWINGS)
def test_drawings_have_words(name):
    """Each drawing has a title and says in words what its arrows say."""
    drawing = parts(name)
    assert drawing.find(f"{SVG}title").text
    said = drawing.find(f"{SVG}desc").text
    boxes = [text.text for text in drawing.iter(f"{SVG}text") if text.get("font-weight")]
    assert all(f"{box} imports" in said for box in boxes)


@pytest.mark.parametrize("name", diagram.DRAWINGS)
def test_every_arrow_points_down(name):
    """Each ends further down than it begins; there is one for each import that does not follow."""
    lines = [path.get("d") for path in parts(name).iter(f"{SVG}path") if path.get("marker-end")]
    heights = [[float(y) for y in re.findall(r",(-?[\d.]+)", line)] for line in lines]
    assert all(ends[0] < ends[-1] for ends in heights)
    assert len(heights) == sum(map(len, imports.needed(edges_of(name)).values()))


def edges_of(name):
    """Returns who imports whom in a drawing."""
    found = imports.modules()
    if name != diagram.DRAWINGS[0]:
        return imports.within(found, "core")
    pairs = imports.package_imports(found)
    return {one: {to for other, to in pairs if other == one} for one in imports.packages(found)}


@pytest.mark.parametrize("name", diagram.DRAWINGS)
def test_boxes_do_not_overlap(name):
    """No box of a drawing lies on another, and none is cut by the edge."""
    drawing = parts(name)
    wide, high = (float(n) for n in drawing.get("viewBox").split()[2:])
    boxes = [
        tuple(float(rect.get(name)) for name in ("x", "y", "width", "height"))
        for rect in drawing.iter(f"{SVG}rect")
        if rect.get("rx")
    ]
    assert len(boxes) == len(edges_of(name))
    for place, (x, y, w, h) in enumerate(boxes):
        assert x >= 0 and y >= 0 and x + w <= wide and y + h <= high
        for other_x, other_y, other_w, other_h in boxes[place + 1 :]:
            apart = x + w <= other_x or other_x + other_w <= x
            assert apart or y + h <= other_y or other_y + other_h <= y


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
    find = module("shown_source").find
    named = re.findall(r"\{py:obj\}`(?:\w+ <)?(minispec[\w.]+)>?`", PAGE.read_text(encoding="utf-8"))
    assert len(named) > 15
    for name in set(named) - set(imports.modules()):
        find(name)


def test_every_package_has_its_words_and_its_files():
    """A package that is added needs a paragraph and a table on the page, after those that it imports."""
    page = PAGE.read_text(encoding="utf-8")
    order = re.findall(r"^\*\*`(\w+)`: ", page, re.MULTILINE)
    assert sorted(order) == sorted(imports.packages(imports.modules()))
    assert re.findall(r"\{files-of\} (\w+)", page) == order
    for one, other in imports.package_imports(imports.modules()):
        assert order.index(other) < order.index(one)


def test_every_package_has_its_page_of_the_api():
    """And the page lists the modules of its own package."""
    folder = ROOT / "docs" / "api"
    for name in imports.packages(imports.modules()):
        assert f"<!-- package: {name} -->" in (folder / f"{name}.md").read_text(encoding="utf-8")
        assert f"\n{name}\n" in (folder / "index.md").read_text(encoding="utf-8")


def test_every_file_says_what_it_is_for():
    """The tables are made of the files' first sentences: each must have one."""
    assert [name for name, found in imports.modules().items() if not found.says] == []
