"""What is drafted: q, the drafted token always among those shown; drafts over matches, right and wrong."""

import pytest
import torch
from figures import WORDS, by_hand, readable, shipped_run
from matplotlib.colors import to_hex

from minispec.show.plots.drafts import MATCH, RIGHT, WRONG, Found, candidates, draft_bars, draft_growth

FOUND = [Found(" took", 0, 0, 0), Found(" wood", 2, 3, 0), Found(".", 3, 5, 2), Found(" Pip", 12, 8, 8)]
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


def bars_of(axes, state):
    """Returns lower end and height of the bars in a state's colour."""
    bars = [bar for bar in axes.patches if to_hex(bar.get_facecolor()).upper() == state.colour]
    return [(bar.get_y(), bar.get_height()) for bar in bars]


def test_bars_and_points_are_the_numbers():
    """What is right stands below what is wrong; both together are the draft; a point is the match."""
    picture = draft_growth(FOUND, 8)
    readable(picture)
    (axes,) = picture.figure.axes
    assert bars_of(axes, RIGHT) == [(0, 0), (0, 0), (0, 2), (0, 8)]
    assert bars_of(axes, WRONG) == [(0, 0), (0, 3), (2, 3), (8, 0)]
    (line,) = axes.lines
    assert list(line.get_ydata()) == [0, 2, 3, 12] and line.get_marker() == MATCH.marker
    assert [label.get_text() for label in axes.get_xticklabels()] == ["took", "wood", ".", "Pip"]
    assert axes.get_ylim()[1] >= 12


def test_the_words_say_the_same():
    """Title, alternative text, caption and twin have the numbers of the figure."""
    picture = draft_growth(FOUND, 8)
    assert picture.title == "The draft grows with the match, to 8 tokens at most"
    assert picture.caption == "After 4 words 16 tokens are drafted, at most 8 each; 10 are right."
    assert "the match grows to 12 tokens, the draft to 8. 10 of 16 drafted tokens are right." in picture.alt
    assert picture.twin.splitlines()[-2].split() == [".", "3", "5", "2", "3"]


@pytest.mark.parametrize("found", [[], [Found("a", 1, 9, 0)], [Found("a", 1, 2, 3)], [Found("a", 1, 2, -1)]])
def test_what_cannot_be_is_refused(found):
    """No word, more than K, more right than drafted: one clear line."""
    with pytest.raises(ValueError, match="at least one word, and for each a draft of 0 to 8 tokens"):
        draft_growth(found, 8)
