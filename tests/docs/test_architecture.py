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
# No other file asks for these.
WITHIN_A_FILE = {"minispec.lm.compiled.Package"}
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
    """Writes a package of a few files; the name of each has the room and two underscores before it."""
    for name, text in files.items():
        path = tmp_path / "minispec" / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        (path.parent / "__init__.py").write_text('"""A room."""\n', encoding="utf-8")
    imports.modules.cache_clear()
    return imports.modules(tmp_path)


def test_imports_are_read_in_whatever_form(tmp_path):
    """Names, modules, and imports inside of functions; a name that is no module counts for its file."""
    found = small(
        tmp_path,
        lm__model='"""A model."""\n',
        lm__cache="",
        decoding__loop="from minispec.core.model import GPT\n\n\ndef f():\n    import minispec.core.cache\n",
        decoding__draft="from minispec.lm import cache, nothing\nimport torch\n",
    )
    assert found["minispec.core.loop"].imports == {"minispec.core.model", "minispec.core.cache"}
    assert found["minispec.core.draft"].imports == {"minispec.core.cache", "minispec.lm"}
    assert imports.room_arrows(found) == {("decoding", "lm"): 4}
    assert imports.rooms(found) == ["decoding", "lm"]
    assert found["minispec.core.model"].says == "A model."


def test_a_new_import_changes_the_drawing(tmp_path):
    """An arrow more in the code is an arrow more in the drawing."""
    plain = small(tmp_path, lm__a="", decoding__b="", decoding__c="from minispec.lm import a\n")
    before = diagram.draw_rooms(plain), diagram.draw_files(plain, "decoding")
    more = small(tmp_path, lm__a="", decoding__b="", decoding__c="from minispec.decoding import b\n")
    after = diagram.draw_rooms(more), diagram.draw_files(more, "decoding")
    assert before[0] != after[0] and before[1] != after[1]
    assert "decoding imports lm" in before[0] and "decoding imports no other room" in after[0]


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


def test_no_arrow_points_outwards():
    """In the drawing of the rooms every arrow ends further right than it begins."""
    paths = [
        path.get("d") for path in parts(diagram.DRAWINGS[0]).iter(f"{SVG}path") if path.get("marker-end")
    ]
    ends = [[float(x) for x in re.findall(r"(-?[\d.]+),", path)] for path in paths]
    assert len(ends) == len(imports.room_arrows(imports.modules())) and all(e[0] < e[-1] for e in ends)


def test_boxes_do_not_overlap():
    """No box of the files' drawing lies on another, and none is cut by the edge."""
    drawing = parts(diagram.DRAWINGS[1])
    wide, high = (float(n) for n in drawing.get("viewBox").split()[2:])
    boxes = [
        tuple(float(rect.get(name)) for name in ("x", "y", "width", "height"))
        for rect in drawing.iter(f"{SVG}rect")
        if rect.get("rx")
    ]
    assert len(boxes) == len(imports.within(imports.modules(), "decoding"))
    for place, (x, y, w, h) in enumerate(boxes):
        assert x >= 0 and y >= 0 and x + w <= wide and y + h <= high
        for other_x, other_y, other_w, other_h in boxes[place + 1 :]:
            apart = x + w <= other_x or other_x + other_w <= x
            assert apart or y + h <= other_y or other_y + other_h <= y


def protocols():
    """Returns the full names of the protocols of the two inner rooms."""
    return {
        f"minispec.{room}.{path.stem}.{node.name}"
        for room in ("lm", "decoding")
        for path in (ROOT / "minispec" / room).glob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and any("Protocol" in ast.unparse(base) for base in node.bases)
    }


def test_all_contracts_are_listed():
    """The table has each protocol of `lm` and `decoding`, and no other."""
    rows = re.findall(r"^\| \{py:obj\}`\w+ <([\w.]+)>` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(rows) == protocols() - WITHIN_A_FILE and len(rows) == len(set(rows))


def test_what_the_page_names_is_there():
    """Every object that the page links to exists."""
    find = module("shown_source").find
    named = re.findall(r"\{py:obj\}`(?:\w+ <)?(minispec[\w.]+)>?`", PAGE.read_text(encoding="utf-8"))
    assert len(named) > 15
    for name in set(named) - set(imports.modules()):
        find(name)


def test_every_room_has_its_words_and_its_files():
    """A room that is added to the package needs a paragraph and a table on the page."""
    page = PAGE.read_text(encoding="utf-8")
    rooms = imports.rooms(imports.modules())
    assert re.findall(r"^\*\*`(\w+)`: ", page, re.MULTILINE) == rooms[::-1]
    assert set(re.findall(r"\{files-of\} (\w+)", page)) == set(rooms)


def test_every_file_says_what_it_is_for():
    """The tables are made of the files' first sentences: each must have one."""
    assert [name for name, found in imports.modules().items() if not found.says] == []
