"""Sampled first tokens of rules: bars are shares, and each panel's verdict follows from the counts."""

from math import inf, sqrt

import pytest
from figures import readable

from minispec.show.plots.first_tokens import first_tokens, standard_errors, verdict
from minispec.show.plots.style import TARGET

P = (3 / 6, 2 / 6, 1 / 6)
N = 10_000
COUNTS = {
    "Rule 1": (10_000, 0, 0),
    "Rule 2": (5_040, 3_310, 1_650),
    "Rule 3": (4_170, 3_330, 2_500),
    "Rule 4": (4_980, 3_350, 1_670),
}


def test_standard_errors_by_hand():
    """Of 10,000 fair coins the share has a standard error of 0.005; what p excludes is infinitely far."""
    assert standard_errors((5_100, 4_900), (0.5, 0.5)) == pytest.approx([2, -2])
    assert standard_errors((9_999, 1), (1.0, 0.0)) == [-inf, inf]
    assert standard_errors((10, 0), (1.0, 0.0)) == [0, 0]


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        (COUNTS["Rule 1"], "always a"),
        (COUNTS["Rule 2"], "right"),
        (COUNTS["Rule 3"], "too much c"),
        ((4_600, 3_500, 1_900), "too little a"),
        ((5_190, 3_200, 1_610), "right"),  # 3.8 standard errors
        ((5_210, 3_200, 1_590), "too much a"),  # 4.2 standard errors
    ],
)
def test_verdicts(counts, said):
    """The token that is farthest off decides, from four standard errors on."""
    assert verdict(counts, P, "abc") == said


def test_the_figure():
    """A panel per rule: bars are shares, the line is p, its title has the verdict and how far off that is."""
    picture = first_tokens(COUNTS, P, "abc")
    readable(picture)
    assert picture.title == "2 of 4 rules give p, as 10,000 draws show"
    far = (2_500 / N - P[2]) / sqrt(P[2] * (1 - P[2]) / N)
    titles = [axes.get_title("left") for axes in picture.figure.axes]
    assert titles[0] == "Rule 1: always a\n100 standard errors"
    assert titles[2] == f"Rule 3: too much c\n{far:.0f} standard errors"
    for axes, counts in zip(picture.figure.axes, COUNTS.values(), strict=True):
        assert [bar.get_height() for bar in axes.patches] == [count / N for count in counts]
        (lines,) = axes.collections
        assert [segment[0][1] for segment in lines.get_segments()] == pytest.approx(P)
        assert lines.get_color()[0][:3] == pytest.approx(
            [int(TARGET.colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        )
        assert axes.get_ylim() == picture.figure.axes[0].get_ylim()
    line = next(line for line in picture.twin.splitlines() if line.startswith("Rule 3"))
    assert line.split() == [
        "Rule",
        "3",
        "0.4170",
        "0.3330",
        "0.2500",
        "too",
        "much",
        "c",
        f"{far:.0f}",
        "standard",
        "errors",
    ]
    assert "Rule 1 always a, Rule 2 right, Rule 3 too much c, Rule 4 right" in picture.caption


@pytest.mark.parametrize("rules", [["Rule 3"], ["Rule 1", "Rule 2", "Rule 3"], ["Rule 1"]])
def test_other_numbers_of_rules_can_be_read(rules):
    """Panels that are left over are not drawn; with no right rule none is praised."""
    picture = first_tokens({rule: COUNTS[rule] for rule in rules}, P, "abc")
    readable(picture)
    right = len({"Rule 2"} & set(rules))
    assert picture.title.startswith(f"{right} of {len(rules)} rules give p, ")
    assert sum(axes.get_visible() for axes in picture.figure.axes) == len(rules)
    assert ("what is right" in picture.caption) == ("Rule 2" in rules)


def test_a_token_that_p_excludes():
    """It is told without an infinity."""
    picture = first_tokens({"Rule": (9, 1)}, (1.0, 0.0), "ab")
    readable(picture)
    assert "too much b" in picture.twin and "inf" not in picture.twin + picture.alt + picture.caption


@pytest.mark.parametrize("counts", [{}, {"Rule": (1, 2)}, {"Rule": (0, 0, 0)}])
def test_bad_counts_are_refused(counts):
    """No rule, other tokens than p has, or no draw: one clear line."""
    with pytest.raises(ValueError, match="at least one rule, and for each 3 counts"):
        first_tokens(counts, P, "abc")
