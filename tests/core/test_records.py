"""The records: they refuse what cannot be, and say of each row what became of its draft."""

from dataclasses import replace

import pytest
import torch
from records import block_trace
from refusals import refused

from minispec import Draft, Verdict


@pytest.fixture
def rounds():
    """Three rounds of two rows, as `block_trace` lays them out."""
    return block_trace().rounds


def test_kinds_say_what_the_last_token_is(rounds):
    """Correction after a rejection, bonus after all of the row's own draft, draft where it was cut inside."""
    kinds = [[r.kind(row) for row in range(2) if r.live[row]] for r in rounds]
    assert kinds == [["correction", "bonus"], ["bonus", "draft"], ["correction"]]


def test_tested_counts_the_rejected_token_and_no_row_that_is_done(rounds):
    """Kept tokens and the rejected one were tested; a done row tests nothing."""
    assert [[r.tested(row) for row in range(2)] for r in rounds] == [[2, 3], [2, 3], [1, 0]]


def test_a_rule_that_goes_on_after_a_rejection_has_no_tested_count(rounds):
    """There the positions after a rejection count too, or not: no number would be right."""
    assert replace(rounds[0], stops_at_first_rejection=False).tested(0) is None


def test_lengths_are_k_by_default():
    """A draft that does not say how long its rows are means all of them; an empty one has none."""
    draft = Draft(torch.zeros(2, 3, dtype=torch.long), torch.ones(2, 3, 5) / 5)
    assert (draft.k, draft.lengths.tolist()) == (3, [3, 3])
    empty = Draft.empty(2, 5)
    assert (empty.k, empty.lengths.tolist(), empty.probs.shape) == (0, [0, 0], (2, 0, 5))


@pytest.mark.parametrize(("accepted", "token"), [((2,), (3,)), ((2, 1), (2, 1)), ((), ())])
def test_a_verdict_of_wrong_shapes_is_refused(accepted, token):
    """Counts and tokens are both [B]."""
    with refused(r"accepted and token must both be \[B\]"):
        Verdict(torch.zeros(accepted, dtype=torch.long), torch.zeros(token, dtype=torch.long))


def test_records_are_frozen(rounds):
    """Nobody changes what happened."""
    for record, name in ((rounds[0], "emitted"), (rounds[0].draft, "tokens"), (rounds[0].verdict, "token")):
        with pytest.raises(AttributeError):
            setattr(record, name, None)
