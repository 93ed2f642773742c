"""Figures of bytes: bars are as long as what they stand for."""

import pytest
from figures import readable

from minispec.evidence.bench.measurements import MemoryPart
from minispec.evidence.theory.formulas import Hardware, forward_cost
from minispec.show.plots.memory import bytes_against_arithmetic, memory_bars

PARTS = [
    MemoryPart("target", "weights", 40_000_000),
    MemoryPart("target", "cache", 5_000_000),
    MemoryPart("draft", "weights", 4_000_000),
    MemoryPart("draft", "cache", 500_000),
]
MACHINE = Hardware("a machine", 1e12, 100e12)


def test_memory_bars_are_stacked():
    """Weights from 0, the cache after them, for both models; the draft adds 10%."""
    picture = memory_bars(PARTS)
    (axes,) = picture.figure.axes
    assert [(bar.get_x(), bar.get_width()) for bar in axes.patches] == [(0, 40), (40, 5), (0, 4), (4, 0.5)]
    assert "add 10.0%" in picture.caption and "4.5 MB beside 45 MB" in picture.caption
    assert "draft, cache: 500 kB" in picture.twin


def test_bytes_against_arithmetic():
    """7e9 weights of 2 bytes at 1 TB/s take 14 ms, their arithmetic 0.14 ms a token: 100 times less."""
    costs = [forward_cost(7e9, 2, MACHINE, tokens) for tokens in (1, 5, 200)]
    picture = bytes_against_arithmetic(costs, MACHINE, "it")
    (axes,) = picture.figure.axes
    assert axes.get_xscale() == "linear" and {bar.get_x() for bar in axes.patches} == {0}
    assert [bar.get_width() for bar in axes.patches] == pytest.approx([14, 14, 14, 0.14, 0.7, 28])
    (ends,) = axes.collections  # where each forward ends: with the longer of its bars, not after their sum
    assert [line[0][0] for line in ends.get_segments()] == pytest.approx([14, 14, 28])
    assert picture.title == "5 positions cost what 1 costs; beyond 100, arithmetic decides"
    assert "takes 14 ms, 100 times as long" in picture.caption
    assert "200 positions: reading 14 GB 14 ms, computing 2.8 Tflop 28 ms, both at once 28 ms" in picture.twin
    readable(picture)


def test_where_nothing_is_cheap_the_title_says_no_more_than_is_so():
    """Without a number of positions between one and the limit, none is said to cost what one costs."""
    costs = [forward_cost(7e9, 2, MACHINE, tokens) for tokens in (1, 100, 300)]
    title = bytes_against_arithmetic(costs, MACHINE).title
    assert title == "Reading the weights decides up to 100 positions, then arithmetic"
