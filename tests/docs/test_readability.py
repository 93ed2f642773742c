"""The finder of unreadable text: it finds what is there, and nothing else."""

import pytest
from readability import drawn_texts, unreadable

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
        ([(0.1, 0.5, "upper"), (0.1, 0.42, "lower"), (0.3, 0.5, "right")], 0, None),
        ([(0.5, 0.1, "a long line of text"), (0.6, 0.12, "beside")], 90, None),
        ([(0.5, 0.1, "a long line"), (0.51, 0.3, "over")], 90, [("a long line", "over")]),
    ],
)
def test_texts_over_each_other_are_found(texts, turned, over):
    """Those that cross as a pair; turned text goes up from its corner, and not to the right."""
    assert unreadable(page(*texts, rotation=turned)).get("over each other") == over


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
    """A text of two lines is two lines, each with its own box; in half of the first, nothing lies over it."""
    figure = page((0.1, 0.5, "short\na much longer one"), (0.25, 0.56, "beside"))
    assert [line.text for line in drawn_texts(figure)] == ["short", "a much longer one", "beside"]
    assert unreadable(figure) == {}


def test_small_texts_and_those_over_the_edge_are_found():
    """What is under the limit, or leaves the page on any side; a figure without text has none."""
    texts = [(0.95, 0.5, "too far right"), (-0.02, 0.3, "left"), (0.5, 0.98, "up"), (0.5, -0.03, "down")]
    figure = page(*texts, (0.4, 0.5, "inside"), size=18)
    figure.text(0.1, 0.2, "tiny", fontsize=17.5)
    assert unreadable(figure) == {"small": ["tiny"], "cut off": [text for _, _, text in texts]}
    assert "small" not in unreadable(figure, points=17) and unreadable(page()) == {}
