"""The code blocks of a page: found, and run as a reader would run them, from top to bottom.

A fenced block may have a mark, an HTML comment on the line before it:

    <!-- not run: takes 7 minutes -->           why nothing runs it
    <!-- run by: tests/test_main_job.py -->     the file or files that run it
    <!-- needs: transformers -->                run where this can be imported, else left out
    <!-- file: my_rule.py -->                   written into the folder of the page, not run
    <!-- output -->                             what the block before it prints

Without a mark `python`, `bash` and `console`-like blocks are run. Anything else must have a mark.
"""

from __future__ import annotations

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
from typing import Any

from minispec.cli.main import run

FENCE = re.compile(
    r"(?:^<!-- (?P<mark>[^\n]*?) -->\n+)?^(?P<ticks>`{3,})(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=ticks)$",
    re.MULTILINE | re.DOTALL,
)
RUNNABLE = ("python", "bash")
MARKS = ("not run", "run by", "needs", "file", "output")
SHELL_SIGNS = re.compile(r"[|&;<$`*]")
ELLIPSIS = "…"


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        page: the file.
        line: where it begins, counted from 1.
        language: what comes after the fence.
        text: what is between the fences.
        mark: `not run`, `run by`, `needs`, `file`, `output`, or empty.
        reason: what the mark says.
    """

    page: Path
    line: int
    language: str
    text: str
    mark: str
    reason: str

    @property
    def place(self) -> str:
        """For messages."""
        return f"{self.page.name}:{self.line}"


def blocks_of(page: Path) -> list[Block]:
    """Returns the code blocks of a Markdown page, in order, those inside notes and the like too."""
    return find(page, page.read_text(encoding="utf-8"), 1)


def find(page: Path, text: str, first: int) -> list[Block]:
    """Returns the code blocks of a text whose first line is line `first` of its page."""
    found = []
    for match in FENCE.finditer(text):
        info = match["info"].strip()
        line = first + text.count("\n", 0, match.start("ticks"))
        mark, _, reason = (match["mark"] or "").partition(":")
        if info.startswith("{code"):
            info = info.partition("}")[2].strip()
        elif info.startswith("{"):  # a note, a figure, …
            found += find(page, match["text"], line + 1)
            continue
        found.append(Block(page, line, info, match["text"], mark.strip(), reason.strip()))
    return found


def faults_of(blocks: list[Block], root: Path) -> list[str]:
    """Returns blocks that would be passed over in silence, and marks that say nothing."""
    faults = []
    for before, block in zip([None, *blocks], blocks, strict=False):
        if block.mark and block.mark not in MARKS:
            faults.append(f"{block.place}: unknown mark {block.mark!r}")
        elif not block.mark and block.language not in RUNNABLE:
            faults.append(f"{block.place}: a block of {block.language or 'no language'} needs a mark")
        elif block.mark in ("not run", "run by", "needs", "file") and not block.reason:
            faults.append(f"{block.place}: the mark has no reason")
        elif block.mark == "run by" and not all((root / path).is_file() for path in paths_in(block.reason)):
            faults.append(f"{block.place}: there is no {block.reason}")
        elif block.mark == "output" and (before is None or before.mark not in ("", "needs")):
            faults.append(f"{block.place}: an output of nothing that is run")
    return faults


def paths_in(reason: str) -> list[str]:
    """Returns the paths that a reason names; itself if there is none."""
    return re.findall(r"[\w.-]+/[\w./-]+", reason) or [reason]


class Session:
    """What a reader has open while working through a page: a folder, a shell and a Python prompt."""

    def __init__(self, folder: Path) -> None:
        """Begins in an empty folder."""
        self.folder = folder
        self.names: dict[str, Any] = {"__name__": "__main__"}

    def run(self, block: Block) -> str | None:
        """Runs a block and returns what it printed; None if it was not run.

        Raises:
            AssertionError: if a command fails.
        """
        if block.mark == "file":
            (self.folder / block.reason).write_text(block.text, encoding="utf-8")
            return None
        missing = block.mark == "needs" and importlib.util.find_spec(block.reason) is None
        if block.mark not in ("", "needs") or block.language not in RUNNABLE or missing:
            return None
        if block.language == "python":
            return self.run_python(block)
        return "".join(self.run_line(line, block) for line in lines_of(block.text))

    def run_python(self, block: Block) -> str:
        """Runs Python in this process, with the names that earlier blocks have left."""
        out = io.StringIO()
        code = compile("\n" * block.line + block.text, str(block.page), "exec")
        with redirect_stdout(out):
            exec(code, self.names)
        return out.getvalue()

    def run_line(self, line: str, block: Block) -> str:
        """Runs a line of shell: `minispec …` in this process, to save the import, all else in bash."""
        command, _, place = line.partition(" > ")
        if command.startswith("minispec ") and not SHELL_SIGNS.search(command):
            out = io.StringIO()
            with redirect_stdout(out):
                status = run(shlex.split(command, comments=True)[1:])
            assert status == 0, f"{block.place}: {line} ends with status {status}"
            if place:
                (self.folder / place.strip()).write_text(out.getvalue(), encoding="utf-8")
            return "" if place else out.getvalue()
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", line],
            cwd=self.folder,
            env={**os.environ, "PATH": path},
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert done.returncode == 0, f"{block.place}: {line}\n{done.stderr}"
        return done.stdout


def lines_of(text: str) -> list[str]:
    """Returns the commands of a shell block: continued lines joined, comments and empty lines left out."""
    joined = text.replace("\\\n", " ").splitlines()
    return [line.strip() for line in joined if line.strip() and not line.lstrip().startswith("#")]


def difference(said: str, printed: str) -> str | None:
    """Compares what a page shows with what was printed; a line of … stands for any lines.

    Returns:
        The first stretch of the page that was not printed where it should be, or None.
    """
    shown = [line.rstrip() for line in said.strip("\n").splitlines()]
    real = [line.rstrip() for line in printed.strip("\n").splitlines()]
    pieces: list[list[str]] = [[]]
    for line in shown:
        if line.strip() == ELLIPSIS:
            pieces.append([])
        else:
            pieces[-1].append(line)
    start = 0
    for number, piece in enumerate(pieces):
        places = [start] if number == 0 else range(start, len(real) - len(piece) + 1)
        if number == len(pieces) - 1 and piece:
            places = [place for place in places if place + len(piece) == len(real)]
        found = next((place for place in places if real[place : place + len(piece)] == piece), None)
        if found is None:
            return "\n".join(piece)
        start = found + len(piece)
    return None
