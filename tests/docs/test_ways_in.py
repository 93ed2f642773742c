"""Ways to install that cannot be tried here: links, lists and scripts are right, as far as one can see."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))

import online  # noqa: E402

# The address may stand in its own file and on the page that is made from it.
OWN_FILES = {"docs/_repository.txt", "docs/online.md"}
HOSTS = re.compile(r"mybinder\.org/v2/|colab\.research\.google\.com/github/|git\+https://")


def text_files():
    """Yields the project's own text files: those of git, and new ones that it does not ignore."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if (
            path.suffix
            in {".md", ".py", ".toml", ".yml", ".cff", ".txt", ".cfg", ".ipynb", ".html", ".json", ""}
            and path.is_file()
        ):
            yield name, path.read_text(encoding="utf-8", errors="replace")


def naming(files, slug):
    """Returns the files that name the repository's address, or where notebooks could be opened from it."""
    return [name for name, text in files if slug in text or HOSTS.search(text)]


def test_only_one_file_names_the_repository():
    """Whoever publishes this changes one file, and makes one page again."""
    slug = online.read_repository().slug
    makers = {"docs/online.py", "tests/docs/test_ways_in.py"}
    assert set(naming(text_files(), slug)) - makers <= OWN_FILES
    assert slug not in (ROOT / "docs/online.py").read_text(encoding="utf-8")


def test_another_file_that_names_it_is_found():
    """The address, or a link to a place that opens notebooks."""
    files = [("a.md", "see ann/minispec"), ("b.md", "https://mybinder.org/v2/gh/x/y"), ("c.md", "nothing")]
    assert naming(files, "ann/minispec") == ["a.md", "b.md"]


# `minispec` on the package index is another project: our distribution is minispec-decoding, and is on none.
OLD_ADVICE = re.compile(
    r"(?<![\w.-])minispec(?:\[[a-z]| @ git)"
    r"|(?:pipx?3? +install|uv +(?:add|tool +install))\b[^\n`#&;|(]*?[\s'\"]`?minispec(?![\w/-]|\.\w)",
    re.IGNORECASE,
)


def advising(files):
    """Returns the files that install another project's package, or an extra of it."""
    return [name for name, text in files if OLD_ADVICE.search(text)]


def test_no_text_installs_the_other_minispec():
    """Pages, messages, notebooks and Actions install from a clone or a git URL; the changelog is history."""
    history = {"CHANGELOG.md", "tests/docs/test_ways_in.py"}
    assert set(advising(text_files())) - history == set()


@pytest.mark.parametrize(
    "text",
    [
        "run: pip install minispec pytest",
        "needs scipy: pip install 'minispec[atlas]'",
        '%pip install --quiet "minispec @ git+URL"',
        "with uv add minispec, as usual",
        "Then pip install minispec.",
    ],
)
def test_old_advice_is_found(text):
    assert advising([("a.md", text)]) == ["a.md"]


@pytest.mark.parametrize(
    "text",
    [
        "pip install -e '.[atlas]'  # in minispec's folder",
        "pip install -e . && minispec demo",
        'pip uninstall minispec, info["minispec"]',
    ],
)
def test_right_advice_is_not(text):
    assert advising([("a.md", text)]) == []


def test_the_installation_page_names_the_other_package():
    """It tells which package is ours, and that the other one is not."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    name = project["name"]
    page = " ".join((ROOT / "docs/install.md").read_text(encoding="utf-8").split())
    assert f"`{name}`" in page and f'"{name} @ git+<URL>"' in page
    assert "called `minispec` on the package index is an unrelated project" in page
    assert [extra for extra in project["optional-dependencies"] if f"`{extra}`" not in page] == []
    assert name != "minispec" and f'"{name}[' in online.Repository("ann/minispec", "v1").install


def test_the_page_is_current():
    """`python docs/online.py` would write what is there."""
    assert online.PAGE.read_text(encoding="utf-8") == online.page(online.read_repository())


def test_links_lead_to_notebooks_that_exist():
    """With an address, every notebook has both links, to its own file; without, there is no link."""
    page = online.page(online.Repository("ann/minispec", "v1"))
    binder = re.findall(
        r"\(https://mybinder\.org/v2/gh/ann/minispec/v1\?urlpath=lab/tree/minispec-lab/(.*?)\)", page
    )
    colab = re.findall(r"\(https://colab[\w.]+/github/ann/minispec/blob/v1/notebooks/(.*?)\)", page)
    assert binder == colab == sorted(path.name for path in (ROOT / "notebooks").glob("*.ipynb"))
    assert '"minispec-decoding[figures] @ git+https://github.com/ann/minispec@v1"' in page
    assert "](https://" not in online.page(online.Repository("OWNER/minispec", "main"))


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
    assert path.read_text(encoding="utf-8").startswith("#!/bin/bash\n") and os.access(path, os.X_OK)
    assert "\nset -euo pipefail\n" in path.read_text(encoding="utf-8")
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
