"""The law that a rule emits: two parts of a bar, and the target's law across."""

import sys
from pathlib import Path

import pytest

from minispec.core.verify import verify_rejection
from minispec.evidence.proof.first_token import FirstToken, first_token
from minispec.show.plots.rule_distribution import rule_law

sys.path.insert(0, str(Path(__file__).parents[2]))
from figures import readable  # noqa: E402

P, Q = (3 / 6, 2 / 6, 1 / 6), (1 / 6, 1 / 6, 4 / 6)
FROM_P = FirstToken((2 / 12, 2 / 12, 2 / 12), (3 / 12, 2 / 12, 1 / 12))


def test_bars_stand_on_each_other_and_the_line_is_the_target():
    """Kept parts start at 0, said parts on top; each line is as high as p; the guess is drawn beside."""
    picture = rule_law(FROM_P, P, "abc", guess=(0.25, 0.5, 0.25))
    (axes,) = picture.figure.axes
    floors = [bar.get_y() for bar in axes.patches]
    heights = [bar.get_height() for bar in axes.patches]
    assert floors == pytest.approx([0, 0, 0, *FROM_P.kept])
    assert heights == pytest.approx([*FROM_P.kept, *FROM_P.said])
    (lines,) = axes.collections
    assert [segment[0][1] for segment in lines.get_segments()] == pytest.approx(P)
    assert [line.get_ydata()[0] for line in axes.lines if line.get_marker() == "D"] == [0.25, 0.5, 0.25]
    assert "your guess" in picture.twin
    readable(picture)


def test_words_say_whether_the_law_is_right():
    """The caption tells the target's law from another, and how far off that is."""
    wrong, right = rule_law(FROM_P, P, "abc"), rule_law(first_token(verify_rejection, P, Q), P, "abc")
    assert "0.08 away" in wrong.caption and "keeps 1/2" in wrong.caption
    assert "is the target's law" in right.caption
    assert "(5, 4, 3)/12" in wrong.alt and "(6, 4, 2)/12" in wrong.alt
    assert "your guess" not in wrong.twin
    readable(right)


def test_what_does_not_fit():
    """Labels for other tokens are refused."""
    with pytest.raises(ValueError, match="same tokens"):
        rule_law(FROM_P, P, "ab")
