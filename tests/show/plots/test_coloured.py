"""Coloured text: every token once, with its state."""

from dataclasses import replace

from figures import WORDS, by_hand, readable, shipped_run

from minispec.show.plots.coloured import coloured_text, marked_tokens

TRACE = by_hand([0, 1], ([5, 6, 7], 1, 8), ([2, 3], 2, 4), ([9, 10, 7], 3, 8, 2))


def test_marks_by_hand():
    """Prompt, accepted, rejected before its correction, bonus; a cut block ends in an accepted token."""
    assert marked_tokens(TRACE, WORDS) == [
        (" a", "prompt"),
        (" bb", "prompt"),
        (" six", "accepted"),
        (" h", "rejected"),
        (" j", "correction"),
        (".", "accepted"),
        (" the", "accepted"),
        ("\n", "bonus"),
        (" k", "accepted"),
        ("⏹", "accepted"),
    ]


def test_the_figure_by_hand():
    """The twin has every token after its sign, blanks where the text has them, line ends shown."""
    picture = coloured_text(TRACE, WORDS)
    readable(picture)
    assert picture.title == "The draft guessed 5 of 7 tokens"
    assert picture.twin == f"{picture.title}\n a bb ✓six ✗h ↳j✓. ✓the★⏎ ✓k✓<end>"
    assert picture.caption == "7 tokens took 3 target calls: 5 of them the draft had guessed."


def test_a_long_text_is_broken_inside_the_page():
    """The shipped pair's walkthrough, and one whose prompt is nine times as long: nothing is cut."""
    trace, words = shipped_run()
    pictures = [coloured_text(replace(trace, prompts=(trace.prompts[0] * n,)), words) for n in (1, 9)]
    for picture in pictures:
        readable(picture)
    assert pictures[1].figure.get_figheight() > 1.4 * pictures[0].figure.get_figheight()
