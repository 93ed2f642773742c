"""Every figure is readable, says in words what it shows, and tells its states apart without colour."""

import importlib
import inspect
import pkgutil
import re
from dataclasses import replace
from itertools import combinations

import pytest
from book.gallery import FIGURES, LATENCIES, MADE_UP, SPEEDS, gallery, of_numbers
from book.layout import cut_texts, drawn_texts, overlapping_texts, small_texts
from eyesight import DEUTERANOPIA, contrast, distance, grey_distance
from figures import headline
from matplotlib.colors import to_hex
from matplotlib.text import Text

from minispec.show import plots
from minispec.show.plots.kill_matrix import MARKS
from minispec.show.plots.speed import draft_sweep, latency, speed_up_curves
from minispec.show.plots.style import Picture, sheet
from minispec.show.signs import DRAFTER, GUESS, STATES, TARGET

GREY_NEAR = 12  # steps of lightness, of 100
COLOUR_NEAR = 15  # distance in L*a*b*
LONGEST = 80  # characters of a title that is read in five seconds
BY_SIGN = {state.glyph: state for state in STATES.values() if state.glyph}
SIGNS = {sign for sign in BY_SIGN if not sign.isascii()}  # ? and = stand in any text


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


def test_each_figure_states_its_message(pictures):
    """Over it stands a title, no longer than one reads at a glance; it begins the words for others too."""
    assert [p.name for p in pictures if not p.title or " ".join(headline(p).split()) != p.title] == []
    assert [p.title for p in pictures if len(p.title) > LONGEST or p.title.endswith(".")] == []
    assert [p.name for p in pictures if not p.alt.startswith(f"{p.title}. ")] == []
    assert [p.name for p in pictures if not p.twin.startswith(f"{p.title}\n")] == []


def test_every_figure_is_in_the_gallery(pictures):
    """So that what holds for the gallery holds for each function that returns a picture."""
    names = set()
    for found in pkgutil.iter_modules(plots.__path__):
        module = importlib.import_module(f"{plots.__name__}.{found.name}")
        names |= {
            name
            for name, function in inspect.getmembers(module, inspect.isfunction)
            if inspect.signature(function).return_annotation in (Picture, "Picture")
            and name not in ("titled", "worded")
        }
    said = {picture.name.split(" (")[0] for picture in pictures}
    files = {"draft_bars": "draft", "attention_mask": "mask", "verification_strip": "verification"}
    files |= {"cache_grid": "caches", "coloured_text": "coloured", "along_the_text": "along"}
    assert {files.get(name, name.replace("_", "-")) for name in names} <= said and len(names) >= 20


def test_a_sign_stands_in_the_colour_of_its_state(pictures):
    """In every tile, bar and key: a text that begins with a sign lies on the colour of that state only."""
    seen, wrong = set(), []
    for picture in pictures:
        for sign, text, colours in signs_on_colours(picture.figure):
            seen.add(sign)
            if colours - {BY_SIGN[sign].colour}:
                wrong.append((picture.name, text, colours))
    assert wrong == [] and seen >= SIGNS | {"?"}


def signs_on_colours(figure):
    """Yields each sign that begins a text, the text, and the colours of the area under it, as #RRGGBB."""
    for axes in figure.axes:
        for text in axes.texts:
            sign = text.get_text()[:1]
            if sign in SIGNS or text.get_text() in BY_SIGN:
                point = axes.transData.transform(text.get_position())
                under = [patch for patch in axes.patches if patch.contains_point(point)][-1:]  # on top
                yield sign, text.get_text(), {to_hex(patch.get_facecolor()).upper() for patch in under}
    for legend in [*figure.legends, *(axes.get_legend() for axes in figure.axes)]:
        for text, handle in zip(legend.texts, legend.legend_handles, strict=True) if legend else ():
            if text.get_text()[:1] in SIGNS:
                yield text.get_text()[0], text.get_text(), {to_hex(handle.get_facecolor()).upper()}


def test_a_sign_on_another_colour_is_found():
    """A correction on the colour of a rejection."""
    figure = sheet()
    axes = figure.add_subplot()
    axes.bar([0], [1], color=STATES["rejected"].colour)
    axes.text(0, 0.5, f"{STATES['correction'].glyph} floor")
    ((sign, _, colours),) = signs_on_colours(figure)
    assert sign == STATES["correction"].glyph and colours == {STATES["rejected"].colour}


def test_figure_and_twin_have_the_same_signs(pictures):
    """What the figure tells by a sign, the text twin tells by the same one; no dot stands for a blank."""
    different = {}
    for p in pictures:
        drawn = "".join(text.get_text() for text in p.figure.findobj(Text))
        if SIGNS & set(drawn) != SIGNS & set(p.twin):
            different[p.name] = SIGNS & (set(drawn) ^ set(p.twin))
        assert not {"·", "⏹"} & set(drawn + p.twin + p.alt + p.caption) and "p over q" not in drawn + p.twin
    assert different == {}


def test_the_residual_has_one_colour(pictures):
    """What is drawn from it, and the residual itself, in each figure that names it."""
    found = []
    for p in pictures:
        for legend in [*p.figure.legends, *(axes.get_legend() for axes in p.figure.axes)]:
            for text, handle in zip(legend.texts, legend.legend_handles, strict=True) if legend else ():
                if re.search("missing: p|emitted instead", text.get_text()):
                    found.append((p.name, to_hex(handle.get_facecolor()).upper()))
    assert {name for name, _ in found} == {"overlap", "rule-distribution"}
    assert {colour for _, colour in found} == {STATES["correction"].colour}


def test_the_same_data_give_the_same_image(images):
    """Made again from the same data, a picture has the same bytes; so has the same picture, drawn twice."""
    again = {picture.name: picture.png(20) for picture in gallery()}
    assert [picture.name for picture, image in images if image != again[picture.name]] == []
    picture = latency(LATENCIES)
    assert picture.png(20) == picture.png(20)


def test_made_up_numbers_are_readable_and_called_so(tmp_path):
    """Where nothing was saved, figures say so by their names; figures without a guess can be read too."""
    pictures = [picture for picture in of_numbers(tmp_path) if MADE_UP in picture.name]
    assert len(pictures) == len(FIGURES) + 2  # three of the speed
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
    alike = replace(STATES["rejected"], hatch="", **{lost: getattr(STATES["accepted"], lost)})
    assert confused({**STATES, "rejected": alike}) == [("accepted", "rejected")]


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
