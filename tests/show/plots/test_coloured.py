"""Coloured text: every token once, with its state, as a figure and as HTML."""

import html
import re

import pytest
from figures import WORDS, by_hand, readable, shipped_run, tiny_run

from minispec.show.plots.coloured import coloured_html, coloured_text, marks
from minispec.show.plots.style import STATES

TRACE = by_hand([0, 1], ([5, 6, 7], 1, 8), ([2, 3], 2, 4), ([9, 10, 7], 3, 8, 2))


def test_marks_by_hand():
    """Prompt, accepted, correction, bonus; a cut block ends in an accepted token."""
    assert [(mark.token, mark.state, mark.round) for mark in marks(TRACE, WORDS)] == [
        (0, "prompt", -1),
        (1, "prompt", -1),
        (5, "draft", 0),
        (8, "correction", 0),
        (2, "draft", 1),
        (3, "draft", 1),
        (4, "bonus", 1),
        (9, "draft", 2),
        (10, "draft", 2),
    ]


def test_the_figure_by_hand():
    """The twin has every token behind its sign, blanks where the text has them, line ends shown."""
    picture = coloured_text(TRACE, WORDS)
    readable(picture)
    assert picture.twin == " a bb ✓six ✗j✓. ✓the★⏎ ✓k✓<end>"
    assert picture.caption == "7 tokens took 3 target calls: 5 of them the draft had guessed."


@pytest.mark.parametrize("row", [0, 1])
def test_html_spells_the_text_and_names_every_state(row):
    """Without tags and signs the HTML is the text; states and ids stand in the spans; prompt unmarked."""
    trace = tiny_run(prompts=[(3, 1, 4), (2, 2)], new=20)
    page = coloured_html(trace, WORDS, row)
    body = page.split("</div>")[0]
    spans = re.findall(r'data-state="(\w+)" data-token="(\d+)"[^>]*>(.)', body)
    assert [(state, int(token)) for state, token, _ in spans] == [
        (mark.state, mark.token) for mark in marks(trace, WORDS, row)
    ]
    assert all(first == STATES[state].glyph for state, _, first in spans if state != "prompt")
    plain = html.unescape(re.sub("<[^>]*>", "", body))
    plain = re.sub("[✓✗★]", "", plain)
    text = "".join(WORDS[token] for token in [*trace.prompts[row], *trace.tokens(row)])
    assert plain == text.replace("\n", "⏎").replace("⏹", "<end>")


def test_html_escapes_what_a_token_says():
    """A token that looks like markup is text."""
    words = ["<b>", '"&"', *WORDS[2:]]
    page = coloured_html(TRACE, words)
    assert "<b>" not in page and "&lt;b&gt;" in page and "&quot;&amp;&quot;" in page


def test_a_long_text_is_broken_inside_the_page():
    """The walkthrough of the shipped pair, and a narrow page: nothing reaches over the edge."""
    trace, words = shipped_run()
    for width in (13.0, 8.0):
        picture = coloured_text(trace, words, width=width)
        readable(picture)
        assert picture.figure.get_figwidth() == width
    assert coloured_text(trace, words, width=8.0).figure.get_figheight() > 1.4 * (
        coloured_text(trace, words).figure.get_figheight()
    )
