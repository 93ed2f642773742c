"""What charts share: labels are moved apart, numbers are written as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minispec.show.plots.charts import chart, guess_at, keys, seconds, size, spread


@given(st.lists(st.floats(0, 3), min_size=1, max_size=5))
def test_spread_keeps_order_and_distance(positions):
    """Labels end up a gap apart, in their order; those that were apart stay where they were."""
    moved = spread(positions, 0.2)
    order = sorted(range(len(positions)), key=lambda i: positions[i])
    assert all(moved[b] - moved[a] > 0.2 - 1e-3 for a, b in zip(order, order[1:], strict=False))
    assert spread([0.0, 1.0, 0.5], 0.2) == [0.0, 1.0, 0.5]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (seconds(1.5), "1.5 s"),
        (seconds(0.00126), "1.26 ms"),
        (seconds(4.5e-5), "45 µs"),
        (seconds(2e-9), "2 ns"),
        (size(38_700_000), "38.7 MB"),
        (size(1.4e10, "flop"), "14 Gflop"),
        (size(12), "12 B"),
    ],
)
def test_numbers_as_people_write_them(text, written):
    """Three digits and a unit."""
    assert text == written


def test_the_guess_comes_last_in_the_key():
    """Whatever the order of drawing."""
    _, axes = chart(10, 5)
    guess_at(axes, 1, 1)
    axes.plot([0], [0], label="truth")
    keys(axes)
    assert [text.get_text() for text in axes.get_legend().texts] == ["truth", "your guess"]
