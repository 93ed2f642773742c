"""The draft's distributions: the right tokens, the drafted one always among them."""

import pytest
import torch
from figures import WORDS, by_hand, readable, shipped_run

from minispec.show.plots.drafts import candidates, draft_bars

Q = torch.tensor([0.1, 0.0, 0.4, 0.05, 0.4, 0.05])


@pytest.mark.parametrize(
    ("drawn", "top", "ids"),
    [(2, 3, [2, 4, 0]), (5, 3, [2, 4, 5]), (0, 9, [2, 4, 0, 3, 5]), (1, 9, [2, 4, 0, 3, 5, 1]), (3, 1, [3])],
)
def test_candidates_are_the_most_probable_and_the_drawn_one(drawn, top, ids):
    """Most probable first, ties by id; the drawn one takes the last place if it would be left out."""
    found = candidates(Q, drawn, top)
    assert list(found) == ids and drawn in found
    assert list(found.values()) == pytest.approx(Q[ids].tolist())


def test_one_chart_per_guess():
    """Every drafted token of a real round is marked in its own chart, with the q that it was drawn from."""
    trace, words = shipped_run(1.0)
    r = trace.rounds[0]
    picture = draft_bars(r, words)
    readable(picture)
    lines = picture.twin.splitlines()[1:]
    assert len(lines) == r.drafted(0) == 5
    for i, line in enumerate(lines):
        token = int(r.draft.tokens[0, i])
        q = float(r.draft.probs[0, i, token])
        word, number = line.split(" ◀ ")[0].split("  ")[-1], line.split(" ◀ ")[1].split()[0]
        assert word.removeprefix(f"guess {i + 1}: ") == words[token].removeprefix(" ")
        assert float(number.strip("<>")) == pytest.approx(q, abs=0.0101)
    widths = [bar.get_width() for bar in picture.figure.axes[0].patches if bar.get_hatch()]
    full = picture.figure.axes[0].patches[0].get_width()
    shown = [q for i in range(5) for q in candidates(r.draft.probs[0, i], int(r.draft.tokens[0, i])).values()]
    assert [width / full for width in widths] == pytest.approx(shown)


def test_a_certain_draft_and_many_guesses():
    """At temperature 0 the caption says that all is certain; more than five guesses go into a second line."""
    trace, words = shipped_run()
    picture = draft_bars(trace.rounds[0], words)
    readable(picture)
    assert picture.caption.startswith("At temperature 0")
    many = draft_bars(by_hand([0], ([1, 2, 3, 4, 5, 6, 7], 7, 0)).rounds[0], WORDS)
    readable(many)
    assert "guess 7" in many.twin


def test_a_round_without_a_draft_is_refused():
    """Nothing drafted, nothing to draw."""
    with pytest.raises(ValueError, match="drafted nothing"):
        draft_bars(by_hand([0], ([], 0, 1)).rounds[0], WORDS)
