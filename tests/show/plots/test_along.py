"""Along a text: every tested position once, with numbers from the laws."""

import pytest
from figures import WORDS, by_hand, readable, shipped_run, tiny_run

from minispec.show.plots.along import along_the_text, positions_of


def test_positions_by_hand():
    """Tested tokens only, at their places in the text; what was not tested has no position."""
    trace = by_hand([0, 1], ([5, 6, 7], 1, 8), ([2, 3], 2, 4))
    assert [(x.round, x.place, x.token, x.word, x.accepted) for x in positions_of(trace, WORDS)] == [
        (0, 2, 5, " six", True),
        (0, 3, 6, " h", False),
        (1, 4, 2, ".", True),
        (1, 5, 3, " the", True),
    ]


@pytest.mark.parametrize("row", [0, 1])
def test_numbers_of_a_real_run(row):
    """Counts agree with the statistics; chances and distances are those of the laws."""
    trace = tiny_run(prompts=[(3, 1, 4), (2, 2)], new=30)
    found = positions_of(trace, WORDS, row)
    assert len(found) == sum(r.tested(row) for r in trace.rounds)
    assert sum(x.accepted for x in found) == sum(r.accepted(row) for r in trace.rounds if r.live[row])
    text = [*trace.prompts[row], *trace.tokens(row)]
    assert all((text[x.place] == x.token) for x in found if x.accepted)
    first, r = found[0], trace.rounds[0]
    p, q = r.target_probs[row, 0], r.draft.probs[row, 0]
    assert first.tv == pytest.approx(float((p - q).abs().sum() / 2))
    assert first.chance == pytest.approx(min(1, float(p[first.token] / q[first.token])))


def test_mean_chance_is_one_minus_tv():
    """Over all tokens that the draft could have drawn, the chance is on average 1 − TV (theorem 3.5)."""
    trace = tiny_run(new=30)
    found = positions_of(trace, WORDS)
    for r in (r for r in trace.rounds if r.draft.k):
        p, q = r.target_probs[0, 0], r.draft.probs[0, 0]
        here = next(x for x in found if x.round == r.index)
        assert float((q * (p / q).clamp(max=1)).sum()) == pytest.approx(1 - here.tv)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_figure_shows_each_position(temperature):
    """One bar per position in both charts, as high as the numbers; a window of a longer text."""
    trace, words = shipped_run(temperature)
    found = positions_of(trace, words)
    for first, most in ((0, 28), (2, 3), (0, 1)):
        picture = along_the_text(found, first, most)
        readable(picture)
        heights = [[bar.get_height() for bar in axes.patches] for axes in picture.figure.axes]
        chosen = found[first : first + most]
        assert heights == [[x.chance for x in chosen], [x.tv for x in chosen]]
        assert len(picture.twin.splitlines()) == 1 + len(chosen)


def test_nothing_to_draw_is_refused():
    """A window behind the end ends in one clear line."""
    with pytest.raises(ValueError, match="from 7 on; there are 0"):
        along_the_text([], first=7)
