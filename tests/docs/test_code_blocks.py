"""What pages tell a reader to type works: every code block is run, or says why not.

A page is worked through from top to bottom, as a reader would. A fenced block may have a mark, an HTML
comment on the line before it:

    <!-- not run: takes 7 minutes -->           why nothing runs it
    <!-- run by: tests/test_main_job.py -->     the file or files that run it
    <!-- needs: transformers -->                run where this can be imported, else left out
    <!-- file: my_rule.py -->                   written into the folder of the page, not run
    <!-- output -->                             what the block before it prints

Without a mark blocks of `python` and `bash` are run. Anything else must have a mark. The test of marks prints
what is left out.
"""

import importlib.util
import io
import os
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from minispec.classroom import otter
from minispec.cli.main import run

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("docs", "docs/howto", "docs/teaching", "docs/teaching/assignments", "docs/explanation")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
PAGES += sorted(page for folder in FOLDERS for page in (ROOT / folder).glob("*.md"))
FENCE = re.compile(
    r"(?:^<!-- (?P<mark>[^\n]*?) -->\n+)?^(?P<ticks>`{3,})(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=ticks)$",
    re.MULTILINE | re.DOTALL,
)
MARK = re.compile(r"(not run|run by|needs|file): (.+)|output")
RUNNABLE = ("python", "bash")
SHELL_SIGNS = re.compile(r"[|&;<$`*]")
PROGRAMS = {"minispec ": run, "python -m minispec.classroom.otter ": otter.main}
ANY_LINES = r"(?:.*\n)*"  # what a line of … stands for


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        place: the page, and the line where it begins, counted from 1.
        language: what comes after the fence.
        text: what is between the fences.
        mark: the whole of it, or empty.
    """

    place: str
    language: str
    text: str
    mark: str

    @property
    def is_run(self):
        """Whether it is to be run here, if what it needs is there."""
        return not self.mark or self.mark.startswith("needs")


def blocks_in(text, page="page.md", first=1):
    """Returns the code blocks of a page from its line `first` on, those inside notes and the like too."""
    found = []
    for match in FENCE.finditer(text):
        info = match["info"].strip()
        line = first + text.count("\n", 0, match.start("ticks"))
        if info.startswith("{") and not info.startswith("{code"):  # a note, a figure, …
            found += blocks_in(match["text"], page, line + 1)
        else:
            language = info.rpartition("}")[2].strip()
            found.append(Block(f"{page}:{line}", language, match["text"], match["mark"] or ""))
    return found


def faults_of(blocks):
    """Returns blocks that would be passed over in silence, and marks that say nothing."""
    faults = []
    for before, block in zip([None, *blocks], blocks, strict=False):
        kind, _, reason = block.mark.partition(": ")
        if not block.mark and block.language not in RUNNABLE:
            faults.append(f"{block.place}: a block of {block.language or 'no language'} needs a mark")
        elif block.mark and not MARK.fullmatch(block.mark):
            faults.append(f"{block.place}: unknown mark, or one without a reason: {block.mark!r}")
        elif kind == "output" and not (before and before.is_run):
            faults.append(f"{block.place}: an output of nothing that is run")
        elif kind == "run by":
            paths = re.findall(r"[\w.-]+/[\w./-]+", reason)
            faults += [f"{block.place}: there is no {path}" for path in paths if not (ROOT / path).is_file()]
    return faults


def run_all(blocks):
    """Runs blocks in the current folder.

    Raises:
        AssertionError: if a command fails, or an output is another.
    """
    names = {"__name__": "__main__"}
    printed = None
    for block in blocks:
        kind, _, reason = block.mark.partition(": ")
        if kind == "output":
            assert printed is None or matches(block.text, printed), f"{block.place}; it was:\n{printed}"
            continue
        printed = None
        if kind == "file":
            Path(reason).write_text(block.text, encoding="utf-8")
        elif block.is_run and not (reason and importlib.util.find_spec(reason) is None):
            with redirect_stdout(io.StringIO()) as out:
                if block.language == "python":
                    exec(compile(block.text, block.place, "exec"), names)
                else:
                    run_shell(block)
            printed = out.getvalue()


def run_shell(block):
    """Runs the lines of a block: `PROGRAMS` in this process, to save the import, all else in bash."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    for line in block.text.replace("\\\n", " ").splitlines():
        command, _, file = line.partition(" > ")
        name = next(filter(command.startswith, PROGRAMS), None)
        if name and not SHELL_SIGNS.search(command):
            arguments = shlex.split(command.removeprefix(name), comments=True)
            with redirect_stdout(io.StringIO()) as out:
                assert PROGRAMS[name](arguments) == 0, f"{block.place}: {line}"
            if file:
                Path(file).write_text(out.getvalue(), encoding="utf-8")
            else:
                print(out.getvalue(), end="")
        else:
            bash = ["bash", "-euo", "pipefail", "-c", line]
            done = subprocess.run(bash, env=environment, capture_output=True, encoding="utf-8")
            assert done.returncode == 0, f"{block.place}: {line}\n{done.stderr}"
            print(done.stdout, end="")


def matches(said, printed):
    """Whether a page shows what was printed; a line of … stands for any lines."""
    lines = (line.rstrip() for line in said.strip("\n").splitlines())
    pattern = "".join(ANY_LINES if line == "…" else rf"{re.escape(line)}[ \t]*\n" for line in lines)
    return re.fullmatch(pattern, printed.strip("\n") + "\n") is not None


BLOCKS = {
    str(page.relative_to(ROOT)): blocks
    for page in PAGES
    if (blocks := blocks_in(page.read_text(encoding="utf-8"), page.name))
}


@pytest.mark.parametrize("page", BLOCKS)
def test_every_block_is_run_or_says_why_not(page):
    """No block is passed over in silence; what is not run is listed."""
    assert faults_of(BLOCKS[page]) == []
    for block in BLOCKS[page]:
        if block.mark.startswith(("not run", "run by", "needs")):
            print(f"{block.place}: {block.mark}")
    if "howto" in page and not page.endswith("index.md"):
        assert any(block.is_run for block in BLOCKS[page])


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """One folder for what minispec keeps: the native backend is built once for all pages."""
    return tmp_path_factory.mktemp("home")


@pytest.mark.parametrize("page", [page for page in BLOCKS if any(block.is_run for block in BLOCKS[page])])
def test_the_blocks_run(page, tmp_path, home, monkeypatch):
    """From top to bottom in an empty folder; outputs that a page shows are the ones that came."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINISPEC_HOME", str(home))
    monkeypatch.setenv("COLUMNS", "100")
    threads = torch.get_num_threads()
    try:
        run_all(BLOCKS[page])
    finally:
        torch.set_num_threads(threads)
    assert Path.cwd() == tmp_path
