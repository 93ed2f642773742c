"""The finder of unreadable text: it finds what is there, and nothing else."""

import pytest
from book.layout import cut_texts, drawn_texts, overlapping_texts, small_texts

from minispec.show.plots.style import sheet


def page(*texts, size=20, **how):
    """Returns a figure with texts at (x, y), in parts of its 10 by 5 inches."""
    figure = sheet(10, 5)
    for x, y, text in texts:
        figure.text(x, y, text, fontsize=size, **how)
    return figure


def test_texts_over_each_other_are_found():
    """Two lines that cross are found as a pair; a third one elsewhere is not in any."""
    figure = page((0.1, 0.5, "one line"), (0.15, 0.51, "another"), (0.1, 0.8, "far away"))
    assert overlapping_texts(figure) == [("one line", "another")]


def test_texts_side_by_side_are_not_found():
    """Lines that stand close under or beside each other do not overlap."""
    assert overlapping_texts(page((0.1, 0.5, "upper"), (0.1, 0.42, "lower"), (0.3, 0.5, "right"))) == []


def test_turned_text_covers_a_column():
    """Text that is turned by 90 degrees goes up from its corner, and not to the right."""
    turned = (0.5, 0.1, "a long line of text")
    beside = page(turned, rotation=90)
    beside.text(0.6, 0.12, "beside", fontsize=20)
    assert overlapping_texts(beside) == []
    over = page(turned, rotation=90)
    over.text(0.47, 0.4, "over", fontsize=20)
    assert overlapping_texts(over) == [("a long line of text", "over")]


@pytest.mark.parametrize("limits", [(0, 10), (3, 4)])
def test_only_what_is_drawn_counts(limits):
    """Labels of ticks outside the limits, hidden texts and empty ones are not drawn."""
    figure = sheet(10, 5)
    axes = figure.add_subplot()
    axes.set_xticks(range(11), [f"tick {i}" for i in range(11)], fontsize=20)
    axes.set_yticks([])
    axes.set_xlim(*limits)
    axes.text(3.5, 0.5, "hidden", visible=False)
    axes.text(3.5, 0.5, "  ")
    low, high = limits
    assert [line.text for line in drawn_texts(figure)] == [f"tick {i}" for i in range(low, high + 1)]


def test_lines_of_one_text_are_told_apart():
    """A text of two lines is two lines, each with its own box."""
    lines = drawn_texts(page((0.1, 0.5, "short\na much longer one")))
    assert [line.text for line in lines] == ["short", "a much longer one"]
    assert lines[1].box.width > 2 * lines[0].box.width and lines[0].box.y0 > lines[1].box.y1 - 1


def test_small_texts_are_found():
    """What is under the limit is found; what stands at it is not."""
    figure = page((0.1, 0.5, "fine"), size=18)
    figure.text(0.1, 0.2, "tiny", fontsize=17.5)
    assert small_texts(figure) == ["tiny"]
    assert small_texts(figure, points=17) == []


def test_text_over_the_edge_is_found():
    """A line that leaves the page on any side is found."""
    texts = [(0.95, 0.5, "too far right"), (-0.02, 0.3, "left"), (0.5, 0.98, "up"), (0.5, -0.03, "down")]
    assert cut_texts(page(*texts, (0.4, 0.5, "inside"))) == [text for _, _, text in texts]
