"""Runs the demo and puts what it prints into docs/demo.svg and, in short, into the README.

python docs/refresh_demo.py            write both
python docs/refresh_demo.py --check    fail if the README shows something else; numbers of speed may differ
"""

import io
import os
import re
import sys
from contextlib import redirect_stdout
from pathlib import Path
from unittest.mock import patch

from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME, TerminalTheme
from rich.text import Text

from minispec.cli import demo
from minispec.cli.main import run
from minispec.io.files import write_text_file
from minispec.show.text import COLOURS

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "demo.svg"
README = ROOT / "README.md"
BLOCK = re.compile(
    r"(<!-- python docs/refresh_demo.py writes this -->\n.*?```text\n)(.*?)(```\n<!-- demo: up to here -->)",
    re.DOTALL,
)
ROUNDS = 6  # that the README shows

# On this ground all colours but the bonus's blue have the contrast that small text needs: 4.5 to 1.
NIGHT = TerminalTheme(
    (20, 20, 20),
    SVG_EXPORT_THEME.foreground_color,
    [SVG_EXPORT_THEME.ansi_colors[number] for number in range(8)],
    [SVG_EXPORT_THEME.ansi_colors[number] for number in range(8, 16)],
)
BONUS_BY_NIGHT = "#56b4e9"  # Okabe and Ito's lighter blue
TERMINAL = {"FORCE_COLOR": "1", "COLORTERM": "truecolor", "TERM": "xterm-256color", "COLUMNS": "80"}


def printed():
    """Runs `minispec demo --no-train`, which is where `make demo` begins; returns what it prints.

    Raises:
        RuntimeError: if the demo fails.
    """
    out = io.StringIO()
    with patch.dict(os.environ, TERMINAL), patch.object(demo, "PAUSE", 0), redirect_stdout(out):
        status = run(["demo", "--no-train"])
    if status != 0:
        raise RuntimeError(f"the demo ends with status {status}")
    return Text.from_ansi(out.getvalue())


def write_picture(shown, path):
    """Writes a text as an SVG that loads nothing from elsewhere; long lines are wrapped."""
    paper = Console(file=io.StringIO(), record=True, width=80, color_system="truecolor")
    paper.print(shown)
    picture = paper.export_svg(title="minispec demo", theme=NIGHT, unique_id="demo")
    picture = re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL)
    write_text_file(path, picture.replace(COLOURS["bonus"].lower(), BONUS_BY_NIGHT))


def in_short(shown):
    """Returns the first rounds of the greedy run, what it says of them all, and the speed-up."""
    lines = [line.rstrip() for line in shown.plain.splitlines()]
    rounds = [number for number, line in enumerate(lines) if line.startswith("draft: ")]
    end = next(number for number, line in enumerate(lines) if " instead of " in line)
    speed = next(number for number, line in enumerate(lines) if line.startswith("Speed: "))
    greedy = lines[end : lines.index("", end)]
    chosen = [*lines[: rounds[ROUNDS]], "…", *greedy, "…", *lines[speed:]]
    return "".join(f"{line}\n" for line in chosen)


def without_speed(text):
    """Returns the words of an output, with # in place of what was measured and of the backend's name."""
    words, _, measured = text.partition("Speed: ")
    return " ".join(f"{words} Speed: {re.sub(r'[0-9.]+x?|torch|native', '#', measured)}".split())


def block_of(readme):
    """Returns the place in the README that shows the demo's output.

    Raises:
        ValueError: if there is none.
    """
    match = BLOCK.search(readme)
    if match is None:
        raise ValueError("the README has no block with the demo's output")
    return match


if __name__ == "__main__":
    readme = README.read_text(encoding="utf-8")
    match = block_of(readme)
    shown = printed()
    if "--check" in sys.argv:
        if without_speed(match[2]) != without_speed(in_short(shown)):
            sys.exit("the README's demo is out of date: python docs/refresh_demo.py writes it anew")
    else:
        write_text_file(README, readme.replace(match[0], f"{match[1]}{in_short(shown)}{match[3]}"))
        write_picture(shown, PICTURE)
        print(f"wrote {PICTURE} and the README's output")
