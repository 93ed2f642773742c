"""Over time: spans by hand, and the same tokens on both sides; over rounds, a tile as long as its prompt."""

import pytest
from figures import WORDS, by_hand, readable, shipped_run, tiny_run
from matplotlib.patches import Rectangle

from minispec.show.plots.timeline import (
    IDLE,
    NOTHING,
    ROUND,
    WORKS,
    WorkTimes,
    row_slots,
    speculative_spans,
    timeline,
)
from minispec.show.signs import STATES

TRACE = by_hand([0, 1], ([5, 6], 1, 8), ([2, 3], 2, 4), ([], 0, 7))
TIMES = WorkTimes(target=1.0, draft=0.25, verify=1.5)
TURNS = [[0, 1], [0, None], [0, None], [2, 10], [None, 10]]
REFILLED = [[0, 1], [0, 10], [0, 10], [2, None]]


def told(spans):
    return [(span.work, span.start, span.end) for span in spans]


def test_spans_by_hand():
    """K draft steps, one pass, a catch-up after full acceptance; with no draft, a pass and a catch-up."""
    assert told(speculative_spans(TRACE, TIMES)) == [
        ("draft", 0, 0.25),
        ("draft", 0.25, 0.5),
        ("verify", 0.5, 2.0),
        ("draft", 2.0, 2.25),
        ("draft", 2.25, 2.5),
        ("verify", 2.5, 4.0),
        ("catch-up", 4.0, 4.25),
        ("verify", 4.25, 5.75),
        ("catch-up", 5.75, 6.0),
    ]
    yields = [span.yields for span in speculative_spans(TRACE, TIMES) if span.yields]
    assert yields == [
        ((5, "accepted"), (8, "correction")),
        ((2, "accepted"), (3, "accepted"), (4, "bonus")),
        ((7, "bonus"),),
    ]


def test_every_guess_of_a_round_stands_under_its_pass():
    """Also those rejected or never tested; a correction stands after the guess that it replaces."""
    rejected, kept, _ = (span for span in speculative_spans(TRACE, TIMES) if span.yields)
    assert rejected.judged == ((5, "accepted"), (6, "rejected"), (8, "correction"))
    assert kept.judged == kept.yields and kept.dropped == ()
    first = by_hand([0, 1], ([5, 6, 7], 0, 8))
    (span,) = (span for span in speculative_spans(first, TIMES) if span.yields)
    assert span.judged == ((5, "rejected"), (8, "correction"), (6, "untested"), (7, "untested"))
    (axes,) = timeline(first, WORDS).figure.axes
    drawn = [
        text.get_text() for text in axes.texts if text.get_text()[0] in "✗↳○" and len(text.get_text()) > 1
    ]
    assert [text[0] for text in drawn] == ["✗", "↳", "○", "○"]


def test_a_pass_has_a_colour_of_its_own():
    """The bar of a pass is no token, so no state has its colour."""
    assert WORKS["verify"].colour not in {state.colour for state in STATES.values()}


def test_alone_a_token_is_known_at_the_end_of_each_step():
    """The target's steps follow each other, a token each; beside them the rounds."""
    lines = [line.split() for line in timeline(TRACE, WORDS, WorkTimes(target=2.0)).twin.splitlines()[2:8]]
    assert [float(time) for time, _ in lines] == [2, 4, 6, 8, 10, 12]
    assert [word for _, word in lines] == ["six", "j", ".", "the", "⏎", "i"]


@pytest.mark.parametrize("row", [0, 1])
def test_every_token_of_a_run_comes_once(row):
    """In ragged runs of real models: all tokens in order, one pass per round, no gap between spans."""
    trace = tiny_run(prompts=[(3, 1, 4), (2, 2)], new=20, eos=(5,))
    assert not all(trace.rounds[-1].live)  # one row was done before the other
    spans = speculative_spans(trace, TIMES, prompt=row)
    assert [token for span in spans for token, _ in span.yields] == trace.tokens(row)
    assert sum(span.work == "verify" for span in spans) == sum(r.live[row] for r in trace.rounds)
    assert all(span.yields for span in spans if span.work == "verify")
    assert all(a.end == b.start for a, b in zip(spans, spans[1:], strict=False))


@pytest.mark.parametrize(
    ("times", "tokens"), [(None, 12), (None, 24), (WorkTimes(1, 0.4, 1.2), 1), (WorkTimes(1, 0.01, 1), 12)]
)
def test_the_figure_can_be_read(times, tokens):
    """Whole rounds within the number of tokens, one at least."""
    trace, words = shipped_run()
    picture = timeline(trace, words, times, tokens)
    readable(picture)
    count = int(picture.caption.split()[2])
    sums = [sum(len(r.emitted[0]) for r in trace.rounds[: n + 1]) for n in range(len(trace.rounds))]
    assert count == max([n for n in sums if n <= tokens], default=sums[0])
    assert picture.figure.get_figwidth() < 20


def test_the_caption_is_the_ratio():
    """6 serial steps of 1 against three passes, four draft steps and two catch-ups of 0.1: 6 / 3.6."""
    picture = timeline(TRACE, WORDS)
    assert picture.caption == (
        "The same 6 tokens take 6 target passes alone and 3 with a draft: 1.7 times as fast at these costs."
    )


def test_bad_numbers_are_refused():
    """A pass that takes no time ends in one clear line."""
    with pytest.raises(ValueError, match="above 0"):
        WorkTimes(target=0)


def tiles(picture, state=None):
    """Returns left edges and lengths in rounds, top row first: of hatched tiles, or of the others."""
    (axes,) = picture.figure.axes
    boxes = [box for box in axes.patches if isinstance(box, Rectangle) and box.get_height() > 0.4]
    chosen = [box for box in boxes if (box.get_hatch() == IDLE.hatch) == (state is IDLE)]
    left = min(box.get_x() for box in boxes)
    return [
        (round((box.get_x() - left) / ROUND), round(box.get_width() / ROUND))
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
