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


@pytest.mark.parametrize(
    ("texts", "turned", "over"),
    [
        ([(0.1, 0.5, "a line"), (0.15, 0.51, "another"), (0.1, 0.8, "far")], 0, [("a line", "another")]),
        ([(0.1, 0.5, "upper"), (0.1, 0.42, "lower"), (0.3, 0.5, "right")], 0, []),
        ([(0.5, 0.1, "a long line of text"), (0.6, 0.12, "beside")], 90, []),
        ([(0.5, 0.1, "a long line"), (0.51, 0.3, "over")], 90, [("a long line", "over")]),
    ],
)
def test_texts_over_each_other_are_found(texts, turned, over):
    """Those that cross as a pair; turned text goes up from its corner, and not to the right."""
    assert overlapping_texts(page(*texts, rotation=turned)) == over


@pytest.mark.parametrize("limits", [(0, 10), (3, 4)])
def test_only_what_is_drawn_counts(limits):
    """Labels of ticks outside the limits, hidden texts and empty ones are not drawn."""
    axes = sheet(10, 5).add_subplot()
    axes.set_xticks(range(11), [f"tick {i}" for i in range(11)], fontsize=20)
    axes.set(yticks=[], xlim=limits)
    axes.text(3.5, 0.5, "hidden", visible=False)
    axes.text(3.5, 0.5, "  ")
    low, high = limits
    assert [line.text for line in drawn_texts(axes.figure)] == [f"tick {i}" for i in range(low, high + 1)]


def test_lines_of_one_text_are_told_apart():
    """A text of two lines is two lines, each with its own box."""
    first, second = drawn_texts(page((0.1, 0.5, "short\na much longer one")))
    assert (first.text, second.text) == ("short", "a much longer one")
    assert second.box.width > 2 * first.box.width and first.box.y0 > second.box.y1 - 1


def test_small_texts_are_found():
    """What is under the limit is found; what stands at it is not."""
    figure = page((0.1, 0.5, "fine"), size=18)
    figure.text(0.1, 0.2, "tiny", fontsize=17.5)
    assert small_texts(figure) == ["tiny"] and small_texts(figure, points=17) == []


def test_text_over_the_edge_is_found():
    """A line that leaves the page on any side is found."""
    texts = [(0.95, 0.5, "too far right"), (-0.02, 0.3, "left"), (0.5, 0.98, "up"), (0.5, -0.03, "down")]
    assert cut_texts(page(*texts, (0.4, 0.5, "inside"))) == [text for _, _, text in texts]
