"""What a figure cannot show ends in one clear line."""

import pytest
from book.gallery import P
from figures import WORDS, by_hand, tiny_run
from tiny import gpt_pair

from minispec import ModelDrafter, SeededRng, Warp, record, verify_rejection
from minispec.drafters.tree import TreeDrafter
from minispec.evidence.bench.measurements import Latency
from minispec.rules.block import verify_block
from minispec.rules.tree import verify_tree_greedy
from minispec.show.plots.caches import cache_grid, cache_slots
from minispec.show.plots.distributions import sampled_shares
from minispec.show.plots.drafts import Found, draft_bars, draft_growth
from minispec.show.plots.learning import learning
from minispec.show.plots.overlap import overlap
from minispec.show.plots.speed import gain_by_k, latency
from minispec.show.plots.timeline import WorkTimes, row_slots, timeline
from minispec.show.plots.verification import drafted_tokens, positions_of, verification_strip
from minispec.train.training import Progress

TARGET, DRAFT = gpt_pair()


def traced(prompts, drafter=None, verifier=verify_rejection, warp=None):
    how = {"k": 3, "max_new_tokens": 12, "warp": warp or Warp(), "rng": SeededRng(0)}
    return record(TARGET, drafter or ModelDrafter(DRAFT), prompts, verifier=verifier, **how)


RUN = tiny_run(new=9)
HALF_DONE = traced([[1, 2, 3], [1] * 38])
LAST = len(HALF_DONE.rounds) - 1
TREE = traced([[1, 2]], TreeDrafter(DRAFT, (0, 0, 1)), verify_tree_greedy, Warp(0))
BLOCK = traced([[1, 2, 3]], verifier=verify_block)
EMPTY = by_hand([0], ([], 0, 1)).rounds[0]
UNMEASURED = [Progress("target", 10, 30, 4.0, 1.0)]
REFUSED = {
    "no round": (lambda: cache_slots(RUN, len(RUN.rounds), "before"), "there is no round"),
    "a negative round": (lambda: cache_slots(RUN, -1, "before"), "no round -1"),
    "no moment": (lambda: cache_slots(RUN, 0, "later"), "'later' is unknown"),
    "a row that was done": (lambda: cache_slots(HALF_DONE, LAST, "before", 1), "row 1 was done"),
    "tokens of a row that was done": (
        lambda: drafted_tokens(HALF_DONE.rounds[-1], WORDS, 1),
        "row 1 was done",
    ),
    "caches of a tree": (lambda: cache_grid(TREE, WORDS), "drafted a tree; this shows chains"),
    "time of a tree": (lambda: timeline(TREE, WORDS), "drafted a tree"),
    "draft of a tree": (lambda: draft_bars(TREE.rounds[0], WORDS), "drafted a tree"),
    "verdict on a tree": (lambda: verification_strip(TREE.rounds[0], WORDS), "drafted a tree"),
    "positions of a tree": (lambda: positions_of(TREE, WORDS), "looks past rejections"),
    "positions of a block": (lambda: positions_of(BLOCK, WORDS), "looks past rejections"),
    "nothing decoded": (lambda: timeline(traced([[1] * 40]), WORDS), "nothing was decoded"),
    "no time": (lambda: WorkTimes(target=0), "above 0"),
    "no time to verify": (lambda: WorkTimes(verify=0), "above 0"),
    "less than no time": (lambda: WorkTimes(draft=-0.1), "above 0"),
    "no draft": (lambda: draft_bars(EMPTY, WORDS), "drafted nothing"),
    "no word": (lambda: draft_growth([], 8), "at least one word"),
    "more than K": (lambda: draft_growth([Found("a", 1, 9, 0)], 8), "0 to 8"),
    "more right than drafted": (lambda: draft_growth([Found("a", 1, 2, 3)], 8), "0 to 8"),
    "less than none right": (lambda: draft_growth([Found("a", 1, 2, -1)], 8), "0 to 8"),
    "no run": (lambda: row_slots({}), "at least one run"),
    "no rounds": (lambda: row_slots({"a": [[1]], "b": []}), "at least one run"),
    "no rows": (lambda: row_slots({"a": [[]]}), "at least one run"),
    "no rule": (lambda: sampled_shares({}, P, "abc"), "at least one rule"),
    "other tokens": (lambda: sampled_shares({"Rule": (1, 2)}, P, "abc"), "3 counts"),
    "no draws": (lambda: sampled_shares({"Rule": (0, 0, 0)}, P, "abc"), "one draw"),
    "no distribution": (lambda: overlap([0.5, 0.2], [0.5, 0.5], "ab"), "sum to 1"),
    "other sizes": (lambda: overlap([0.5, 0.5], P, "abc"), "same tokens"),
    "nothing to compare with": (lambda: latency([Latency("m", 4, 1.0, 1.0, 1.0)]), "one token"),
    "no latency": (lambda: latency([]), "one token"),
    "no speed": (lambda: gain_by_k([], 0.1), "at least one point"),
    "no loss": (lambda: learning(UNMEASURED, [], 0.37), "no held-out loss"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_shown_is_refused(name):
    draw, says = REFUSED[name]
    with pytest.raises(ValueError, match=says):
        draw()
