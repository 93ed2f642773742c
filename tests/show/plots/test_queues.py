"""Figures and steps of a queue: they show of a prompt what they show of a run of it alone."""

import pytest
from figures import DRAFT, WORDS, tiny_recording, tiny_run
from tiny import GREEDY

from minispec import train_tokenizer
from minispec.drafters.tree import TreeDrafter
from minispec.show.plots.caches import cache_slots
from minispec.show.plots.coloured import marked_tokens
from minispec.show.plots.timeline import WorkTimes, speculative_spans
from minispec.show.plots.verification import positions_of
from minispec.show.stepper import steps
from minispec.show.text import PLAIN, marked
from minispec.verifiers.tree import verify_tree

QUEUE = [[1, 2, 3], [4], [5, 5], [9, 2, 6]]
TOKENIZER = train_tokenizer([], "characters")
ENDED = GREEDY | {"max_new_tokens": 14, "eos": 6}


def shown_of(recording, prompt):
    """Returns what each figure is drawn from, round numbers left out, and what the steps show.

    But for a catch-up: beside a row with more space the draft has read beyond this row's last guess.
    """
    trace = recording.trace
    spans = speculative_spans(trace, WorkTimes(), prompt=prompt)
    live = [(r, row) for r, row in trace.rounds_of(prompt) if r.live[row]]
    slots = [
        [slot for slot in cache_slots(trace, r.index, moment, row) if slot.owner != "draft"]
        for r, row in live
        for moment in ("before", "rolled back")
    ]
    found = [step for step in steps(recording, prompt) if step.phase != "catch up"]
    return (
        marked_tokens(trace, WORDS, prompt),
        [s.judged for s in spans if s.judged],
        slots,
        [str(piece) for piece in marked(trace.rounds, TOKENIZER, PLAIN, prompt)],
        [(x.index, x.token, x.state) for x in positions_of(trace, WORDS, prompt)],
        [(s.title, s.sentence, s.text, s.target_cache, s.positions) for s in found],
    )


@pytest.mark.parametrize("batch_size", [1, 2, None])
def test_a_prompt_of_a_queue_is_shown_as_alone(batch_size):
    """At temperature 0, whichever row it had, and when: text, spans, caches, tested positions, steps."""
    together = tiny_recording(QUEUE, batch_size=batch_size, **ENDED)
    for number, prompt in enumerate(QUEUE):
        assert shown_of(together, number) == shown_of(tiny_recording([prompt], **ENDED), 0)


def test_numbers_of_a_queue_are_those_of_the_prompt():
    """Each test shows the number that was compared: below min(1, p/q) where the guess was accepted."""
    queue = tiny_recording(QUEUE, batch_size=2)
    found = [step for prompt in range(len(QUEUE)) for step in steps(queue, prompt) if step.phase == "test"]
    tests = [(s.draw.number, s.positions[s.here]) for s in found if s.draw and s.draw.number is not None]
    assert len(tests) > 10
    for number, position in tests:
        assert (number < position.p / position.q) == (position.verdict == "accepted")


def test_the_text_of_a_tree_is_marked():
    """What is not rejected is the text; what is rejected was a candidate where the correction stands."""
    trace = tiny_run(QUEUE, TreeDrafter(DRAFT, (0, 0, 1)), verifier=verify_tree, batch_size=2)
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
