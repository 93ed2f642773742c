"""Figures take their signs from the one table: none is written down in the code that draws."""

from pathlib import Path

import pytest

from minispec.show.signs import STATES

ROOT = Path(__file__).resolve().parents[3]
BOOK = ROOT / "docs" / "book"
SOURCES = [
    *sorted((ROOT / "minispec" / "show" / "plots").glob("*.py")),
    *(BOOK / f"{name}.py" for name in ("bench_plots", "contact_sheet", "draft_sizes", "gallery", "layout")),
]
SIGNS = "".join(state.glyph for state in STATES.values() if not state.glyph.isascii())


def written(source):
    """Returns the signs that stand in a source, as they are or as an escape."""
    return [sign for sign in SIGNS if sign in source or rf"\u{ord(sign):04x}" in source.lower()]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_no_sign_is_written_down(path):
    """So a sign cannot stand for anything but its state: code reaches it by the state's name only."""
    source = path.read_text(encoding="utf-8")
    assert written(source) == []
    assert "·" not in source  # it stood for a blank, a prompt and a finished row at once


def test_a_sign_that_is_written_down_is_found():
    """As itself or as an escape."""
    assert written('label="★ best"') == written(r'label="\u2605 best"') == [STATES["bonus"].glyph]
    assert written("label=BEST") == []
