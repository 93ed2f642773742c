"""p and q token by token: sums that one can check by hand; candidates; the halves of the kill matrix."""

import pytest
import torch

from minispec.show.plots.drafts import candidates
from minispec.show.plots.overlap import shares

P = (3 / 6, 2 / 6, 1 / 6)
Q = (1 / 6, 1 / 6, 4 / 6)


def test_by_hand():
    """p = (3, 2, 1)/6 and q = (1, 1, 4)/6: kept (1, 1, 1)/6, residual (2, 1, 0)/3; equal ones have none."""
    ids, (p, q, kept, residual) = shares(torch.tensor(P), torch.tensor(Q))
    assert ids == [0, 1, 2] and (p.tolist(), q.tolist()) == (pytest.approx(P), pytest.approx(Q))
    assert kept.tolist() == pytest.approx([1 / 6] * 3)
    assert residual.tolist() == pytest.approx([2 / 3, 1 / 3, 0])
    _, (*_, kept, residual) = shares(torch.tensor(P), torch.tensor(P))
    assert residual.tolist() == [0, 0, 0] and kept.tolist() == pytest.approx(P)


def test_others_share_a_column():
    """Sums over p, q, kept and residual stay whole, and the drafted token has its column."""
    generator = torch.Generator().manual_seed(0)
    p, q = torch.rand(2, 40, dtype=torch.float64, generator=generator).pow(6)
    p, q = p / p.sum(), q / q.sum()
    rare = int(torch.maximum(p, q).argmin())
    ids, columns = shares(p, q, top=5, always=rare)
    assert ids[-1] == rare and len(ids) == 5 and columns.shape == (4, 6)
    assert columns.sum(1).tolist() == pytest.approx([1, 1, float(torch.minimum(p, q).sum()), 1])


@pytest.mark.parametrize(
    ("drawn", "top", "ids"),
    [(2, 3, [2, 4, 0]), (5, 3, [2, 4, 5]), (0, 9, [2, 4, 0, 3, 5]), (1, 9, [2, 4, 0, 3, 5, 1]), (3, 1, [3])],
)
def test_candidates_are_the_most_probable_and_the_drawn_one(drawn, top, ids):
    """Most probable first, ties by id; the drawn one takes the last place if it would be left out."""
    q = torch.tensor([0.1, 0.0, 0.4, 0.05, 0.4, 0.05])
    found = candidates(q, drawn, top)
    assert list(found) == ids and list(found.values()) == pytest.approx(q[ids].tolist())
