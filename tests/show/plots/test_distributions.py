"""What counted samples show: shares inside an envelope, and the verdict on a rule."""

import pytest
import torch

from minispec.core.rng import SeededRng
from minispec.show.plots.distributions import envelope, verdict

P = (3 / 6, 2 / 6, 1 / 6)


def test_envelope_holds_its_promise():
    """Of 2,000 experiments with right code, at most 10% may leave an envelope with a false alarm of 10%.

    The expected number is 200 at most, by Hoeffding's bound far less; this test fails for right code with a
    probability of 1e-6 at most, and an envelope of half the width leaves more than 200 out.
    """
    samples = 400
    exact = [0.5, 0.3, 0.2]
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
        ((10_000, 0, 0), "always a"),
        ((5_040, 3_310, 1_650), "right"),
        ((4_170, 3_330, 2_500), "c too often"),
        ((4_600, 3_500, 1_900), "a too rarely"),
        ((5_270, 3_100, 1_630), "right"),  # the envelope ends 0.0279 from p
        ((5_290, 3_100, 1_610), "a too often"),
    ],
)
def test_verdicts(counts, said):
    """The token that is farthest off decides, where one lies outside the envelope."""
    assert verdict(counts, P, "abc") == said
