"""The README, and what stands beside it: what they show is what the code does now.

Its code blocks are run by `tests/docs/test_code_blocks.py`.
"""

import html
import json
import re
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "docs"))

import refresh_demo  # noqa: E402
import refresh_speed  # noqa: E402

README = (ROOT / "README.md").read_text(encoding="utf-8")
ROOMS = ("lm", "decoding", "evidence", "show")


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """What `minispec demo` prints now, and its picture as text."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "100")
        picture = tmp_path_factory.mktemp("demo") / "demo.svg"
        return refresh_demo.demo(picture), picture.read_text(encoding="utf-8")


def words_of(picture):
    """Returns the text of an SVG as lines; each piece stands where the picture has it, 12.2 units a sign."""
    lines = {}
    for x, y, piece in re.findall(
        r'<text class="demo-r\d+" x="([\d.]+)" y="([\d.]+)"[^>]*>(.*?)</text>', picture, re.DOTALL
    ):
        line = lines.get(float(y), "")
        shown = html.unescape(piece).replace("\xa0", " ").rstrip("\n")
        lines[float(y)] = line.ljust(round(float(x) / 12.2)) + shown
    return "\n".join(lines[y] for y in sorted(lines))


def test_the_demo_prints_what_the_readme_says(demo):
    """The README's output is the demo's, but for seconds and speed-ups; `docs/refresh_demo.py` renews it."""
    said, printed = (refresh_demo.same_but_for_times(text) for text in (refresh_demo.shown(README), demo[0]))
    assert said == printed
    assert said.count("#") == 8  # four rows, each with seconds and a speed-up: nothing else is left open


def test_the_speed_is_that_of_the_recorded_reports():
    """`docs/refresh_speed.py` would write what is there; another report gives other numbers."""
    reports = refresh_speed.recorded_reports()
    assert refresh_speed.replaced(README, refresh_speed.block(reports)) == README
    reports[0]["settings"][0]["speedup"] += 1
    assert refresh_speed.replaced(README, refresh_speed.block(reports)) != README
    with pytest.raises(ValueError, match="no block"):
        refresh_speed.replaced("# A README", "numbers")


def test_the_picture_shows_what_the_demo_prints(demo):
    """`docs/demo.svg` has every word of the output, and so does one that is drawn now."""
    committed = (ROOT / "docs" / "demo.svg").read_text(encoding="utf-8")
    printed = refresh_demo.same_but_for_times(demo[0])
    for picture in (committed, demo[1]):
        assert refresh_demo.same_but_for_times(words_of(picture)) == printed


def luminance(colour):
    """Returns the relative luminance of #rrggbb, by the formula of WCAG 2."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_the_picture_can_be_read():
    """Every colour of its text has a contrast of at least 4.5 to the ground (WCAG AA); rules need 3."""
    picture = (ROOT / "docs" / "demo.svg").read_text(encoding="utf-8")
    ground = luminance(re.search(r'<rect fill="(#\w{6})"', picture)[1])
    colours = dict(re.findall(r"\.(demo-r\d+) \{ fill: (#\w{6})", picture))
    assert len(set(colours.values())) >= 6
    for name, colour in colours.items():
        text = "".join(re.findall(rf'<text class="{name}"[^>]*>(.*?)</text>', picture, re.DOTALL))
        least = 3 if not re.search(r"\w", html.unescape(text)) else 4.5
        assert (luminance(colour) + 0.05) / (ground + 0.05) >= least, (name, colour, text)


def test_an_output_that_differs_is_found():
    """Numbers of tokens and words count; only seconds and speed-ups may differ."""
    line = "greedy  66  18  3.67  82%  0.099  1.57x  yes"
    same = refresh_demo.same_but_for_times
    assert same(line) == same(line.replace("0.099", "12.345").replace("1.57x", "0.98x"))
    for old, new in (("66", "67"), ("3.67", "3.68"), ("82%", "83%"), ("yes", "no")):
        assert same(line) != same(line.replace(old, new))


def listed(room):
    """Returns the files that the annotated tree names in a room."""
    tree = README.split(f"\n  {room}/", 1)[1]
    names = re.match(r".*\n((?:    .*\n)*)", tree)[1]
    return set(re.findall(r"^    (\w+(?:\.py|/)) ", names, re.MULTILINE))


@pytest.mark.parametrize("room", ROOMS)
def test_tree_names_real_files(room):
    """Every file of the annotated tree is where it says; all of the model and the method stand in it."""
    folder = ROOT / "minispec" / room
    there = {path.name for path in folder.glob("*.py")} | {f"{path.name}/" for path in folder.iterdir()}
    assert listed(room) and listed(room) <= there
    if room in ("lm", "decoding"):
        assert {path.name for path in folder.glob("*.py")} - {"__init__.py"} <= listed(room)


def test_tree_names_every_room_and_command():
    """The rooms of the package are those of the tree, and so are the commands."""
    rooms = {path.name for path in (ROOT / "minispec").iterdir() if (path / "__init__.py").is_file()}
    assert rooms == set(re.findall(r"^  (\w+)/ ", README, re.MULTILINE))
    line = re.search(r"^  cli/ +(.*)$", README, re.MULTILINE)[1]
    assert set(line.split(", ")) == commands()


def commands():
    """Returns the names of all commands."""
    from minispec.cli.main import app

    return {one.name or one.callback.__name__ for one in app.registered_commands}


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


def test_the_table_of_the_pair_is_the_pair():
    """Parameters, steps and losses are those of pair.json."""
    info = json.loads((ROOT / "minispec/pairs/stories/pair.json").read_text(encoding="utf-8"))
    for figures in info["models"].values():
        row = f"| {figures['parameters']:,} | {figures['steps']:,} | {figures['validation_loss']:.4f} |"
        assert row in README
    assert f"| {info['entropy_floor']:.4f} |" in README
    assert f"the target accepts {info['acceptance']:.1%}" in " ".join(README.split())


def test_the_table_of_the_zoo_is_the_zoo():
    """How many bugs each found is what the recorded kill matrix says."""
    zoo = json.loads((ROOT / "minispec/evidence/recorded/zoo.json").read_text(encoding="utf-8"))
    checks, theirs, rows = zoo["conditions"]["checks"], zoo["conditions"]["theirs"], zoo["points"]
    found = {name: sum(row["marks"][place] != "." for row in rows) for place, name in enumerate(checks)}
    ours = [place for place, name in enumerate(checks) if name not in theirs]
    together = sum(any(row["marks"][place] != "." for place in ours) for row in rows)
    assert f"| who tests | bugs found, of {len(rows)} |" in README
    assert f"| our checks together | {together} |" in README
    for name in theirs:
        assert f"| {name} | {found[name]} |" in README


def test_the_citation_is_valid():
    """CITATION.cff has what version 1.2.0 of the format wants, and agrees with pyproject.toml."""
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {"cff-version", "message", "title", "authors"} <= cited.keys()  # the fields that are required
    assert cited["cff-version"] == "1.2.0" and cited["type"] == "software"
    assert str(cited["version"]) == project["version"] and cited["license"] == project["license"]
    assert cited["authors"] == [{"name": author["name"]} for author in project["authors"]]
    for reference in cited["references"]:
        assert {"type", "title", "authors", "year"} <= reference.keys()
        assert all({"family-names", "given-names"} <= author.keys() for author in reference["authors"])


def test_the_changelog_names_the_version():
    """The version that is being built stands in the changelog."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
