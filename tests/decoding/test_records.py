"""The records: they refuse what cannot be, and count what was tested, not what was drafted."""

import pytest
import torch

from minispec import CacheLengths, Draft, Round, Trace, Verdict


def round_of(index, tokens, lengths, accepted, token, emitted, live, finish, seconds=None):
    """Returns a round of two rows; only what statistics and kinds read is filled with care."""
    k = len(tokens[0])
    return Round(
        index=index,
        pending=torch.zeros(2, dtype=torch.long),
        draft=Draft(torch.tensor(tokens), torch.full((2, k, 8), 1 / 8), torch.tensor(lengths)),
        target_probs=torch.full((2, k + 1, 8), 1 / 8),
        target_logits=torch.zeros(2, k + 1, 8),
        verdict=Verdict(torch.tensor(accepted), torch.tensor(token)),
        emitted=emitted,
        live=live,
        finish=finish,
        target_cache=CacheLengths((2, 5), (6, 9), (4, 9)),
        draft_cache=None,
        seconds=seconds or {"draft": 0.5, "verify": 1.0, "rollback": 0.0, "other": 0.25},
    )


@pytest.fixture
def trace():
    """Three rounds of two rows, K = 3: a correction and a bonus; a bonus and an end inside; one row alone."""
    block = [[1, 2, 3], [4, 5, 6]]
    both, one = (True, True), (True, False)
    return Trace(
        ((0, 0, 0), (0,) * 6),
        {"k": 3},
        (
            # Row 0 keeps 1 of 3 and tests 2; row 1 keeps and tests 3.
            round_of(
                0, block, [3, 3], [1, 3], [7, 0], ((1, 7), (4, 5, 6, 0)), both, (None, None), {"prefill": 2.0}
            ),
            # Row 0 drafts 2, keeps and tests 2; row 1 keeps 3, and its second token ends it.
            round_of(1, block, [2, 3], [2, 3], [7, 0], ((1, 2, 7), (4, 5)), both, (None, "eos")),
            # Row 0 rejects its first of 3; row 1 is done, its numbers mean nothing.
            round_of(2, block, [3, 2], [0, 1], [7, 0], ((7,), ()), one, ("cap", "eos")),
        ),
    )


def test_acceptance_is_accepted_over_tested(trace):
    """By hand: kept 1 + 3 + 2 + 3 + 0 = 9; tested 2 + 3 + 2 + 3 + 1 = 11; drafted 3 + 3 + 2 + 3 + 3 = 14."""
    statistics = trace.statistics()
    assert (statistics.accepted, statistics.tested, statistics.drafted) == (9, 11, 14)
    assert statistics.acceptance == 9 / 11


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
    assert trace.prefill_seconds == 2.0


def test_kinds_say_what_the_last_token_is(trace):
    """Correction after a rejection, bonus after all of the row's own draft, draft where it was cut inside."""
    kinds = [[r.kind(row) for row in range(2) if r.live[row]] for r in trace.rounds]
    assert kinds == [["correction", "bonus"], ["bonus", "draft"], ["correction"]]


def test_tested_counts_the_rejected_token_and_no_row_that_is_done(trace):
    """Kept tokens and the rejected one were tested; a done row tests nothing."""
    assert [[r.tested(row) for row in range(2)] for r in trace.rounds] == [[2, 3], [2, 3], [1, 0]]


def test_a_run_without_drafts_has_no_acceptance():
    """With nothing drafted or no round at all, ratios are None, not a division by zero."""
    empty = Trace(((1,),), {}, ()).statistics()
    assert (empty.acceptance, empty.tokens_per_target_call, empty.target_calls) == (None, None, 0)
    only = round_of(0, [[], []], [0, 0], [0, 0], [3, 4], ((3,), (4,)), (True, True), (None, None))
    statistics = Trace(((1,), (2,)), {}, (only,)).statistics()
    assert (statistics.acceptance, statistics.tokens_per_target_call) == (None, 1.0)
    assert only.kind(0) == "bonus"


def test_lengths_are_k_by_default():
    """A draft that does not say how long its rows are means all of them."""
    draft = Draft(torch.zeros(2, 3, dtype=torch.long), torch.zeros(2, 3, 5))
    assert draft.lengths.tolist() == [3, 3]
    assert draft.k == 3


def test_an_empty_draft():
    """No tokens, no laws, lengths 0."""
    draft = Draft.empty(2, 5)
    assert (draft.k, draft.lengths.tolist(), tuple(draft.probs.shape)) == (0, [0, 0], (2, 0, 5))


@pytest.mark.parametrize(
    ("tokens", "probs", "lengths", "message"),
    [
        ((2, 3), (2, 2, 5), None, r"probs must be \[2, 3, V\], not \[2, 2, 5\]"),
        ((2, 3), (1, 3, 5), None, r"probs must be \[2, 3, V\], not \[1, 3, 5\]"),
        ((2, 3), (2, 3), None, r"probs must be \[2, 3, V\], not \[2, 3\]"),
        ((2, 3), (2, 3, 5), (3,), r"lengths must be \[2\], not \[3\]"),
        ((2, 3), (2, 3, 5), (2, 1), r"lengths must be \[2\], not \[2, 1\]"),
    ],
)
def test_a_draft_of_wrong_shapes_is_refused(tokens, probs, lengths, message):
    """Tokens, laws and lengths must fit together."""
    with pytest.raises(ValueError, match=message):
        Draft(
            torch.zeros(tokens, dtype=torch.long),
            torch.zeros(probs),
            None if lengths is None else torch.zeros(lengths, dtype=torch.long),
        )


@pytest.mark.parametrize(("accepted", "token"), [((2,), (3,)), ((2, 1), (2, 1)), ((), ())])
def test_a_verdict_of_wrong_shapes_is_refused(accepted, token):
    """Counts and tokens are both [B]."""
    with pytest.raises(ValueError, match=r"accepted and token must both be \[B\]"):
        Verdict(torch.zeros(accepted, dtype=torch.long), torch.zeros(token, dtype=torch.long))


def test_records_are_frozen(trace):
    """Nobody changes what happened."""
    for record, name in ((trace, "rounds"), (trace.rounds[0], "emitted"), (trace.rounds[0].draft, "tokens")):
        with pytest.raises(AttributeError):
            setattr(record, name, None)
