"""Runs the demo and puts what it prints into docs/demo.svg and, in short, into the README.

python docs/refresh_demo.py
"""

import io
import os
import re
from contextlib import redirect_stdout
from pathlib import Path
from unittest.mock import patch

from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME, TerminalTheme
from rich.text import Text

from minispec.cli.main import run
from minispec.io.files import write_text_file
from minispec.show.text import COLOURS

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "demo.svg"
README = ROOT / "README.md"
# The block under this heading; … stands for the training, and what comes after it.
BLOCK = re.compile(r"(## What `make demo` prints\n.*?```text\n)(.*?)(…\n```\n)", re.DOTALL)
LAST = "its distribution does not"  # the words that end the table's legend

# On this ground all colours but the bonus's blue have the contrast that small text needs: 4.5 to 1.
NIGHT = TerminalTheme(
    (20, 20, 20),
    SVG_EXPORT_THEME.foreground_color,
    [SVG_EXPORT_THEME.ansi_colors[number] for number in range(8)],
    [SVG_EXPORT_THEME.ansi_colors[number] for number in range(8, 16)],
)
BONUS_BY_NIGHT = "#56b4e9"  # Okabe and Ito's lighter blue
TERMINAL = {"FORCE_COLOR": "1", "COLORTERM": "truecolor", "TERM": "xterm-256color", "COLUMNS": "100"}


def demo(picture):
    """Runs the demo with the shipped pair and K = 5, writes its picture and returns what it prints.

    An automatic K, and advice where a run loses, depend on the machine: they are left out.

    Raises:
        RuntimeError: if the demo fails.
    """
    out = io.StringIO()
    with patch.dict(os.environ, TERMINAL), redirect_stdout(out):
        status = run(["demo", "--no-train", "--k", "5"])
    if status != 0:
        raise RuntimeError(f"the demo ends with status {status}")
    shown = Text.from_ansi(re.sub(rf"({LAST}.*?\n).*", r"\1", out.getvalue(), flags=re.DOTALL))
    write_picture(shown, picture)
    return "".join(f"{line.rstrip()}\n" for line in shown.plain.splitlines())


def write_picture(shown, path):
    """Writes a text as an SVG that loads nothing from elsewhere; long lines are wrapped."""
    paper = Console(file=io.StringIO(), record=True, width=100, color_system="truecolor")
    paper.print(shown)
    picture = paper.export_svg(title="minispec demo", theme=NIGHT, unique_id="demo")
    picture = re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL)
    write_text_file(path, picture.replace(COLOURS["bonus"].lower(), BONUS_BY_NIGHT))


def in_short(printed):
    """Returns the output without the sampled text: greedy text and table are enough for a first look."""
    greedy, _, sampled = printed.partition("Speculative, rejection verifier")
    return greedy + "…\n" + sampled[sampled.index("stories, K") :]


def shown(readme):
    """Returns what the README says that the demo prints.

    Raises:
        ValueError: if the README has no such block.
    """
    match = BLOCK.search(readme)
    if match is None:
        raise ValueError("the README has no block with the demo's output")
    return match[2]


def replaced(readme, printed):
    """Returns the README with another output of the demo."""
    return readme.replace(shown(readme), printed)


def same_but_for_times(text):
    """Returns the words of an output, with a # for each number of tokens a second and each speed-up."""
    return " ".join(re.sub(r"\b[\d,]+\s+\d+\.\d\dx(?!\w)", "# #", text).split())


if __name__ == "__main__":
    readme = README.read_text(encoding="utf-8")
    write_text_file(README, replaced(readme, in_short(demo(PICTURE))))
    print(f"wrote {PICTURE} and the README's output")
