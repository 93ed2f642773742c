"""What comes out of a rule: exactly, as two parts of a bar, and counted in samples, inside an envelope."""

import pytest
import torch
from book.gallery import P, Q, of_the_rule
from figures import readable

from minispec.core.rng import SeededRng
from minispec.core.verify import verify_greedy, verify_rejection
from minispec.evidence.proof.first_token import FirstToken, first_token, first_token_counts
from minispec.show.plots.distributions import (
    MUTANT,
    SHIPPED,
    distribution_histogram,
    envelope,
    rule_distribution,
)
from minispec.show.plots.style import DRAFTER

FROM_P = FirstToken((2 / 12, 2 / 12, 2 / 12), (3 / 12, 2 / 12, 1 / 12))


def test_bars_stand_on_each_other_and_the_line_is_the_target():
    """Kept parts start at 0, said parts on top; each line is as high as p; the guess is drawn beside."""
    picture = rule_distribution(FROM_P, P, "abc", guess=(0.25, 0.5, 0.25), q=Q, name="Rule 3")
    (axes,) = picture.figure.axes
    assert [bar.get_height() for bar in axes.patches[:3]] == pytest.approx(Q)
    assert {bar.get_hatch() for bar in axes.patches[:3]} == {DRAFTER.hatch}
    floors = [bar.get_y() for bar in axes.patches[3:]]
    heights = [bar.get_height() for bar in axes.patches[3:]]
    assert floors == pytest.approx([0, 0, 0, *FROM_P.kept])
    assert heights == pytest.approx([*FROM_P.kept, *FROM_P.said])
    (lines,) = axes.collections
    assert [segment[0][1] for segment in lines.get_segments()] == pytest.approx(P)
    assert [line.get_ydata()[0] for line in axes.lines if line.get_marker() == "D"] == [0.25, 0.5, 0.25]
    assert [text.get_text() for text in axes.get_legend().texts].count("your guess") == 1
    assert "your guess" in picture.twin and "draft, q" in picture.twin
    assert picture.title == "Rule 3 gives too little a, too much c"
    readable(picture)


def test_words_say_whether_the_distribution_is_right():
    """The caption tells the target's distribution from another, and how far off that is."""
    wrong = rule_distribution(FROM_P, P, "abc")
    assert "draft, q" not in wrong.twin
    right = rule_distribution(first_token(verify_rejection, P, Q), P, "abc")
    assert "0.08 away" in wrong.caption and "keeps 1/2" in wrong.caption
    assert "is the target's distribution" in right.caption
    assert "(5, 4, 3)/12" in wrong.alt and "(6, 4, 2)/12" in wrong.alt
    assert "your guess" not in wrong.twin
    assert right.title == "The rule gives p, and keeps 1/2 of the draft"
    assert rule_distribution(first_token(verify_greedy, P, Q), P, "abc").title == "The rule always gives a"
    readable(right)


def test_envelope_holds_its_promise():
    """Of 2,000 experiments with right code, at most 10% may leave an envelope with a false alarm of 10%.

    The expected number is 200 at most, by Hoeffding's bound far less; this test fails for right code with a
    probability of 1e-6 at most, and an envelope of half the width leaves more than 200 out.
    """
    samples, exact = 400, [0.5, 0.3, 0.2]
    draws = SeededRng(0).categorical(torch.tensor(exact).expand(2000 * samples, 3)).reshape(2000, samples)
    shares = torch.stack([(draws == token).double().mean(1) for token in range(3)], 1)

    def left(bounds):
        low, high = torch.tensor(bounds).T
        return int(((shares < low) | (shares > high)).any(1).sum())

    bounds = envelope(exact, samples, 0.1)
    assert left(bounds) <= 200
    assert left([((a + p) / 2, (b + p) / 2) for (a, b), p in zip(bounds, exact, strict=True)]) > 200


def test_shipped_code_is_inside_and_the_mutant_outside():
    """On {a, b, c} the rule stays inside; resampling from p gives (5, 4, 3)/12 and does not."""
    picture = next(of_the_rule())
    lines = picture.twin.splitlines()[1:]
    assert picture.title == "Right code stays inside the envelope, the mutant does not"
    assert ["outside" in line.split("mutant")[0] for line in lines] == [False] * 3
    assert ["outside" in line.split("mutant")[1] for line in lines] == [True, False, True]
    assert "0 of the shipped code's shares and 2 of the mutant's" in picture.alt
    (axes,) = picture.figure.axes
    shipped, mutant = (
        [line.get_ydata().tolist() for line in axes.lines if line.get_label() == look.word]
        for look in (SHIPPED, MUTANT)
    )
    assert shipped == [[count / 20_000 for count in first_token_counts(verify_rejection, P, Q, 20_000)]]
    assert mutant[0] == pytest.approx([5 / 12, 4 / 12, 3 / 12], abs=0.02)


def test_envelope_is_drawn_around_the_distribution():
    """Each grey bar spans the envelope of its outcome."""
    picture = distribution_histogram(P, [300, 200, 100], [250, 200, 150], "abc")
    (axes,) = picture.figure.axes
    spans = [(bar.get_y(), bar.get_y() + bar.get_height()) for bar in axes.patches]
    assert spans == [pytest.approx(bounds) for bounds in envelope(P, 600)]
