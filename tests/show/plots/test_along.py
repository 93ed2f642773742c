"""Along a text: every tested position once, with numbers from p and q."""

import pytest
from figures import WORDS, by_hand, readable, shipped_run, tiny_run

from minispec.show.plots.along import along_the_text, positions_of


def test_positions_by_hand():
    """Tested tokens only, at their positions in the text; what was not tested has no position."""
    trace = by_hand([0, 1], ([5, 6, 7], 1, 8), ([2, 3], 2, 4))
    assert [(x.round, x.position, x.token, x.word, x.accepted) for x in positions_of(trace, WORDS)] == [
        (0, 2, 5, " six", True),
        (0, 3, 6, " h", False),
        (1, 4, 2, ".", True),
        (1, 5, 3, " the", True),
    ]


@pytest.mark.parametrize("row", [0, 1])
def test_numbers_of_a_real_run(row):
    """Counts agree with the statistics; probabilities and distances are those of p and q."""
    trace = tiny_run(prompts=[(3, 1, 4), (2, 2)], new=30)
    found = positions_of(trace, WORDS, row)
    assert len(found) == sum(r.tested(row) for r in trace.rounds)
    assert sum(x.accepted for x in found) == sum(r.accepted(row) for r in trace.rounds if r.live[row])
    text = [*trace.prompts[row], *trace.tokens(row)]
    assert all((text[x.position] == x.token) for x in found if x.accepted)
    first, r = found[0], trace.rounds[0]
    p, q = r.target_probs[row, 0], r.draft.probs[row, 0]
    assert first.tv == pytest.approx(float((p - q).abs().sum() / 2))
    assert first.acceptance == pytest.approx(min(1, float(p[first.token] / q[first.token])))


def test_mean_acceptance_is_one_minus_tv():
    """Over all tokens that the draft could have drawn, the acceptance is on average 1 − TV (theorem 3.5)."""
    trace = tiny_run(new=30)
    found = positions_of(trace, WORDS)
    for r in (r for r in trace.rounds if r.draft.k):
        p, q = r.target_probs[0, 0], r.draft.probs[0, 0]
        here = next(x for x in found if x.round == r.index)
        assert float((q * (p / q).clamp(max=1)).sum()) == pytest.approx(1 - here.tv)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_figure_shows_each_position(temperature):
    """One bar per position in both charts, as high as the numbers; 28 of a longer text."""
    trace, words = shipped_run(temperature)
    found = positions_of(trace, words)
    for positions in (found, found[2:5], found[:1], found * 3):
        picture = along_the_text(positions)
        readable(picture)
        heights = [[bar.get_height() for bar in axes.patches] for axes in picture.figure.axes]
        chosen = positions[:28]
        assert heights == [[x.acceptance for x in chosen], [x.tv for x in chosen]]
        assert len(picture.twin.splitlines()) == 1 + len(chosen)
