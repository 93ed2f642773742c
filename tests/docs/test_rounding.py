"""What one forward and many amount to: the measure on distributions known by hand, and the record."""

from math import log

import pytest
import torch
from book.rounding import TYPES, Rounding, measure, of_pair, recorded

from minispec.evidence.proof.models import TableModel


class Apart(TableModel):
    """Two tokens: a forward over one gives (1/2, 1/2), a forward over several (3/4, 1/4)."""

    def head(self, hidden):
        first = torch.tensor([log(3) if hidden.shape[1] > 1 else 0.0, 0.0], dtype=torch.float64)
        return super().head(hidden) + first


def test_distances_that_can_be_worked_out_by_hand():
    """A token: |3/4 − 1/2|. Two tokens: 9/16, 3/16, 3/16, 1/16 against 1/4 each."""
    found = measure(Apart(torch.zeros(6, 2)), [[0, 1]] * 4_000, tokens=2)
    assert found.logit == pytest.approx(log(3))
    assert found.token == pytest.approx(1 / 4)
    # Estimated from 4,000 texts, with a standard error of (1/4 … 3/4) / √4000: five of them are 0.03.
    assert found.text == pytest.approx(5 / 16, abs=0.03)


def test_a_model_that_computes_alike_has_no_distance():
    """The same table, whatever is read beside it."""
    assert measure(TableModel(torch.zeros(6, 2)), [[0, 1]], tokens=3) == Rounding(0.0, 0.0, 0.0)


def test_the_record_is_of_the_shipped_pair():
    """Measured again on a few short texts: the same order of magnitude, whatever the processor."""
    again = of_pair(texts=8, tokens=32)
    types = recorded()["types"]
    assert set(types) == set(TYPES) == set(again)
    for name in ("float32", "bfloat16"):
        assert types[name]["logit"] / 30 < again[name].logit < types[name]["logit"] * 30
        assert types[name]["token"] / 30 < again[name].token < types[name]["token"] * 30
        assert types[name]["token"] < types[name]["text"] < types[name]["token"] * recorded()["tokens"]
    assert again["float64"].token < 1e-12 and types["float64"]["text"] < 1e-12
