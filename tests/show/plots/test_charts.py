"""What charts share: labels are moved apart, numbers are written as people write them, tokens as they are."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minispec.show.plots.charts import spread


@given(st.lists(st.floats(0, 3), min_size=1, max_size=5))
def test_spread_keeps_order_and_distance(positions):
    """Labels end up a gap apart, in their order; those that were apart stay where they were."""
    moved = spread(sorted(positions), 0.2)
    assert all(b - a > 0.2 - 1e-3 for a, b in pairwise(moved))
    assert spread([0.0, 0.5, 0.6, 1.0], 0.2).tolist() == pytest.approx([0.0, 0.5, 0.7, 1.0])
