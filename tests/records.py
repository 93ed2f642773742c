"""Rounds and a trace made by hand, for tests of what is counted."""

import torch

from minispec import CacheLengths, Draft, Round, Trace, Verdict
from minispec.io.trace import ObservedRound


def round_of(index, tokens, lengths, accepted, token, emitted, live, finish, seconds=None, **more):
    """Returns a round of two rows; only what statistics and kinds read is filled with care."""
    k = len(tokens[0])
    return ObservedRound(
        index=index,
        prompt_ids=(0, 1),
        pending=torch.zeros(2, dtype=torch.long),
        draft=Draft(
            torch.tensor(tokens, dtype=torch.long), torch.full((2, k, 8), 1 / 8), torch.tensor(lengths)
        ),
        target_hidden=torch.zeros(2, k + 1, 0),
        target_probs=torch.full((2, k + 1, 8), 1 / 8),
        target_logits=torch.zeros(2, k + 1, 8),
        verdict=Verdict(torch.tensor(accepted), torch.tensor(token)),
        emitted=emitted,
        live=live,
        finish=finish,
        lengths=(4, 9),
        target_cache=CacheLengths((2, 5), (6, 9), (4, 9)),
        draft_cache=None,
        seconds=seconds or {"draft": 0.5, "verify": 1.0, "rollback": 0.0, "other": 0.25},
        **{"stops_at_first_rejection": True} | more,
    )


def a_round(emitted, finish=None, draft=None, accepted=0):
    """Returns a round of rows that have emitted these tokens, as far as a drafter that learns reads it."""
    rows = len(emitted)
    none = torch.zeros(rows, dtype=torch.long)
    parts = none, draft or Draft.empty(rows, 64), none, none, none, Verdict(none + accepted, none)
    live = (True,) * rows
    return Round(0, tuple(range(rows)), *parts, True, live, emitted, finish or (None,) * rows, (0,) * rows)


def block_trace():
    """Returns three rounds, K = 3: a correction and a bonus; a bonus and an end inside; one row alone."""
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
