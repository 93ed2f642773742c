"""The book's pages: generated ones are current, directives find what they show, what a page names exists."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from pkgutil import resolve_name

import online
import pytest
from book import __main__ as book
from book import reports
from facts import facts
from made_figures import FIGURES
from made_tables import TABLES
from running_example import tell
from source_and_prose import pieces_of

from minispec.evidence.zoo.mutants import MUTANTS

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in [*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    if not {"_build", "node_modules"} & set(path.parts)
}
BOOK = "".join(text for page, text in PAGES.items() if page.startswith("docs/"))
MADE = sorted(set(re.findall(r"^```\{made\} (.+)$", BOOK, re.MULTILINE)))  # names and arguments
FENCE = re.compile(r"^(`{3,})(?:python|bash|text)\b.*?^\1$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!\w+:)([^)\s#]+)(?:#[^)\s]*)?\)")
NAMED = re.compile(r"`(minispec(?!\.h`)(?:\.\w+)+)`|\{py:obj\}`(?:\w+ <)?(minispec[\w.]+)>?`")
FILE = re.compile(r"`((?:tests|docs|notebooks|minispec)/[\w/-]+\.\w+)(?:::(\w+))?`")


def ended(*arguments):
    """Runs a command of the book; returns its exit status."""
    with pytest.raises(SystemExit) as caught:
        book.main([str(argument) for argument in arguments])
    return caught.value.code


def test_generated_pages_are_what_the_generator_writes(tmp_path):
    assert ended("pages", "--folder", tmp_path) == 0
    written = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    assert sorted(written) == ["atlas.md", "papers.md", "results.md", "samplers.md"]
    assert written == {name: PAGES[f"docs/{name}"] for name in written}
    assert PAGES["docs/online.md"] == online.page(*online.read_repository())


def test_measurements_are_those_of_the_saved_report(tmp_path, capsys):
    """A report that lacks a section is refused in one line, and nothing is written."""
    path = reports.FOLDER / "bench-stories.json"
    assert ended("measurements", path, "--folder", tmp_path) == 0
    assert {file.stem for file in tmp_path.iterdir()} == set(reports.MAKERS)
    for file in tmp_path.iterdir():
        assert file.read_text() == (reports.FOLDER / file.name).read_text()
    short = tmp_path / "report.json"
    short.write_text(path.read_text().replace('"batch": {', '"crowd": {'))
    capsys.readouterr()
    assert ended("measurements", short, "--folder", tmp_path / "new") == 2
    assert "'batch'" in (error := capsys.readouterr().err) and error.count("\n") == 1


def test_facts_are_known():
    named = set(re.findall(r"\{fact\}`([^`]+)`", BOOK))
    assert len(named) > 100
    assert all(tell(name) if ":" in name else str(facts()[name]) for name in named)


def test_figures_and_tables_are_known_and_used():
    assert {wanted.split()[0] for wanted in MADE} == {*FIGURES, *TABLES}


@pytest.mark.parametrize("wanted", MADE)
def test_figures_and_tables_can_be_made(wanted):
    name, *arguments = wanted.split()
    if name in TABLES:
        assert "\n" in TABLES[name](*arguments)
    elif not isinstance(picture := FIGURES[name](*arguments), str):
        assert picture.alt and picture.twin and picture.caption.endswith(".")


def test_the_walk_through_finds_its_code():
    """A function or a line that was renamed would stop the build of the book."""
    for page in (DOCS / "walkthrough").glob("*.md"):
        assert len([*pieces_of(page)]) >= page.read_text(encoding="utf-8").count("{side-by-side}")


def test_every_bug_of_the_zoo_has_its_entry():
    entries = re.findall(r"^```\{bug\} ([^\n]+)\n", PAGES["docs/pitfalls.md"], re.MULTILINE)
    assert " ".join(entries).split() == [mutant.name for mutant in MUTANTS]


def is_there(name):
    """Whether a dotted name leads to a module or an object."""
    try:
        importlib.import_module(name)
    except ImportError:
        try:
            resolve_name(name)
        except (ImportError, AttributeError):
            return False
    return True


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_names_exists(page):
    """Pages that it links to; modules, functions, files and tests that it names."""
    text = FENCE.sub("", PAGES[page])
    missing = [link for link in LINK.findall(text) if not (ROOT / page).parent.joinpath(link).exists()]
    if "changelog" not in page:
        missing += [name for pair in NAMED.findall(text) if not is_there(name := "".join(pair))]
        for file, test in FILE.findall(text):
            if not (ROOT / file).exists() or test not in (ROOT / file).read_text(encoding="utf-8"):
                missing.append(f"{file}::{test}")
    assert missing == []


def test_handouts_are_written(tmp_path, monkeypatch, capsys):
    """A form, its answers and their pages; a folder that is not there is one line."""
    sheets = book.handouts()
    monkeypatch.setattr(book, "handouts", lambda: [sheets[5], sheets[-1]])
    assert ended("handouts", tmp_path / "one.pdf") == 0
    assert (tmp_path / "one.pdf").read_bytes().startswith(b"%PDF-")
    assert ended("handouts", tmp_path / "nowhere" / "x.pdf") == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_binder_starts_with_a_copy_of_the_notebooks(tmp_path):
    """Its script copies the notebooks where links look for them, and hands over to its arguments."""
    assert subprocess.run(["bash", "-n", ROOT / "binder" / "postBuild"], check=False).returncode == 0
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    script = [ROOT / "binder" / "start", "bash", "-c", "echo threads $OMP_NUM_THREADS"]
    done = subprocess.run(
        script, cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "threads 1"), done.stderr
    copied, ours = (
        {path.name for path in folder.glob("*.ipynb")}
        for folder in (tmp_path / "minispec-lab", ROOT / "notebooks")
    )
    assert copied == ours
