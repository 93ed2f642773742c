"""Two distributions over each other: sums that one can check by hand."""

from fractions import Fraction

import pytest
import torch
from figures import readable, shipped_run

from minispec.show.plots.overlap import overlap, shares
from minispec.show.signs import STATES

P, Q = [3 / 6, 2 / 6, 1 / 6], [1 / 6, 1 / 6, 4 / 6]


def test_by_hand():
    """p = (3, 2, 1)/6 and q = (1, 1, 4)/6: kept (1, 1, 1)/6, residual (2, 1, 0)/3."""
    columns = shares(torch.tensor(P), torch.tensor(Q), "abc")
    assert [(c.token, c.label) for c in columns] == [(0, "a"), (1, "b"), (2, "c")]
    assert [c.kept for c in columns] == pytest.approx([1 / 6] * 3)
    assert [c.residual for c in columns] == pytest.approx([2 / 3, 1 / 3, 0])


def test_others_share_a_column():
    """Sums over p, q, kept and residual stay whole, and the drafted token has its column."""
    generator = torch.Generator().manual_seed(0)
    p, q = torch.rand(2, 40, dtype=torch.float64, generator=generator).pow(6)
    p, q = p / p.sum(), q / q.sum()
    rare = int(torch.maximum(p, q).argmin())
    columns = shares(p, q, [f" w{i}" for i in range(40)], top=5, always=rare)
    assert columns[-1].token is None and columns[-2].token == rare and len(columns) == 6
    for name, whole in (("p", 1), ("q", 1), ("kept", torch.minimum(p, q).sum()), ("residual", 1)):
        assert sum(getattr(c, name) for c in columns) == pytest.approx(float(whole))


def test_equal_distributions_have_no_residual():
    """Where p = q nothing is rejected, and the residual is empty."""
    columns = shares(torch.tensor(P), torch.tensor(P), "abc")
    assert [c.residual for c in columns] == [0, 0, 0] and [c.kept for c in columns] == pytest.approx(P)
    picture = overlap(P, P, "abc")
    readable(picture)
    assert "1.00" in picture.caption


def test_bars_are_stacked_to_the_larger_probability():
    """Each token's pieces are kept, then what p or q exceeds it by; their tops are max(p, q)."""
    picture = overlap(P, Q, "abc", drawn=2, number=0.6)
    readable(picture)
    keys = [text.get_text() for text in picture.figure.legends[0].texts]
    signs = [STATES[state].glyph for state in ("accepted", "rejected", "correction")]
    assert [key.split()[:2] for key in keys[:3]] == [
        list(pair) for pair in zip(signs, ("kept:", "rejected:", "missing:"), strict=True)
    ]
    assert picture.title == 'A rejected "c" is never the correction: its residual is 0'
    assert overlap(P, Q, "abc").title == 'The draft proposes "c" too often'
    assert overlap(P, Q, "abc", drawn=0).title == 'A drafted "a" is always kept: p is not below q'
    assert keys[3:5] == ["target, p", "draft, q"]
    tops = [0.0] * 3
    for bars in picture.figure.axes[0].containers:
        for i, bar in enumerate(bars):
            tops[i] = max(tops[i], bar.get_y() + bar.get_height())
    assert tops == pytest.approx([3 / 6, 2 / 6, 4 / 6])
    (diamond,) = (line for line in picture.figure.axes[0].lines if line.get_marker() == "D")
    assert diamond.get_xydata().tolist() == [pytest.approx([2, 0.6 * 4 / 6])]


@pytest.mark.parametrize(
    ("number", "said"),
    [(None, "= 0.25."), (0.2, "0.20, so it is accepted."), (0.3, "0.30, so it is rejected.")],
)
def test_the_caption_judges_the_number(number, said):
    """p/q of c is 1/4: a number under it accepts."""
    assert Fraction(1, 6) / Fraction(4, 6) == Fraction(1, 4)
    picture = overlap(P, Q, "abc", drawn=2, number=number)
    readable(picture)
    assert picture.caption.endswith(said)


def test_real_distributions_can_be_read():
    """p and q of every drafted token in a round of the shipped pair."""
    trace, words = shipped_run(1.0)
    r = trace.rounds[0]
    for i in range(r.drafted(0)):
        token = int(r.draft.tokens[0, i])
        readable(overlap(r.target_probs[0, i], r.draft.probs[0, i], words, token))


def test_what_is_no_distribution_is_refused():
    """Probabilities that do not sum to 1, or other sizes, end in one clear line."""
    with pytest.raises(ValueError, match="sum to 1"):
        overlap([0.5, 0.2], [0.5, 0.5], "ab")
    with pytest.raises(ValueError, match="same tokens"):
        overlap([0.5, 0.5], P, "abc")
