"""The kill matrix: each mark is where it belongs, and the counts are right."""

import pytest
from book.layout import drawn_texts, overlapping_texts

from minispec.evidence.bench.measurements import KillRow, file_of
from minispec.evidence.zoo.checks import CHECKS
from minispec.evidence.zoo.mutants import MUTANTS
from minispec.show.plots.kill_matrix import entries, kill_matrix, panels

ROWS = [
    KillRow("one", "verify", "biased", "", "x.!"),
    KillRow("two", "draft", "slower", "", "..x"),
    KillRow("three", "verify", "biased", "", "x.."),
]


def test_modules_come_once():
    """Mutants stand under their module, modules in the order in which they first come."""
    assert [name for name, _ in entries(ROWS)] == ["in verify.py", "one", "three", "in draft.py", "two"]


@pytest.mark.parametrize("sizes", [[30, 30], [5, 50, 5], [60], [1] * 30, [33, 1, 20]])
def test_panels_break_between_modules(sizes):
    """Nothing is lost, no panel ends with a module's name, and both are about equally high."""
    lines = [(f"m{i}", "" if n == 0 else "x") for i, size in enumerate(sizes) for n in range(size + 1)]
    broken = panels(lines)
    assert [line for panel in broken for line in panel] == lines and len(broken) == 2
    assert all(panel[-1][1] for panel in broken)
    assert abs(len(broken[0]) - len(broken[1])) <= 14


def test_marks_and_counts():
    """A glyph per mark; a crash counts as found; what nobody of ours finds is named."""
    picture = kill_matrix(ROWS, ["alpha", "beta", "gamma"], theirs=["gamma"])
    texts = [line.text for line in drawn_texts(picture.figure)]
    assert (texts.count("■"), texts.count("!"), texts.count("□")) == (3 + 1, 1 + 1, 5 + 1)  # and the legend
    assert [text for text in texts if text.isdigit()] == ["2", "0", "2"]
    assert "2 of 3 planted bugs" in picture.caption and picture.alt.endswith("minispec finds: two.")
    assert picture.title == "The checks find 2 of 3 planted bugs"
    assert picture.twin.splitlines()[2:] == ["one    ■□!", "two    □□■", "three  ■□□"]


def test_the_whole_zoo_is_readable():
    """With every mutant and some checks no texts overlap, and no mutant is left out."""
    names = [check.name for check in CHECKS][-4:]
    modules = [file_of(mutant.function) for mutant in MUTANTS]
    rows = [
        KillRow(mutant.name, module, mutant.effect, "", "x.!.")
        for mutant, module in zip(MUTANTS, modules, strict=True)
    ]
    lines = drawn_texts(kill_matrix(rows, names, names[-3:]).figure)
    assert overlapping_texts(lines) == []
    assert {mutant.name for mutant in MUTANTS} <= {line.text for line in lines}
    assert {"in verify.py", "in decisions.h", "in native.cpp"} <= {line.text for line in lines}
