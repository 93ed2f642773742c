"""What a look-up finds, word by word: bars are drafts, their lower part is right, points are matches."""

import pytest
from figures import readable
from matplotlib.colors import to_hex

from minispec.show.plots.matches import MATCH, RIGHT, WRONG, Found, draft_growth

FOUND = [Found(" took", 0, 0, 0), Found(" wood", 2, 3, 0), Found(".", 3, 5, 2), Found(" Pip", 12, 8, 8)]


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
