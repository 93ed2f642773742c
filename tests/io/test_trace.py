"""Traces: what is counted of a run: what was tested, not what was drafted."""

import pytest
from records import block_trace, round_of

from minispec import Trace


@pytest.fixture
def trace():
    """Three rounds of two rows, as `block_trace` lays them out."""
    return block_trace()


def test_acceptance_is_accepted_over_tested(trace):
    """By hand: kept 1 + 3 + 2 + 3 + 0 = 9; tested 2 + 3 + 2 + 3 + 1 = 11; drafted 3 + 3 + 2 + 3 + 3 = 14."""
    statistics = trace.statistics()
    assert (statistics.accepted, statistics.tested, statistics.drafted) == (9, 11, 14)
    assert statistics.acceptance == 9 / 11
    assert statistics.accepted_over_drafted == 9 / 14
    assert statistics.mean_acceptance_length == 1 + 9 / 5


def test_tokens_and_calls_are_counted(trace):
    """12 tokens in 3 target calls, 5 counted per live row; seconds add up by phase."""
    statistics = trace.statistics()
    assert (statistics.emitted, statistics.target_calls, statistics.row_rounds) == (12, 3, 5)
    assert statistics.tokens_per_target_call == 12 / 5
    assert statistics.seconds == {"prefill": 2.0, "draft": 1.0, "verify": 2.0, "rollback": 0.0, "other": 0.5}


def test_a_trace_answers_row_by_row(trace):
    """Tokens without the prompt, the finish, and what was read before the first round."""
    assert trace.tokens() == [1, 7, 1, 2, 7, 7]
    assert trace.tokens(1) == [4, 5, 6, 0, 4, 5]
    assert (trace.finish(), trace.finish(1)) == ("cap", "eos")
    assert trace.prefill_lengths == (2, 5)


def test_a_run_without_drafts_has_no_acceptance():
    """With nothing drafted or no round at all, ratios are None, not a division by zero."""
    empty = Trace(((1,),), {}, ()).statistics()
    assert (empty.acceptance, empty.tokens_per_target_call, empty.target_calls) == (None, None, 0)
    assert (empty.accepted_over_drafted, empty.mean_acceptance_length) == (None, None)
    only = round_of(0, [[], []], [0, 0], [0, 0], [3, 4], ((3,), (4,)), (True, True), (None, None))
    statistics = Trace(((1,), (2,)), {}, (only,)).statistics()
    assert (statistics.acceptance, statistics.tokens_per_target_call) == (None, 1.0)
    assert (statistics.accepted_over_drafted, statistics.mean_acceptance_length) == (None, 1.0)
    assert only.kind(0) == "bonus"
