"""What charts share: labels are moved apart, numbers are written as people write them, tokens as they are."""

from itertools import pairwise

import pytest
from figures import by_hand
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.text import Text

from minispec.show.plots.charts import spread
from minispec.show.plots.coloured import coloured_text
from minispec.show.plots.drafts import Found, draft_bars, draft_growth
from minispec.show.plots.overlap import overlap
from minispec.show.plots.timeline import timeline
from minispec.show.plots.verification import along_the_text, positions_of, verification_strip


@given(st.lists(st.floats(0, 3), min_size=1, max_size=5))
def test_spread_keeps_order_and_distance(positions):
    """Labels end up a gap apart, in their order; those that were apart stay where they were."""
    moved = spread(sorted(positions), 0.2)
    assert all(b - a > 0.2 - 1e-3 for a, b in pairwise(moved))
    assert spread([0.0, 0.5, 0.6, 1.0], 0.2).tolist() == pytest.approx([0.0, 0.5, 0.7, 1.0])


def test_a_dollar_sign_is_no_formula():
    """Tokens stand in figures as they are, also two with dollar signs on one line."""
    trace, words = by_hand([0, 3], ([5, 6], 1, 8)), [f" ${i}$" for i in range(11)]
    r, found = trace.rounds[0], [Found(word, 0, 1, 1) for word in words]
    pictures = [draft_bars(r, words), verification_strip(r, words), coloured_text(trace, words)]
    pictures += [along_the_text(positions_of(trace, words)), draft_growth(found, 1), timeline(trace, words)]
    pictures.append(overlap(r.target_probs[0, 0], r.draft.probs[0, 0], words))
    for picture in pictures:
        texts = [text for text in picture.figure.findobj(Text) if "$" in text.get_text()]
        assert texts and not any(text.get_parse_math() for text in texts), picture.name
        assert "$5$" in picture.twin and "\\" not in picture.twin + picture.alt
