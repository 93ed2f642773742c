"""The README, and what stands beside it: what they show is what the code does now.

Its code blocks are run by `tests/docs/test_code_blocks.py`.
"""

import html
import re
import tomllib
from pathlib import Path

import pytest
import refresh_core
import yaml
from eyesight import contrast

from minispec.cli.main import app

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
CORE = ROOT / "minispec" / "core"


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


def test_the_readme_shows_the_method_on_one_screen():
    """A block of Python is `core/basic.py`, to the letter; the walk-through begins with it."""
    source = (CORE / "basic.py").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert source in blocks
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
    linked = re.findall(r"^\| \[.*\]\(notebooks/(\w+\.ipynb)\)", README, re.MULTILINE)
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
