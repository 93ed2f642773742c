"""Which prompt each row decodes, round by round: a tile is as long as a prompt has the row."""

import pytest
from figures import readable
from matplotlib.patches import Rectangle

from minispec.show.plots.slots import IDLE, NOTHING, SIDE, row_slots

TURNS = [[0, 1], [0, None], [0, None], [2, 10], [None, 10]]
REFILLED = [[0, 1], [0, 10], [0, 10], [2, None]]


def tiles(picture, state=None):
    """Returns left edges and lengths in rounds, top row first: of hatched tiles, or of the others."""
    (axes,) = picture.figure.axes
    boxes = [box for box in axes.patches if isinstance(box, Rectangle) and box.get_height() > 0.4]
    chosen = [box for box in boxes if (box.get_hatch() == IDLE.hatch) == (state is IDLE)]
    left = min(box.get_x() for box in boxes)
    return [
        (round((box.get_x() - left) / SIDE), round(box.get_width() / SIDE))
        for box in sorted(chosen, key=lambda box: (-box.get_y(), box.get_x()))
    ]


def test_tiles_are_as_long_as_a_prompt_has_its_row():
    """Each stretch is one tile with the prompt's number; what does nothing is hatched and has none."""
    picture = row_slots({"in turns": TURNS, "refilled": REFILLED})
    readable(picture)
    assert tiles(picture) == [(0, 3), (3, 1), (0, 1), (3, 2), (0, 3), (3, 1), (0, 1), (1, 2)]
    assert tiles(picture, IDLE) == [(4, 1), (1, 2), (3, 1)]
    (axes,) = picture.figure.axes
    said = [text.get_text() for text in axes.texts]
    assert [text for text in said if text.isdigit()] == ["0", "2", "1", "10", "0", "2", "1", "10"]
    assert {"in turns: 5 rounds", "refilled: 4 rounds"} <= {*said}


def test_the_words_say_the_same():
    """Title, caption, alternative text and twin count the slots that decode, and show each."""
    picture = row_slots({"in turns": TURNS, "refilled": REFILLED})
    assert picture.title == "Slots that decode: 70% in turns, 88% refilled"
    assert picture.caption == "Slots that decode: 7 of 10 in 5 rounds in turns, 7 of 8 in 4 rounds refilled."
    assert "7 of 8 in 4 rounds refilled." in picture.alt
    assert picture.twin.splitlines()[2].split() == ["in", "turns", "row", "0", "0", "0", "0", "2", NOTHING]
    assert len(picture.twin.splitlines()) == 2 + 4


def test_neighbours_in_a_row_are_told_apart():
    """Each prompt has a shade of its own, the same in every run."""
    (axes,) = row_slots({"one": [[0], [1], [2]], "two": [[2], [1]]}).figure.axes
    shades = [box.get_facecolor() for box in axes.patches if box.get_height() > 0.4]
    assert len({*shades[:3]}) == 3 and shades[3:5] == [shades[2], shades[1]]


def test_a_prompt_that_comes_back_is_another_tile():
    """Tiles follow each other without a gap."""
    picture = row_slots({"one": [[4], [4], [None], [4]]})
    assert (tiles(picture), tiles(picture, IDLE)) == ([(0, 2), (3, 1)], [(2, 1)])


@pytest.mark.parametrize("runs", [{}, {"a": []}, {"a": [[]]}, {"a": [[1]], "b": []}])
def test_nothing_to_draw_is_refused(runs):
    """No run, no round, no row: one clear line."""
    with pytest.raises(ValueError, match="at least one run, and at least one round with one row"):
        row_slots(runs)
