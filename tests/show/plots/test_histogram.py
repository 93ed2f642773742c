"""The law histogram: right code stays inside the envelope, a mutant does not."""

import pytest
import torch
from book.gallery_numbers import P, Q, laws

from minispec.core.rng import SeededRng
from minispec.core.verify import verify_rejection
from minispec.evidence.proof.first_token import first_token_counts
from minispec.show.plots.histogram import envelope, law_histogram


def test_envelope_holds_its_promise():
    """Of 2,000 experiments with right code, at most 10% may leave an envelope with a false alarm of 10%.

    The expected number is 200 at most, by Hoeffding's bound far less; this test fails for right code with a
    chance of 1e-6 at most, and an envelope of half the width leaves more than 200 out.
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
    picture = laws()
    lines = picture.twin.splitlines()
    assert ["outside" in line.split("mutant")[0] for line in lines] == [False] * 3
    assert ["outside" in line.split("mutant")[1] for line in lines] == [True, False, True]
    assert "none of the shipped code's shares and 2 of the mutant's" in picture.alt
    (axes,) = picture.figure.axes
    shipped, mutant = (
        [line.get_ydata().tolist() for line in axes.lines if glyph in str(line.get_label())] for glyph in "✓✗"
    )
    assert shipped == [[count / 20_000 for count in first_token_counts(verify_rejection, P, Q, 20_000)]]
    assert mutant[0] == pytest.approx([5 / 12, 4 / 12, 3 / 12], abs=0.02)


def test_envelope_is_drawn_around_the_law():
    """Each grey bar spans the envelope of its outcome; the guess stands beside."""
    picture = law_histogram(P, [300, 200, 100], [250, 200, 150], "abc", guess=(0.4, 0.3, 0.3))
    (axes,) = picture.figure.axes
    spans = [(bar.get_y(), bar.get_y() + bar.get_height()) for bar in axes.patches]
    assert spans == [pytest.approx(bounds) for bounds in envelope(P, 600)]
    assert [line.get_ydata().tolist() for line in axes.lines if line.get_marker() == "D"] == [
        [0.4],
        [0.3],
        [0.3],
    ]
    assert [text.get_text() for text in axes.get_legend().texts].count("your guess") == 1


@pytest.mark.parametrize(
    ("exact", "counts", "words"),
    [(P, [1, 2], "one entry"), ((0.5, 0.5, 0.5), [1, 2, 3], "sum to 1"), (P, [0, 0, 0], "samples")],
)
def test_what_does_not_fit(exact, counts, words):
    """Lists of different lengths, no law, no samples."""
    with pytest.raises(ValueError, match=words):
        law_histogram(exact, counts, counts, "abc")
