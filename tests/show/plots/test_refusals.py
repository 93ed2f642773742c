"""What a figure cannot show ends in one clear line."""

import pytest
from figures import DRAFT, WORDS, by_hand, tiny_recording, tiny_run

from minispec import Warp
from minispec.drafters.tree import TreeDrafter
from minispec.evidence.bench.measurements import Latency
from minispec.show.plots.caches import cache_grid, cache_slots
from minispec.show.plots.distributions import sampled_shares
from minispec.show.plots.drafts import Found, draft_bars, draft_growth
from minispec.show.plots.learning import learning
from minispec.show.plots.overlap import overlap
from minispec.show.plots.pictures import draw_round
from minispec.show.plots.speed import gain_by_k, latency
from minispec.show.plots.timeline import WorkTimes, row_slots, timeline
from minispec.show.plots.verification import drafted_tokens, positions_of, verification_strip
from minispec.show.stepper import steps
from minispec.verifiers.block import verify_block
from minispec.verifiers.tree import verify_tree_greedy


def test_what_cannot_be_shown_is_refused():
    """The line names the thing: a round or a row that is not there, a tree, nothing to draw."""
    run = tiny_run(max_new_tokens=9)
    half_done = tiny_run([[1, 2, 3], [1] * 38], max_new_tokens=12)
    last = len(half_done.rounds) - 1
    how = {"verifier": verify_tree_greedy, "warp": Warp(0)}
    branched = tiny_recording([[1, 2]], TreeDrafter(DRAFT, (0, 0, 1)), **how)
    tree = branched.trace
    refused = [
        ("round", cache_slots, run, len(run.rounds), "before"),
        ("round", cache_slots, run, -1, "before"),
        ("later", cache_slots, run, 0, "later"),
        ("row 1", cache_slots, half_done, last, "before", 1),
        ("row 1", drafted_tokens, half_done.rounds[-1], WORDS, 1),
        ("prompt 7", steps, branched, 7),
        ("chains", steps, branched),
        *(("tree", draw, tree, WORDS) for draw in (cache_grid, timeline)),
        *(("tree", draw, tree.rounds[0], WORDS) for draw in (draft_bars, verification_strip)),
        *(("past", positions_of, of, WORDS) for of in (tree, tiny_run([[1, 2, 3]], verifier=verify_block))),
        ("greedy", draw_round, tiny_recording()),
        ("nothing", timeline, tiny_run([[1] * 40]), WORDS),
        ("above 0", WorkTimes, 0),
        ("nothing", draft_bars, by_hand([0], ([], 0, 1)).rounds[0], WORDS),
        ("word", draft_growth, [], 8),
        *(("0 to 8", draft_growth, [Found("a", 1, *wrong)], 8) for wrong in ((9, 0), (2, 3), (2, -1))),
        *(("run", row_slots, runs) for runs in ({}, {"a": [[1]], "b": []}, {"a": [[]]})),
        ("rule", sampled_shares, {}, (0.5, 0.5), "ab"),
        ("counts", sampled_shares, {"Rule": (1, 2, 3)}, (0.5, 0.5), "ab"),
        ("draw", sampled_shares, {"Rule": (0, 0)}, (0.5, 0.5), "ab"),
        ("sum", overlap, [0.5, 0.2], [0.5, 0.5], "ab"),
        ("token", latency, [Latency("m", 4, 1.0, 1.0, 1.0)]),
        ("point", gain_by_k, [], 0.1),
        ("loss", learning, [], [], 0.37),
    ]
    for names, draw, *given in refused:
        with pytest.raises(ValueError, match=rf"^[^\n]*{names}[^\n]*$"):
            draw(*given)
