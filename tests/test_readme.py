"""The README, and what stands beside it: what they show is what the code does now.

Its code blocks are run by `tests/docs/test_code_blocks.py`.
"""

import html
import re
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest
import refresh_core
import refresh_demo
import yaml
from eyesight import contrast

from minispec.cli.main import app
from minispec.cli.options import find_backends

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
CORE = ROOT / "minispec" / "core"


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """What `minispec demo` prints now, and its picture as text; it has both backends."""
    if len(find_backends("auto")) < 2:
        pytest.skip("there is no C++ compiler here")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "100")
        picture = tmp_path_factory.mktemp("demo") / "demo.svg"
        return refresh_demo.demo(picture), picture.read_text(encoding="utf-8")


def words_of(picture):
    """Returns the text of an SVG as lines; each piece stands where the picture has it, 12.2 units a sign."""
    lines = defaultdict(str)
    text = r'<text class="demo-r\d+" x="([\d.]+)" y="([\d.]+)"[^>]*>(.*?)</text>'
    for x, y, piece in re.findall(text, picture, re.DOTALL):
        shown = html.unescape(piece).replace("\xa0", " ").rstrip("\n")
        lines[float(y)] = lines[float(y)].ljust(round(float(x) / 12.2)) + shown
    return "\n".join(lines[y] for y in sorted(lines))


def test_the_demo_prints_what_the_readme_says(demo):
    """The README's output is the demo's, but for seconds and speed-ups; `docs/refresh_demo.py` renews it."""
    shown = refresh_demo.same_but_for_times(refresh_demo.shown(README))
    assert shown == refresh_demo.same_but_for_times(refresh_demo.in_short(demo[0]))
    rows = 8  # two rules, target-only and speculative, on two backends
    assert shown.count("#") == 2 * rows  # tokens a second and a speed-up: nothing else is left open


def test_the_picture_shows_what_the_demo_prints(demo):
    """`docs/demo.svg` has every word of the output, and so does one that is drawn now."""
    committed = (ROOT / "docs" / "demo.svg").read_text(encoding="utf-8")
    printed = refresh_demo.same_but_for_times(demo[0])
    for picture in (committed, demo[1]):
        assert refresh_demo.same_but_for_times(words_of(picture)) == printed


def test_the_picture_can_be_read():
    """Every colour of its text has a contrast of at least 4.5 to the ground (WCAG AA); rules need 3."""
    picture = (ROOT / "docs" / "demo.svg").read_text(encoding="utf-8")
    ground = re.search(r'<rect fill="(#\w{6})"', picture)[1]
    colours = dict(re.findall(r"\.(demo-r\d+) \{ fill: (#\w{6})", picture))
    assert len(set(colours.values())) >= 6
    for name, colour in colours.items():
        text = "".join(re.findall(rf'<text class="{name}"[^>]*>(.*?)</text>', picture, re.DOTALL))
        least = 3 if not re.search(r"\w", html.unescape(text)) else 4.5
        assert contrast(colour, ground) >= least, (name, colour, text)


def test_an_output_that_differs_is_found():
    """Numbers of tokens and words count; only tokens a second and speed-ups may differ."""
    line = "greedy  native  18  3.67  82%  9,412  1.57x  yes"
    same = refresh_demo.same_but_for_times
    assert same(line) == same(line.replace("9,412", "845").replace("1.57x", "10.98x"))
    for old, new in (("18", "19"), ("3.67", "3.68"), ("82%", "83%"), ("yes", "no"), ("native", "torch")):
        assert same(line) != same(line.replace(old, new))


def test_the_readme_shows_the_method_on_one_screen():
    """The first block of Python is `core/basic.py`, to the letter; the walk-through begins with it."""
    source = (CORE / "basic.py").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert blocks[0] == source
    places = [README.index(part) for part in ("## What `make demo` prints", source, "## The other packages")]
    assert places == sorted(places)
    first = (ROOT / "docs" / "walkthrough" / "index.md").read_text(encoding="utf-8")
    assert "```{literalinclude} ../../minispec/core/basic.py\n" in first


def test_the_table_of_the_core_is_the_core():
    """`docs/refresh_core.py` would write what is there: each file once, with its lines of code."""
    assert refresh_core.replaced(README, refresh_core.block()) == README
    assert {*refresh_core.FILES} == {path.stem for path in CORE.glob("[!_]*.py")}
    rows = dict(re.findall(r"^\| \[`(\w+)\.py`\].* \| (\d+) \|$", README, re.MULTILINE))
    assert list(rows) == list(refresh_core.FILES)
    assert f"| all | | {sum(map(int, rows.values()))} |" in README
    with pytest.raises(ValueError, match="no block"):
        refresh_core.replaced("# A README", "lines")


def test_files_of_the_core_stand_after_those_that_they_import():
    """But for the cache: the GPT comes first, and the next file shows what it writes into."""
    seen = {"cache"}
    for name in refresh_core.FILES:
        source = (CORE / f"{name}.py").read_text(encoding="utf-8")
        assert set(re.findall(r"^from minispec\.core\.(\w+) import", source, re.MULTILINE)) <= seen
        seen.add(name)


def test_lines_of_code_are_counted():
    """By hand: no blank line, no comment, no docstring; a string that is a value counts."""
    source = '"""A module.\n\nMore.\n"""\n\nimport os  # why\n\n\n'
    source += 'def f(\n    x,\n):\n    """Does it."""\n    # so\n'
    source += '    text = """one\n    two"""\n    return text\n'
    assert refresh_core.lines_of_code(source) == 1 + 3 + 2 + 1


def test_tree_names_every_package_and_command():
    """The packages are those of the tree, in the order in which import-linter has them; so the commands."""
    tree = README[README.index("\nminispec/\n") :].split("```")[0]
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers = [name for layer in reversed(linter["contracts"][0]["layers"]) for name in layer.split(" | ")]
    assert re.findall(r"^  (\w+)/ ", tree, re.MULTILINE) == layers
    line = re.search(r"^  cli/ +(.*)$", README, re.MULTILINE)[1]
    assert set(line.split(", ")) == {one.name for one in app.registered_commands}


def test_every_notebook_is_listed():
    """The table of notebooks names each of them, in order, and links to it."""
    linked = re.findall(r"\]\(notebooks/(\w+\.ipynb)\)", README)
    assert linked == sorted(path.name for path in (ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_and_paths_exist(name):
    """Every relative link leads to a file, and so does every path in backticks."""
    text = (ROOT / name).read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link]
    paths = [path for path in re.findall(r"`((?:minispec|tests|notebooks|docs)/[\w./*-]+)`", text)]
    built = ("docs/_build",)
    missing = [
        one for one in links + paths if not one.startswith(built) and not list(ROOT.glob(one.rstrip("/")))
    ]
    assert missing == []


def test_the_citation_is_valid():
    """CITATION.cff has what version 1.2.0 of the format wants, and agrees with pyproject.toml."""
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {"cff-version", "message", "title", "authors"} <= cited.keys()  # the fields that are required
    assert cited["cff-version"] == "1.2.0" and cited["type"] == "software"
    assert cited["license"] == project["license"]
    assert cited["authors"] == [{"name": author["name"]} for author in project["authors"]]
    for reference in cited["references"]:
        assert {"type", "title", "authors", "year"} <= reference.keys()
        assert all({"family-names", "given-names"} <= author.keys() for author in reference["authors"])
