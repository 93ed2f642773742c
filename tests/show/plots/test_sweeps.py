"""Figures of sweeps: bars are the gains, losses are hatched, the best has a star."""

from minispec.evidence.bench.measurements import BatchPoint, DraftPoint
from minispec.show.plots.charts import LOSS
from minispec.show.plots.style import GUESS
from minispec.show.plots.sweeps import batch_sweep, draft_sweep

DRAFTS = [
    DraftPoint("large", 900_000, 0.9, 0.8, 1, 0.9, 0.85, 0.95),
    DraftPoint("small", 1_000, 0.5, 0.05, 2, 1.2, 1.1, 1.3),
    DraftPoint("middle", 50_000, 0.8, 0.1, 4, 1.9, 1.8, 2.0),
]
BATCHES = [
    BatchPoint(8, 800.0, 600.0, 0.75, 0.7, 0.8),
    BatchPoint(1, 100.0, 180.0, 1.8, 1.7, 1.9),
]


def bars(axes):
    """Returns (height, hatched) of the bars from left to right."""
    patches = sorted((p for p in axes.patches if p.get_height()), key=lambda patch: patch.get_x())
    return [(patch.get_height(), patch.get_hatch() == LOSS.hatch) for patch in patches]


def guesses(axes):
    return [line.get_xydata().tolist()[0] for line in axes.lines if line.get_marker() == GUESS.marker]


def test_draft_sweep_from_small_to_large():
    """Three panels in the order of size: α, c, and the gains, of which a loss is hatched."""
    picture = draft_sweep(DRAFTS, guess="large")
    top, middle, bottom = picture.figure.axes
    assert top.lines[0].get_ydata().tolist() == [0.5, 0.8, 0.9]
    assert middle.lines[0].get_ydata().tolist() == [0.05, 0.1, 0.8]
    assert bars(bottom) == [(1.2, False), (1.9, False), (0.9, True)]
    assert [label.get_text() for label in bottom.get_xticklabels()] == [
        "small\n1 k", "middle\n50 k", "large\n900 k"
    ]  # fmt: skip
    assert [text.get_text() for text in bottom.texts] == ["1.20", "★ 1.90", "0.90"]
    assert guesses(bottom)[0][0] == 2
    assert "middle, with α = 0.80 and c = 0.10: 1.90 times" in picture.caption
    assert guesses(draft_sweep(DRAFTS).figure.axes[2]) == []


def test_batch_sweep_shows_losses():
    """Throughputs above, gains below, from the smallest batch up; losses are hatched and named."""
    picture = batch_sweep(BATCHES)
    top, bottom = picture.figure.axes
    assert [line.get_ydata().tolist() for line in top.lines] == [[100, 800], [180, 600]]
    assert bars(bottom) == [(1.8, False), (0.75, True)]
    assert picture.caption.endswith("it is a loss with 8.")
    assert picture.twin.splitlines()[1].endswith(", a loss")
    assert "no size that was tried is a loss" in batch_sweep(BATCHES[1:]).caption
