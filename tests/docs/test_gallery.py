"""Every figure is readable, says in words what it shows, and tells its states apart without colour."""

import importlib
import inspect
import pkgutil
from dataclasses import replace
from itertools import combinations

import pytest
from eyesight import DEUTERANOPIA, contrast, distance, grey_distance
from figures import readable
from gallery import gallery, of_the_rule, of_traces
from matplotlib.colors import to_hex
from matplotlib.text import Text

from minispec.show import plots
from minispec.show.plots.kill_matrix import MARKS
from minispec.show.plots.style import Picture, sheet
from minispec.show.signs import DRAFTER, GUESS, STATES, TARGET

GREY_NEAR = 12  # steps of lightness, of 100
COLOUR_NEAR = 15  # distance in L*a*b*
LONGEST = 80  # characters of a title that is read in five seconds
BY_SIGN = {state.glyph: state for state in STATES.values() if state.glyph}
SIGNS = {sign for sign in BY_SIGN if not sign.isascii()}  # ? and = stand in any text


@pytest.fixture(scope="module")
def pictures():
    """Every picture, each with its layout settled."""
    found = [*gallery()]
    for picture in found:
        if picture.figure.get_layout_engine():
            picture.figure.draw_without_rendering()
            picture.figure.set_layout_engine("none")
    return found


def test_all_can_be_read(pictures):
    """Texts are large, apart and whole; each picture has its words, and a title that is read at a glance."""
    for picture in pictures:
        readable(picture)
        assert len(picture.title) <= LONGEST and not picture.title.endswith(".")
        assert ". " not in picture.caption
    assert len({picture.name for picture in pictures}) == len(pictures) >= 20


def test_guesses_stand_inside_their_axes(pictures):
    """The reader's diamond lies on the chart, not on the keys above it or beyond."""
    inside = []
    for axes in (axes for picture in pictures for axes in picture.figure.axes):
        for line in axes.lines:
            if (line.get_marker(), line.get_color()) == (GUESS.marker, GUESS.colour):
                points = axes.transData.transform(line.get_xydata())
                inside += [axes.bbox.padded(1).contains(*point) for point in points]
    assert len(inside) >= 6 and all(inside)


def test_every_figure_is_in_the_gallery(pictures):
    """So that what holds for the gallery holds for each function that returns a picture."""
    names = set()
    for found in pkgutil.iter_modules(plots.__path__):
        module = importlib.import_module(f"{plots.__name__}.{found.name}")
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if inspect.signature(function).return_annotation is Picture:
                names.add(name.replace("_", "-"))
    shown = {picture.name for picture in pictures}
    other = {"draft-bars", "attention-mask", "verification-strip", "cache-grid", "coloured-text"}
    assert names - shown == other | {"along-the-text", "titled", "worded"}
    assert shown >= {"draft", "mask", "verification", "caches", "coloured", "along"}


def signs_on_colours(figure):
    """Yields each sign that begins a text, and the colours of the area under it, as #RRGGBB."""
    for axes in figure.axes:
        for text in axes.texts:
            sign = text.get_text()[:1]
            if sign in SIGNS or text.get_text() in BY_SIGN:
                point = axes.transData.transform(text.get_position())
                under = [patch for patch in axes.patches if patch.contains_point(point)][-1:]  # on top
                yield sign, {to_hex(patch.get_facecolor()).upper() for patch in under}
    for legend in filter(None, [*figure.legends, *(axes.get_legend() for axes in figure.axes)]):
        for text, handle in zip(legend.texts, legend.legend_handles, strict=True):
            if text.get_text()[:1] in SIGNS:
                yield text.get_text()[0], {to_hex(handle.get_facecolor()).upper()}


def test_a_sign_stands_in_the_colour_of_its_state(pictures):
    """In every tile, bar and key; in the text twin are the same signs as in the figure."""
    seen = set()
    for picture in pictures:
        for sign, colours in signs_on_colours(picture.figure):
            seen.add(sign)
            assert colours <= {BY_SIGN[sign].colour}, (picture.name, sign)
        drawn = "".join(text.get_text() for text in picture.figure.findobj(Text))
        assert SIGNS & set(drawn) == SIGNS & set(picture.twin), picture.name
        assert not {"·", "⏹"} & set(drawn + picture.twin + picture.alt + picture.caption)
    assert seen >= SIGNS | {"?"}


def test_a_sign_on_another_colour_is_found():
    """A correction on the colour of a rejection."""
    axes = sheet().add_subplot()
    axes.bar([0], [1], color=STATES["rejected"].colour)
    axes.text(0, 0.5, f"{STATES['correction'].glyph} floor")
    found = list(signs_on_colours(axes.figure))
    assert found == [(STATES["correction"].glyph, {STATES["rejected"].colour})]


def test_the_same_data_give_the_same_image(pictures):
    """What is decoded or drawn at random says the same again; where it is drawn anew, in the same bytes."""
    by_name = {picture.name: picture for picture in pictures}
    for again in (*of_traces(), *of_the_rule()):
        once = by_name[again.name]
        assert (again.alt, again.twin) == (once.alt, once.twin)
        if again.name in ("row-slots", "sampled-shares", "rule-distribution"):
            assert once.png(20) == again.png(20) == again.png(20)


def confused(states):
    """Returns the pairs that look alike in greyscale or to deuteranopes, and in nothing else differ enough.

    What looks alike must have another glyph, and another hatch or marker.
    """
    pairs = []
    for (one, a), (other, b) in combinations(states.items(), 2):
        near = grey_distance(a.colour, b.colour) < GREY_NEAR
        near |= distance(a.colour, b.colour, DEUTERANOPIA) < COLOUR_NEAR
        if near and (a.glyph == b.glyph or (a.hatch == b.hatch and a.marker == b.marker)):
            pairs.append((one, other))
    return pairs


def test_states_differ_without_colour():
    """By glyph, and by hatch or marker; glyphs stand out from their area by 4.5 to 1 at least."""
    assert confused(STATES) == [] and confused({"p": TARGET, "q": DRAFTER, "guess": GUESS}) == []
    assert len({mark.glyph for mark in MARKS.values()}) == len(MARKS)
    areas = [*STATES.values(), TARGET, DRAFTER, *MARKS.values()]
    assert min(contrast(area.ink, area.colour) for area in areas) >= 4.5


@pytest.mark.parametrize("lost", ["glyph", "marker"])
def test_states_that_look_alike_are_found(lost):
    """Green and vermillion are equally light: take away a glyph or a marker, and the pair is confused."""
    alike = replace(STATES["rejected"], hatch="", **{lost: getattr(STATES["accepted"], lost)})
    assert confused({**STATES, "rejected": alike}) == [("accepted", "rejected")]


def test_simulated_eyesight_is_right():
    """White to black is 100 in lightness and 21 in contrast; red and green come close to deuteranopes."""
    assert grey_distance("white", "black") == pytest.approx(100)
    assert contrast("white", "black") == pytest.approx(21)
    assert distance("#D55E00", "#009E73", DEUTERANOPIA) < distance("#D55E00", "#009E73") / 1.5
    assert distance("white", "#777777", DEUTERANOPIA) == pytest.approx(distance("white", "#777777"), abs=0.5)
