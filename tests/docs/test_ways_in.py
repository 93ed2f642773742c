"""Ways to install that cannot be tried here: links, lists and scripts are right, as far as one can see."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import online
import pytest

ROOT = Path(__file__).resolve().parents[2]
# The address may stand in its own file and on the page that is made from it.
ITS_FILES = {"docs/_repository.txt", "docs/online.md", "docs/online.py", "tests/docs/test_ways_in.py"}
HOSTS = r"mybinder\.org/v2/|colab\.research\.google\.com/github/|git\+https://"
# `minispec` on the package index is another project: our distribution is minispec-decoding, and is on none.
OLD_ADVICE = (
    r"(?i)(?<![\w.-])minispec(?:\[[a-z]| @ git)"
    r"|(?:pipx?3? +install|uv +(?:add|tool +install))\b[^\n`#&;|(]*?[\s'\"]`?minispec(?![\w/-]|\.\w)"
)
SUFFIXES = {".md", ".py", ".toml", ".yml", ".cff", ".txt", ".cfg", ".ipynb", ".html", ".json", ""}


@pytest.fixture(scope="module")
def files():
    """The project's text files by name: those of git, and new ones that it does not ignore."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, encoding="utf-8", check=True).stdout
    paths = {name: ROOT / name for name in names.splitlines()}
    return {
        name: path.read_text(encoding="utf-8", errors="replace")
        for name, path in paths.items()
        if path.suffix in SUFFIXES and path.is_file()
    }


def test_only_one_file_names_the_repository(files):
    """Whoever publishes this changes one file, and makes one page again."""
    slug, _ = online.read_repository()
    pattern = re.compile(f"{re.escape(slug)}|{HOSTS}")
    assert {name for name, text in files.items() if pattern.search(text)} <= ITS_FILES
    assert slug not in files["docs/online.py"] and slug in files["docs/_repository.txt"]
    assert pattern.search("https://mybinder.org/v2/gh/x/y")


def test_no_text_installs_the_other_minispec(files):
    """Pages, messages, notebooks and Actions install from a clone or a git URL; the changelog is history."""
    found = {name for name, text in files.items() if re.search(OLD_ADVICE, text)}
    assert found <= {"CHANGELOG.md", "tests/docs/test_ways_in.py"}


@pytest.mark.parametrize(
    ("text", "is_old"),
    [
        ("run: pip install minispec pytest", True),
        ("needs scipy: pip install 'minispec[atlas]'", True),
        ('%pip install --quiet "minispec @ git+URL"', True),
        ("with uv add minispec, as usual", True),
        ("Then pip install minispec.", True),
        ("pip install -e '.[atlas]'  # in minispec's folder", False),
        ("pip install -e . && minispec demo", False),
        ('pip uninstall minispec, info["minispec"]', False),
    ],
)
def test_old_advice_is_found(text, is_old):
    assert bool(re.search(OLD_ADVICE, text)) is is_old


def test_the_installation_page_names_the_other_package():
    """It tells which package is ours, and that the other one is not."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    name = project["name"]
    page = " ".join((ROOT / "docs/install.md").read_text(encoding="utf-8").split())
    assert f"`{name}`" in page and f'"{name} @ git+<URL>"' in page
    assert "called `minispec` on the package index is an unrelated project" in page
    assert [extra for extra in project["optional-dependencies"] if f"`{extra}`" not in page] == []
    assert name != "minispec" and f'"{name}[' in online.page("ann/minispec", "v1")


def test_the_page_is_current():
    """`python docs/online.py` would write what is there."""
    assert online.PAGE.read_text(encoding="utf-8") == online.page(*online.read_repository())


def test_links_lead_to_notebooks_that_exist():
    """With an address, every notebook has both links, to its own file; without, there is no link."""
    page = online.page("ann/minispec", "v1")
    binder = re.findall(
        r"\(https://mybinder\.org/v2/gh/ann/minispec/v1\?urlpath=lab/tree/minispec-lab/(.*?)\)", page
    )
    colab = re.findall(r"\(https://colab[\w.]+/github/ann/minispec/blob/v1/notebooks/(.*?)\)", page)
    assert binder == colab == sorted(path.name for path in (ROOT / "notebooks").glob("*.ipynb"))
    assert '"minispec-decoding[figures] @ git+https://github.com/ann/minispec@v1"' in page
    assert "](https://" not in online.page("OWNER/minispec", "main")


@pytest.mark.parametrize(
    "text", ["", "ann/minispec\n", "minispec\nmain\n", "ann/mini spec\nmain\n", "a/b\nc\nd\n"]
)
def test_an_address_that_is_none_is_refused(text, tmp_path):
    """In one line that says what the file must hold."""
    path = tmp_path / "_repository.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="must hold owner/repository and a branch"):
        online.read_repository(path)


@pytest.mark.parametrize("name", ["postBuild", "start"])
def test_binder_scripts_parse_and_can_be_run(name):
    """They are executable, stop at the first error, and bash can read them."""
    path = ROOT / "binder" / name
    script = path.read_text(encoding="utf-8")
    assert script.startswith("#!/bin/bash\n") and os.access(path, os.X_OK)
    assert "\nset -euo pipefail\n" in script
    assert subprocess.run(["bash", "-n", path], check=False).returncode == 0


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_binder_starts_with_a_copy_of_the_notebooks(tmp_path):
    """The start script copies the notebooks where links look for them, and hands over to its arguments."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        [ROOT / "binder" / "start", "bash", "-c", "echo threads $OMP_NUM_THREADS"],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "threads 1"
    copied = {path.name for path in (tmp_path / "minispec-lab").glob("*.ipynb")}
    assert copied == {path.name for path in (ROOT / "notebooks").glob("*.ipynb")}
