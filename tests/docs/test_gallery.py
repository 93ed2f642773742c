"""Every figure is readable, says in words what it shows, and tells its states apart without colour."""

import re
from dataclasses import replace
from itertools import combinations

import pytest
from book.gallery import FIGURES, LATENCIES, MADE_UP, SPEEDS, gallery, of_numbers
from book.layout import cut_texts, drawn_texts, overlapping_texts, small_texts
from eyesight import DEUTERANOPIA, contrast, distance, grey_distance

from minispec.show.plots.kill_matrix import MARKS
from minispec.show.plots.speed import draft_sweep, latency, speed_up_curves
from minispec.show.plots.style import DRAFTER, GUESS, STATES, TARGET, sheet

GREY_NEAR = 12  # steps of lightness, of 100
COLOUR_NEAR = 15  # distance in L*a*b*


@pytest.fixture(scope="module")
def images():
    """Every picture with its image, which settles its layout."""
    return [(picture, picture.png(20)) for picture in gallery()]


@pytest.fixture(scope="module")
def pictures(images):
    return [picture for picture, _ in images]


def faults(figure):
    lines = drawn_texts(figure)
    return overlapping_texts(lines) + small_texts(lines) + cut_texts(figure, lines)


def confused(states):
    """Returns the pairs that look alike in greyscale or to deuteranopes, and in nothing else differ enough.

    What looks alike must have another glyph, and another hatch or marker.
    """
    return [
        (one, other)
        for (one, a), (other, b) in combinations(states.items(), 2)
        if (
            grey_distance(a.colour, b.colour) < GREY_NEAR
            or distance(a.colour, b.colour, DEUTERANOPIA) < COLOUR_NEAR
        )
        and (a.glyph == b.glyph or (a.hatch == b.hatch and a.marker == b.marker))
    ]


def one_sentence(text):
    """Whether a text is one sentence: a full stop at its end, and none that ends a sentence before."""
    return text.endswith(".") and not re.search(r"[.!?]\s", text)


def test_texts_are_large_apart_and_whole(pictures):
    """No text lies over another, none is under 18 points at full size, none leaves the page."""
    assert {p.name: found for p in pictures if (found := faults(p.figure))} == {}


def test_guesses_stand_inside_their_axes(images):
    """The reader's diamond lies on the chart, not on the keys above it or beyond."""
    found = {picture.name: guesses_outside(picture.figure) for picture, _ in images}
    assert sum(len(points) for points, _ in found.values()) >= 6
    assert {name: outside for name, (_, outside) in found.items() if outside} == {}


def guesses_outside(figure):
    """Returns where all guesses stand in a figure, in pixels, and those that are outside their axes."""
    points, outside = [], []
    for axes in figure.axes:
        for line in axes.lines:
            if line.get_marker() == GUESS.marker and line.get_color() == GUESS.colour:
                for point in axes.transData.transform(line.get_xydata()):
                    points.append(tuple(point))
                    outside += [] if axes.bbox.padded(1).contains(*point) else [tuple(point)]
    return points, outside


def test_pictures_speak(pictures):
    """Alternative text of at least 40 characters, a caption of one sentence with a digit, a text twin."""
    assert len(pictures) >= 14
    assert [p.name for p in pictures if len(p.alt) < 40] == []
    assert [p.name for p in pictures if not one_sentence(p.caption)] == []
    assert [p.name for p in pictures if not re.search(r"\d", p.caption)] == []
    assert [p.name for p in pictures if not p.twin.strip()] == []
    assert len({p.name for p in pictures}) == len(pictures)


def test_the_same_data_give_the_same_image(images):
    """Made again from the same data, a picture has the same bytes; so has the same picture, drawn twice."""
    again = {picture.name: picture.png(20) for picture in gallery()}
    assert [picture.name for picture, image in images if image != again[picture.name]] == []
    picture = latency(LATENCIES)
    assert picture.png(20) == picture.png(20)


def test_made_up_numbers_are_readable_and_called_so(tmp_path):
    """Where nothing was saved, figures say so by their names; figures without a guess can be read too."""
    pictures = [picture for picture in of_numbers(tmp_path) if MADE_UP in picture.name]
    assert len(pictures) == len(FIGURES) + 1  # two of the speed
    pictures += [latency(LATENCIES), draft_sweep(FIGURES["drafts"][1])]
    pictures.append(speed_up_curves([0.5, 0.7, 0.75, 0.8, 0.95], SPEEDS[0].c))
    assert {p.name: found for p in pictures if (found := faults(p.figure))} == {}


def test_states_differ_without_colour():
    """States that look alike in greyscale or to deuteranopes differ by glyph, and by hatch or marker."""
    assert confused(STATES) == [] and confused({"p": TARGET, "q": DRAFTER, "guess": GUESS}) == []
    assert len({state.glyph for state in STATES.values()}) == len(STATES)
    assert len({mark.glyph for mark in MARKS.values()}) == len(MARKS)


@pytest.mark.parametrize("lost", ["glyph", "marker"])
def test_states_that_look_alike_are_found(lost):
    """Green and vermillion are equally light: take away a glyph or a marker, and the pair is confused."""
    alike = replace(STATES["correction"], **{lost: getattr(STATES["draft"], lost)})
    assert confused({**STATES, "correction": alike}) == [("draft", "correction")]


def test_text_on_areas_can_be_read():
    """Glyphs stand out from their area by 4.5 to 1 at least."""
    everything = [*STATES.values(), TARGET, DRAFTER, *MARKS.values()]
    assert [s.word for s in everything if contrast(s.ink, s.colour) < 4.5] == []


def test_simulated_eyesight_is_right():
    """White to black is 100 in lightness and 21 in contrast; red and green come close to deuteranopes."""
    assert grey_distance("white", "black") == pytest.approx(100)
    assert contrast("white", "black") == pytest.approx(21)
    assert distance("#D55E00", "#009E73", DEUTERANOPIA) < distance("#D55E00", "#009E73") / 1.5
    assert distance("white", "#777777", DEUTERANOPIA) == pytest.approx(distance("white", "#777777"), abs=0.5)


def test_a_planted_fault_in_a_figure_is_found():
    """Two texts over each other are a fault of a figure."""
    figure = sheet()
    for text in ("one", "two"):
        figure.text(0.5, 0.5, text, fontsize=20)
    assert faults(figure) == [("one", "two")]
