"""The strip of verdicts: states by hand, numbers from p and q, and what is shown of them."""

from dataclasses import replace

import pytest
import torch
from figures import WORDS, by_hand, readable, shipped_run
from tiny import table_pair

import minispec
from minispec.core.records import Draft
from minispec.io.draws import LoggingRng
from minispec.io.recording import record_run
from minispec.show.plots.verification import drafted_tokens, verification_strip


@pytest.mark.parametrize(
    ("play", "states", "last"),
    [
        (([5, 6, 7], 1, 8), ["draft", "rejected", "untested"], "✗"),
        (([5, 6, 7], 0, 8), ["rejected", "untested", "untested"], "✗"),
        (([5, 6], 2, 8), ["draft", "draft"], "★"),
        (([5, 10, 7], 3, 8, 2), ["draft", "draft", "cut"], None),
        (([], 0, 8), [], "★"),
    ],
)
def test_states_by_hand(play, states, last):
    """Accepted, rejected, not tested, or after the end; then a correction, a bonus, or nothing."""
    r = by_hand([0, 1], play).rounds[0]
    assert [test.state for test in drafted_tokens(r)] == states
    picture = verification_strip(r, WORDS)
    readable(picture)
    signs = {"draft": "✓", "rejected": "–", "untested": "○", "cut": "/"}
    verdict = picture.twin.splitlines()[0]
    assert [c for c in verdict if c in "✓–○/✗★"] == [signs[s] for s in states] + ([last] if last else [])
    assert f"{len(r.emitted[0])} token" in picture.caption


def test_numbers_are_those_of_p_and_q():
    """q, p and min(1, p/q) of the drafted tokens; a q of 0 gives probability 0."""
    r = by_hand([0], ([1, 2, 3], 1, 4)).rounds[0]
    p, q = torch.full((1, 4, 11), 0.0), torch.full((1, 3, 11), 0.0)
    p[0, :, 0] = 1.0
    q[0, :, 0] = 1.0
    p[0, 0, 1], q[0, 0, 1] = 0.6, 0.3
    p[0, 1, 2], q[0, 1, 2] = 0.1, 0.4
    p[0, 2, 3] = 0.5
    r = replace(r, target_probs=p, draft=Draft(r.draft.tokens, q))
    tests = drafted_tokens(r, 0, [None, 0.7, 0.1])
    assert [test.acceptance for test in tests] == pytest.approx([1, 0.25, 0])
    assert [(test.p, test.q) for test in tests] == [
        pytest.approx(pair) for pair in ((0.6, 0.3), (0.1, 0.4), (0.5, 0))
    ]
    assert [test.drawn for test in tests] == [None, 0.7, None]  # what was not tested drew no number
    assert [test.favourite for test in tests] == [0, 0, 0]


def test_the_verdict_follows_from_what_was_drawn():
    """In a run of tiny models each tested token is accepted just when its number lies under min(1, p/q)."""
    target, draft = table_pair()
    recording = record_run(
        target,
        minispec.ModelDrafter(draft),
        [[3, 1]],
        WORDS[:5],
        k=4,
        verifier=minispec.verify_rejection,
        max_new_tokens=30,
        warp=minispec.Warp(),
        rng=LoggingRng(0),
    )
    seen = set()
    for r in recording.trace.rounds:
        draws = [recording.accept_draw(r.index, place) for place in range(r.drafted(0))]
        for test in drafted_tokens(r, 0, [draw.number if draw else None for draw in draws]):
            if test.drawn is not None and test.state != "cut":
                assert (test.drawn < test.acceptance) == (test.state == "draft")
                seen.add(test.state)
    assert seen == {"draft", "rejected"}


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_walkthrough_can_be_read(temperature):
    """Every round of the shipped pair's walkthrough; at temperature 0 the target's own tokens stand below."""
    trace, words = shipped_run(temperature)
    for r in trace.rounds[:4]:
        picture = verification_strip(r, words, drawn=[0.25] * (r.tested(0) if temperature else 0))
        readable(picture)
        names = [line.split("  ")[0] for line in picture.twin.splitlines()]
        greedy, sampled = ["target says"], ["draft, q", "target, p", "min(1, p/q)", "drawn"]
        assert names == ["verdict", *(sampled if temperature else greedy)]
