"""What comes out of a rule: exactly, as two parts of a bar, and counted in samples, inside an envelope."""

import pytest
import torch
from book.gallery import P, Q, of_the_rule
from figures import readable

from minispec.core.rng import SeededRng
from minispec.core.verify import verify_greedy, verify_rejection
from minispec.evidence.proof.first_token import FirstToken, first_token, first_token_counts
from minispec.show.plots.distributions import (
    envelope,
    rule_distribution,
    sampled_shares,
    verdict,
)
from minispec.show.signs import DRAFTER, TARGET

N = 10_000
COUNTS = {
    "Rule 1": (10_000, 0, 0),
    "Rule 2": (5_040, 3_310, 1_650),
    "Rule 3": (4_170, 3_330, 2_500),
    "Rule 4": (4_980, 3_350, 1_670),
}
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
    assert picture.title == "Rule 3 emits a too rarely, c too often"
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


def test_what_p_excludes_has_no_envelope():
    """A share of it is wrong however small; so is a share below 1 of what is certain."""
    assert envelope((1.0, 0.0), 10_000) == [(1, 1), (0, 0)]
    assert verdict((9_999, 1), (1.0, 0.0), "ab") == "b too often"
    assert verdict((10, 0), (1.0, 0.0), "ab") == "right"


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        (COUNTS["Rule 1"], "always a"),
        (COUNTS["Rule 2"], "right"),
        (COUNTS["Rule 3"], "c too often"),
        ((4_600, 3_500, 1_900), "a too rarely"),
        ((5_270, 3_100, 1_630), "right"),  # the envelope ends 0.0279 from p
        ((5_290, 3_100, 1_610), "a too often"),
    ],
)
def test_verdicts(counts, said):
    """The token that is farthest off decides, where one lies outside the envelope."""
    assert verdict(counts, P, "abc") == said


def test_the_figure():
    """A panel per rule: points are shares, the line is p, grey is the envelope, its title the verdict."""
    picture = sampled_shares(COUNTS, P, "abc")
    readable(picture)
    assert picture.title == "p comes out of Rule 2 and Rule 4, as 10,000 draws show"
    titles = [axes.get_title("left") for axes in picture.figure.axes]
    assert titles == ["Rule 1\n✗ always a", "Rule 2\n✓ right", "Rule 3\n✗ c too often", "Rule 4\n✓ right"]
    for axes, counts in zip(picture.figure.axes, COUNTS.values(), strict=True):
        (points,), (lines,) = axes.lines, axes.collections
        assert points.get_ydata().tolist() == pytest.approx([12 * count / N for count in counts])
        assert [segment[0][1] for segment in lines.get_segments()] == pytest.approx([12 * x for x in P])
        assert lines.get_color()[0][:3] == pytest.approx(
            [int(TARGET.colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        )
        spans = [(bar.get_y(), bar.get_y() + bar.get_height()) for bar in axes.patches]
        assert spans == [pytest.approx((12 * low, 12 * high)) for low, high in envelope(P, N)]
        assert axes.get_ylim()[0] < -0.5 and axes.get_ylim()[1] > 12.5  # no point lies on a label
        assert axes.get_ylim() == picture.figure.axes[0].get_ylim()
    lines = picture.twin.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("Rule 3"))
    assert lines[at].split() == ["Rule", "3", "5.00", "4.00", "3.00", "✗", "c", "too", "often"]
    low, high = envelope(P, N)[2]
    assert lines[at + 1].endswith(f"{12 * low:.2f} to {12 * high:.2f}")
    assert "Rule 1 always a, Rule 2 right, Rule 3 c too often, Rule 4 right" in picture.caption


def test_shipped_code_is_inside_and_the_mutant_outside():
    """On {a, b, c} the rule stays inside; resampling from p gives (5, 4, 3)/12 and does not."""
    picture = next(of_the_rule())
    assert picture.title == "p comes out of Rule 2 and Rule 4, as 20,000 draws show"
    mutant, shipped = (axes.lines[0].get_ydata() for axes in picture.figure.axes[2:])
    assert mutant == pytest.approx([5, 4, 3], abs=0.24)
    counts = first_token_counts(verify_rejection, P, Q, 20_000)
    assert shipped == pytest.approx([12 * n / 20_000 for n in counts])


@pytest.mark.parametrize("rules", [["Rule 3"], ["Rule 1", "Rule 2", "Rule 3"], ["Rule 1"]])
def test_other_numbers_of_rules_can_be_read(rules):
    """Panels that are left over are not drawn; with no right rule none is praised."""
    picture = sampled_shares({rule: COUNTS[rule] for rule in rules}, P, "abc")
    readable(picture)
    right = "Rule 2" if "Rule 2" in rules else "none"
    assert picture.title == f"p comes out of {right}, as 10,000 draws show"
    assert sum(axes.get_visible() for axes in picture.figure.axes) == len(rules)


@pytest.mark.parametrize("counts", [{}, {"Rule": (1, 2)}, {"Rule": (0, 0, 0)}])
def test_bad_counts_are_refused(counts):
    """No rule, other tokens than p has, or no draw: one clear line."""
    with pytest.raises(ValueError, match="at least one rule, and for each 3 counts"):
        sampled_shares(counts, P, "abc")
