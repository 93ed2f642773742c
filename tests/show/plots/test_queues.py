"""Figures of a queue: they show of a prompt what they show of a run of it alone."""

from functools import partial

import pytest
from figures import DRAFT, tiny_run

from minispec import Warp, train_tokenizer, verify_greedy
from minispec.drafters.tree import TreeDrafter
from minispec.rules.block import verify_block
from minispec.rules.tree import verify_tree
from minispec.show.plots.caches import cache_grid, cache_slots
from minispec.show.plots.coloured import coloured_text, marked_tokens
from minispec.show.plots.timeline import WorkTimes, speculative_spans, timeline
from minispec.show.plots.verification import drafted_tokens, positions_of
from minispec.show.text import PLAIN, marked

WORDS = tuple("abcdefghijk")
QUEUE = [[1, 2, 3], [4], [5, 5], [9, 2, 6]]
TOKENIZER = train_tokenizer([], "characters")
traced = partial(tiny_run, verifier=verify_greedy, max_new_tokens=12, warp=Warp(0), eos=6)


def shown_of(trace, prompt):
    """Returns what each figure is drawn from, round numbers left out."""
    spans = speculative_spans(trace, WorkTimes(), prompt=prompt)
    live = [(r, row) for r, row in trace.rounds_of(prompt) if r.live[row]]
    slots = [
        [slot for slot in cache_slots(trace, r.index, moment, row) if slot.owner != "draft"]
        for r, row in live
        for moment in ("before", "rolled back")
    ]
    pieces = [str(piece) for piece in marked(trace.rounds, TOKENIZER, PLAIN, prompt)]
    positions = [(x.index, x.token, x.state) for x in positions_of(trace, WORDS, prompt)]
    return (
        marked_tokens(trace, WORDS, prompt),
        [s.judged for s in spans if s.judged],
        slots,
        pieces,
        positions,
    )


@pytest.mark.parametrize("at_once", [1, 2, None])
def test_a_prompt_of_a_queue_is_shown_as_alone(at_once):
    """At temperature 0: marked text, spans, caches, terminal text and tested positions of each prompt."""
    together = traced(QUEUE, at_once=at_once)
    for number, prompt in enumerate(QUEUE):
        assert shown_of(together, number) == shown_of(traced([prompt]), 0)


def test_pictures_of_a_queue_are_those_of_its_first_prompt():
    """Where the first prompt's row goes on with another text, that text is not drawn."""
    queue, alone = traced(QUEUE, at_once=1), traced(QUEUE[:1])
    assert coloured_text(queue, WORDS).twin == coloured_text(alone, WORDS).twin
    assert timeline(queue, WORDS, tokens=99).twin == timeline(alone, WORDS, tokens=99).twin
    later = len(alone.rounds)
    assert queue.rounds[later].names != (0,)
    assert all(slot.held for slot in cache_slots(queue, later, "before") if slot.token is not None)
    assert len(cache_grid(queue, WORDS, later).twin) > 0


def test_the_text_of_a_tree_is_marked():
    """What is not rejected is the text; what is rejected was a candidate where the correction stands."""
    trace = traced(
        QUEUE, TreeDrafter(DRAFT, (0, 0, 1)), verifier=verify_tree, warp=Warp(), eos=None, at_once=2
    )
    rejected = 0
    for prompt in range(len(QUEUE)):
        tokens = marked_tokens(trace, WORDS, prompt)
        text = "".join(word for word, state in tokens if state != "rejected")
        assert text == "".join(WORDS[token] for token in trace.committed(prompt))
        wrong = [word for word, state in tokens if state == "rejected"]
        for r, row in trace.rounds_of(prompt):
            if r.emitted[row] and r.kind(row) == "correction":
                candidates = {WORDS[int(r.draft.tokens[row, i])] for i in r.rejected(row)}
                assert wrong.pop(0) in candidates
                rejected += 1
        assert wrong == []
    assert rejected > 3


def test_a_rule_that_looks_past_rejections_leaves_nothing_untested():
    block = traced(QUEUE, verifier=verify_block, warp=Warp(), eos=None)
    states = {x.state for r in block.rounds if r.live[0] for x in drafted_tokens(r, WORDS)}
    assert "rejected" in states and "untested" not in states
