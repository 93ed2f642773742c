"""Figures of bytes: bars are as long as what they stand for."""

from dataclasses import replace

import pytest

from minispec.evidence.bench.measurements import MemoryPart
from minispec.evidence.theory.formulas import Hardware, forward_cost
from minispec.show.plots.memory import bytes_against_arithmetic, memory_bars
from minispec.show.plots.style import GUESS

PARTS = [
    MemoryPart("target", "weights", 40_000_000),
    MemoryPart("target", "cache", 5_000_000),
    MemoryPart("draft", "weights", 4_000_000),
    MemoryPart("draft", "cache", 500_000),
]
MACHINE = Hardware("a machine", 1e12, 100e12)


def guesses(axes):
    return [line.get_xydata().tolist()[0] for line in axes.lines if line.get_marker() == GUESS.marker]


def test_memory_bars_are_stacked():
    """Weights from 0, the cache behind them, for both models; the draft adds 10%."""
    picture = memory_bars(PARTS)
    (axes,) = picture.figure.axes
    assert [(bar.get_x(), bar.get_width()) for bar in axes.patches] == [(0, 40), (40, 5), (0, 4), (4, 0.5)]
    assert "add 10.0%" in picture.caption and "4.5 MB beside 45 MB" in picture.caption
    assert "draft, cache: 500 kB" in picture.twin
    assert guesses(memory_bars(PARTS, guess=6e6).figure.axes[0]) == [[6, 2]]


def test_memory_needs_all_parts():
    """A part that is missing, or of another model, is said."""
    for parts in (PARTS[:3], [*PARTS[:3], replace(PARTS[3], model="third")]):
        with pytest.raises(ValueError, match="weights and the cache"):
            memory_bars(parts)


def test_bytes_against_arithmetic():
    """7e9 weights of 2 bytes at 1 TB/s take 14 ms, their arithmetic 0.14 ms a token: 100 times less."""
    costs = [forward_cost(7e9, 2, MACHINE, tokens) for tokens in (1, 100)]
    picture = bytes_against_arithmetic(costs, MACHINE, "it", guess=4)
    (axes,) = picture.figure.axes
    assert [bar.get_width() for bar in axes.patches] == pytest.approx([14, 0.14, 14, 14])
    assert guesses(axes)[0][0] == pytest.approx(3.5)
    assert "takes 14 ms, 100 times as long" in picture.caption
    assert "100 new: reading 14 GB 14 ms, computing 1.4 Tflop 14 ms" in picture.twin
    with pytest.raises(ValueError, match="at least one"):
        bytes_against_arithmetic([], MACHINE)
    with pytest.raises(ValueError, match="above 0"):
        bytes_against_arithmetic(costs, MACHINE, guess=0)
