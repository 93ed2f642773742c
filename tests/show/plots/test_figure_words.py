"""The words of the figures: words.toml has those that figures ask for, and no others."""

import re
from pathlib import Path

import pytest

from minispec.show import plots
from minispec.show.plots.board import PARTS, WORDS, worded
from minispec.show.plots.style import sheet

SOURCES = "".join(path.read_text(encoding="utf-8") for path in Path(plots.__file__).parent.glob("*.py"))


def test_every_figure_has_its_words():
    """A title, an alternative text, a caption; and special cases that some figure names."""
    assert set(re.findall(r'worded\(\s*"([\w-]+)"', SOURCES)) == set(WORDS)
    for table in WORDS.values():
        cases = set(table) - {*PARTS}
        assert {*PARTS} <= set(table) and all(f'"{case}"' in SOURCES for case in cases)
        assert all(table[case] and {*table[case]} <= {*PARTS} for case in cases)


def test_what_the_words_leave_open_must_be_given():
    """A figure that forgets a value fails; it does not show the name of it."""
    with pytest.raises(KeyError, match="gain"):
        worded("timeline", sheet(), "", count=3, fast=1.0, slow=3.0, passes="1 pass", calls=1)
