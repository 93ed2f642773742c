"""Figures of speed: what is drawn is what was given or what the formula says."""

import pytest
from book.gallery import SPEEDS
from figures import readable

from minispec.evidence.bench.measurements import BatchPoint, DraftPoint, Latency, SpeedPoint
from minispec.evidence.theory.formulas import Hardware, forward_cost, speed_up
from minispec.show.plots.charts import LOSS
from minispec.show.plots.speed import (
    batch_sweep,
    bytes_against_arithmetic,
    draft_sweep,
    gain_by_k,
    latency,
    predicted_measured,
    speed_up_curves,
)
from minispec.show.signs import GUESS

FORWARDS = [
    Latency("big", 1, 0.002, 0.0019, 0.0022),
    Latency("big", 4, 0.003, 0.0029, 0.0031),
    Latency("small", 1, 0.0002, 0.0001, 0.0003),
    Latency("small", 4, 0.0004, 0.0003, 0.0005),
]
MACHINE = Hardware("a machine", 1e12, 100e12)
POINTS = [
    SpeedPoint(1, 0.8, 0.1, 1.4, 1.3, 1.5, 1.6, 1.4),
    SpeedPoint(4, 0.8, 0.1, 2.0, 1.9, 2.2, 3.0, 1.8),
]


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


def drawn(axes):
    """Returns the points of each line that stands in the key."""
    handles, labels = axes.get_legend_handles_labels()
    lines = {
        label: getattr(handle, "lines", [handle])[0] for handle, label in zip(handles, labels, strict=True)
    }
    return {label: line.get_xydata().tolist() for label, line in lines.items() if hasattr(line, "get_xydata")}


def diamonds(axes):
    return [line.get_xydata().tolist() for line in axes.lines if line.get_marker() == GUESS.marker]


def test_latency_compares_two_ways_and_shows_where_cheap_ends():
    """Linear bars: so many forwards over one beside one forward over so many; then one over each number."""
    picture = latency(FORWARDS, at=5)
    readable(picture)
    two, wider, *small = picture.figure.axes
    assert {axes.get_yscale() for axes in picture.figure.axes} == {"linear"}
    assert [bar.get_height() for bar in two.patches] == pytest.approx([4 * 2.0, 3.0])
    assert [bar.get_height() for bar in wider.patches] == pytest.approx([2.0, 3.0])
    assert [bar.get_height() for axes in small for bar in axes.patches] == pytest.approx([0.8, 0.4, 0.2, 0.4])
    assert two.get_ylim() == wider.get_ylim()  # one scale, so that the bars can be compared
    assert [text.get_text() for text in wider.texts] == ["1.0×", "1.5×"]
    assert picture.title == "4 positions in one forward cost 1.5 times what 1 costs, not 4 times"
    assert "4 new tokens in one forward of the big take 1.50 times" in picture.caption
    assert "big, 4 positions: 4 forwards over 1 8 ms, 1 forward over 4 3 ms" in picture.twin
    assert "small, 1 forward over 4: 400 µs (300 µs to 500 µs), 2.00 of 1 over 1" in picture.twin
    assert [diamonds(axes) for axes in picture.figure.axes] == [[]] * 4


def test_latency_says_when_it_is_not_cheap():
    """Five positions that take nearly as long as five forwards are not praised."""
    dear = [Latency("m", 1, 1e-3, 1e-3, 1e-3), Latency("m", 5, 4.5e-3, 4.4e-3, 4.6e-3)]
    assert latency(dear).title == "5 positions in one forward cost 4.5 times what 1 costs"


@pytest.mark.parametrize("guess", [1, 1.5, 3, 30])
def test_latency_draws_a_guess_beside_the_truth(guess):
    """A guess of 3 times stands at 3 times the first model's time for one token, whatever the bars are."""
    model = "62 million weights"
    big = [
        Latency(model, n, t, 0.97 * t, 1.05 * t) for n, t in ((1, 2e-3), (5, 3e-3), (20, 5e-3), (100, 0.02))
    ]
    for forwards in (FORWARDS, big):
        picture = latency(forwards, guess=guess)
        readable(picture)
        first, *others = (diamonds(axes) for axes in picture.figure.axes)
        assert first == [[[2, pytest.approx(2.0 * guess)]]] and others == [[]] * len(others)
        assert picture.figure.axes[0].get_ylim()[1] > 2.0 * guess


def test_latency_needs_one_token():
    """Without a measurement for one token there is nothing to compare with."""
    with pytest.raises(ValueError, match="one token"):
        latency(FORWARDS[1:])
    with pytest.raises(ValueError, match="one token"):
        latency([])


def test_curves_are_theorem_3_8():
    """Each curve is the theorem's, a ring stands at its top, and measured points where they were measured."""
    picture = speed_up_curves([0.9, 0.5], 0.1, POINTS, most=8)
    (axes,) = picture.figure.axes
    curves = [line.get_xydata().tolist() for line in axes.lines if len(line.get_xydata()) == 8]
    for alpha, curve in zip((0.5, 0.9), curves, strict=True):
        assert curve == [[k, pytest.approx(speed_up(alpha, k, 0.1))] for k in range(1, 9)]
    rings = [
        line.get_xydata().tolist()[0]
        for line in axes.lines
        if line.get_markerfacecolor() == "none" and len(line.get_xdata())
    ]
    assert rings == [max(curve, key=lambda point: point[1]) for curve in curves]
    assert drawn(axes)["measured, α = 0.80"] == [[1, 1.4], [4, 2.0]]
    assert f"K = {int(rings[1][0])}: {rings[1][1]:.2f} times" in picture.caption


def test_gains_stand_beside_two_predictions():
    """Measured points, the prediction of the record, and theorem 3.8 with the c that was assumed."""
    picture = gain_by_k(POINTS[::-1], assumed=0.3)
    (axes,) = picture.figure.axes
    lines = drawn(axes)
    assert lines["measured"] == [[1, 1.4], [4, 2.0]]
    assert lines["predicted"] == [[1, 1.4], [4, 1.8]]
    theorem = [[k, pytest.approx(speed_up(0.8, k, 0.3))] for k in (1, 4)]
    assert lines["predicted if c = 0.3"] == theorem
    assert picture.title == "Fastest here: K = 4, 2.0 times; predicted: K = 4, 1.8 times"
    assert "K = 1: measured 1.40 (1.30 to 1.50)" in picture.twin
    readable(picture)


def test_gains_that_are_losses_are_called_so():
    """The title does not praise a K that is slower; without a point there is nothing to draw."""
    losing = [SpeedPoint(1, 0.1, 0.5, 0.8, 0.7, 0.9, 0.7, 0.75)]
    assert gain_by_k(losing, assumed=0.1).title.startswith("No K pays here")
    with pytest.raises(ValueError, match="at least one point"):
        gain_by_k([], assumed=0.1)


def test_predictions_stand_against_measurements():
    """Both predictions at the measured gain; errors are mean relative ones."""
    picture = predicted_measured(POINTS)
    (axes,) = picture.figure.axes
    points = drawn(axes)
    assert points["theorem 3.8: off by 32%"] == [[1.6, 1.4], [3.0, 2.0]]  # (0.2/1.4 + 1/2) / 2
    assert points["with measured times: off by 5%"] == [[1.4, 1.4], [1.8, 2.0]]  # (0 + 0.2/2) / 2
    assert "5% on average" in picture.caption
    assert "K = 4: measured 2.00, theorem 3.8 3.00" in picture.twin


def test_examples_follow_the_theorem():
    """The made-up points carry the theorem's own prediction."""
    for point in SPEEDS:
        assert point.simple == pytest.approx(speed_up(point.alpha, point.k, point.c))


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
    assert [text.get_text() for text in bottom.texts] == ["1.20", "◎ 1.90", "0.90"]
    assert diamonds(bottom)[0][0][0] == 2
    assert "middle, with α = 0.80 and c = 0.10: 1.90 times" in picture.caption
    assert diamonds(draft_sweep(DRAFTS).figure.axes[2]) == []


def test_batch_sweep_shows_losses():
    """Throughputs above, gains below, from the smallest batch up; losses are hatched and named."""
    picture = batch_sweep(BATCHES)
    top, bottom = picture.figure.axes
    assert [line.get_ydata().tolist() for line in top.lines] == [[100, 800], [180, 600]]
    assert bars(bottom) == [(1.8, False), (0.75, True)]
    assert picture.caption.endswith("it is a loss with 8.")
    assert picture.twin.splitlines()[2].endswith(", a loss")
    assert "no size that was tried is a loss" in batch_sweep(BATCHES[1:]).caption


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
