"""Figures of numbers: every bar, point and cell is one of the record's."""

import pytest

from minispec.evidence.bench.measurements import BatchPoint, DraftPoint, KillRow, Latency, SpeedPoint
from minispec.show.plots.kill_matrix import kill_matrix
from minispec.show.plots.learning import learning
from minispec.show.plots.speed import (
    batch_sweep,
    draft_sweep,
    gain_by_k,
    gain_by_rows,
    latency,
    predicted_measured,
    speed_up_curves,
)
from minispec.train.training import Progress

FORWARDS = [Latency("big", 1, 0.002, 0.0019, 0.0022), Latency("big", 4, 0.003, 0.0029, 0.0031)]
SPEEDS = [
    SpeedPoint(1, 0.8, 0.1, 1.4, 1.3, 1.5, 1.6, 1.45),
    SpeedPoint(4, 0.78, 0.1, 2.0, 1.9, 2.2, 3.0, 1.8),
]
DRAFTS = [
    DraftPoint("small", 1_000, 0.5, 0.05, 2, 1.2, 1.1, 1.3),
    DraftPoint("middle", 50_000, 0.8, 0.1, 4, 1.9, 1.8, 2.0),
]
BATCHES = [BatchPoint(1, 100.0, 180.0, 1.8, 1.7, 1.9), BatchPoint(8, 800.0, 600.0, 0.75, 0.7, 0.8)]
LIVE = [Progress("target", 10, 30, 4.0, 1.0, 3.9), Progress("target", 30, 30, 2.0, 3.0, 0.7)]
DRAWN = {
    "latency": (lambda: latency(FORWARDS, at=4), [2, 3, 8]),  # milliseconds; 8 are four forwards over 1
    "gains": (lambda: gain_by_k(SPEEDS, assumed=0.1), [1.4, 2.0, 1.45, 1.8]),
    "predicted": (lambda: predicted_measured(SPEEDS), [1.4, 2.0, 1.6, 3.0, 1.45, 1.8]),
    "curves": (lambda: speed_up_curves([0.5], 0.1, SPEEDS, most=8), [1.5 / 1.1, 1.75 / 1.2, 1.4, 2.0]),
    "drafts": (lambda: draft_sweep(DRAFTS), [1.2, 1.9]),
    "batches": (lambda: batch_sweep(BATCHES), [1.8, 0.75, 100, 600]),
    "contexts": (
        lambda: gain_by_rows({64: [(1, 2.5), (64, 0.5)], 9: [(1, 2.6), (64, 1.1)]}, k=3),
        [2.5, 0.5, 2.6],
    ),
    "learning": (lambda: learning(LIVE, [], 0.37), [3.9, 0.7, 0.37]),
}


def places(figure):
    """Yields where points, lines, areas and bars of a figure are, across and upwards."""
    for axes in figure.axes:
        yield from (float(x) for line in axes.lines for x in line.get_xydata().flatten())
        yield from (y for patch in axes.patches for y in patch.get_bbox().extents)
        yield from (y for drawn in axes.collections for x in drawn.get_paths() for _, y in x.vertices)


@pytest.mark.parametrize("name", DRAWN)
def test_what_is_drawn_is_what_is_given(name):
    draw, numbers = DRAWN[name]
    picture = draw()
    found = [*places(picture.figure)]
    assert [number for number in numbers if not any(y == pytest.approx(number) for y in found)] == []
    assert picture.title and picture.alt and picture.twin.startswith(picture.title)


def test_the_kill_matrix_has_every_bug():
    rows = [KillRow("one", "verify", "biased", "", "x.!"), KillRow("two", "draft", "slower", "", "..x")]
    twin = kill_matrix(rows, ["alpha", "beta", "gamma"], other_checks=["gamma"]).twin
    assert all(name in twin for name in ("one", "two", "alpha", "beta", "gamma"))
