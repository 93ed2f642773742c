"""What pages of numbers share: their texts, and how prose is broken into lines."""

import re
import textwrap
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

WIDTH = 96  # of a line of prose
NO_PROSE = re.compile(r"[|#<]|- |```")  # how a table, a heading, a comment, a list and code begin


def texts(name: str) -> dict[str, Any]:
    """Returns the texts of a page."""
    return tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8"))


def joined(parts: Iterable[str]) -> str:
    """Returns a page of its parts, with prose broken into lines."""
    blocks = [block.strip() for block in "\n\n".join(parts).split("\n\n")]
    return "\n\n".join(block if NO_PROSE.match(block) else wrapped(block) for block in blocks if block) + "\n"


def wrapped(prose: str) -> str:
    """Breaks prose into lines."""
    return textwrap.fill(prose, WIDTH, break_long_words=False, break_on_hyphens=False)
