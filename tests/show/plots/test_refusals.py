"""What a figure cannot show ends in one clear line."""

import pytest
from figures import DRAFT, WORDS, by_hand, tiny_recording, tiny_run
from gallery import P

from minispec import Warp
from minispec.drafters.tree import TreeDrafter
from minispec.evidence.bench.measurements import Latency
from minispec.show.plots.caches import cache_grid, cache_slots
from minispec.show.plots.distributions import sampled_shares
from minispec.show.plots.drafts import Found, draft_bars, draft_growth
from minispec.show.plots.learning import learning
from minispec.show.plots.overlap import overlap
from minispec.show.plots.speed import gain_by_k, latency
from minispec.show.plots.timeline import WorkTimes, row_slots, timeline
from minispec.show.plots.verification import drafted_tokens, positions_of, verification_strip
from minispec.show.stepper import steps
from minispec.train.training import Progress
from minispec.verifiers.block import verify_block
from minispec.verifiers.tree import verify_tree_greedy

RUN = tiny_run(max_new_tokens=9)
HALF_DONE = tiny_run([[1, 2, 3], [1] * 38], max_new_tokens=12)
LAST = len(HALF_DONE.rounds) - 1
BRANCHED = tiny_recording([[1, 2]], TreeDrafter(DRAFT, (0, 0, 1)), verifier=verify_tree_greedy, warp=Warp(0))
TREE = BRANCHED.trace
BLOCK = tiny_run([[1, 2, 3]], verifier=verify_block)
EMPTY = by_hand([0], ([], 0, 1)).rounds[0]
UNMEASURED = [Progress("target", 10, 30, 4.0, 1.0)]
REFUSED = [
    (lambda: cache_slots(RUN, len(RUN.rounds), "before"), "there is no round"),
    (lambda: cache_slots(RUN, -1, "before"), "no round -1"),
    (lambda: cache_slots(RUN, 0, "later"), "'later' is unknown"),
    (lambda: cache_slots(HALF_DONE, LAST, "before", 1), "row 1 was done"),
    (
        lambda: drafted_tokens(HALF_DONE.rounds[-1], WORDS, 1),
        "row 1 was done",
    ),
    (lambda: steps(BRANCHED, prompt=7), "no prompt 7"),
    (lambda: steps(BRANCHED, rounds=0), "at least 1"),
    (lambda: steps(BRANCHED), "shows chains alone"),
    (lambda: cache_grid(TREE, WORDS), "drafted a tree; this shows chains"),
    (lambda: timeline(TREE, WORDS), "drafted a tree"),
    (lambda: draft_bars(TREE.rounds[0], WORDS), "drafted a tree"),
    (lambda: verification_strip(TREE.rounds[0], WORDS), "drafted a tree"),
    (lambda: positions_of(TREE, WORDS), "looks past rejections"),
    (lambda: positions_of(BLOCK, WORDS), "looks past rejections"),
    (lambda: timeline(tiny_run([[1] * 40]), WORDS), "nothing was decoded"),
    (lambda: WorkTimes(target=0), "above 0"),
    (lambda: WorkTimes(verify=0), "above 0"),
    (lambda: WorkTimes(draft=-0.1), "above 0"),
    (lambda: draft_bars(EMPTY, WORDS), "drafted nothing"),
    (lambda: draft_growth([], 8), "at least one word"),
    (lambda: draft_growth([Found("a", 1, 9, 0)], 8), "0 to 8"),
    (lambda: draft_growth([Found("a", 1, 2, 3)], 8), "0 to 8"),
    (lambda: draft_growth([Found("a", 1, 2, -1)], 8), "0 to 8"),
    (lambda: row_slots({}), "at least one run"),
    (lambda: row_slots({"a": [[1]], "b": []}), "at least one run"),
    (lambda: row_slots({"a": [[]]}), "at least one run"),
    (lambda: sampled_shares({}, P, "abc"), "at least one rule"),
    (lambda: sampled_shares({"Rule": (1, 2)}, P, "abc"), "3 counts"),
    (lambda: sampled_shares({"Rule": (0, 0, 0)}, P, "abc"), "one draw"),
    (lambda: overlap([0.5, 0.2], [0.5, 0.5], "ab"), "sum to 1"),
    (lambda: overlap([0.5, 0.5], P, "abc"), "same tokens"),
    (lambda: latency([Latency("m", 4, 1.0, 1.0, 1.0)]), "one token"),
    (lambda: latency([]), "one token"),
    (lambda: gain_by_k([], 0.1), "at least one point"),
    (lambda: learning(UNMEASURED, [], 0.37), "no held-out loss"),
]


@pytest.mark.parametrize(("draw", "says"), REFUSED)
def test_what_cannot_be_shown_is_refused(draw, says):
    with pytest.raises(ValueError, match=says):
        draw()
