"""Verdicts and positions: states by hand, numbers from p and q, and what is shown of them."""

from dataclasses import replace

import pytest
import torch
from figures import WORDS, by_hand, tiny_run
from tiny import table_pair

import minispec
from minispec.core.records import Draft
from minispec.io.recording import LoggingRng, record_run
from minispec.show.plots.verification import drafted_tokens, positions_of


def test_numbers_are_those_of_p_and_q():
    """q, p and min(1, p/q) of the drafted tokens; a p of 0 gives probability 0."""
    r = by_hand([0], ([1, 2, 3], 1, 4)).rounds[0]
    p, q = torch.full((1, 4, 11), 0.0), torch.full((1, 3, 11), 0.0)
    p[0, :, 0] = 1.0
    q[0, :, 0] = 1.0
    p[0, 0, :2], q[0, 0, :2] = torch.tensor([0.4, 0.6]), torch.tensor([0.7, 0.3])
    p[0, 1, [0, 2]], q[0, 1, [0, 2]] = torch.tensor([0.9, 0.1]), torch.tensor([0.6, 0.4])
    q[0, 2, [0, 3]] = 0.5
    r = replace(r, target_probs=p, draft=Draft(r.draft.tokens, q))
    tests = drafted_tokens(r, WORDS, drawn=[None, 0.7, 0.1])
    assert [test.acceptance for test in tests] == pytest.approx([1, 0.25, 0])
    assert [(test.p, test.q) for test in tests] == [
        pytest.approx(pair) for pair in ((0.6, 0.3), (0.1, 0.4), (0, 0.5))
    ]
    assert [test.drawn for test in tests] == [None, 0.7, None]  # what was not tested drew no number
    assert [test.favourite for test in tests] == [1, 0, 0]


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
        draws = [recording.accept_draw(r.index, i) for i in range(r.drafted(0))]
        numbers = [draw.number if draw else None for draw in draws]
        for test in drafted_tokens(r, WORDS, drawn=numbers):
            if test.drawn is not None and test.state != "cut":
                assert (test.drawn < test.acceptance) == (test.state == "accepted")
                seen.add(test.state)
    assert seen == {"accepted", "rejected"}


@pytest.mark.parametrize("row", [0, 1])
def test_numbers_of_a_real_run(row):
    """Counts agree with the statistics; probabilities and distances are those of p and q."""
    trace = tiny_run(prompts=[(3, 1, 4), (2, 2)], new=30)
    found = positions_of(trace, WORDS, row)
    assert len(found) == sum(r.tested(row) for r in trace.rounds)
    assert sum(x.accepted for x in found) == sum(r.accepted(row) for r in trace.rounds if r.live[row])
    kept = [r.emitted[row][: r.accepted(row)] for r in trace.rounds if r.live[row]]
    assert [x.token for x in found if x.accepted] == [token for tokens in kept for token in tokens]
    first, r = found[0], trace.rounds[0]
    p, q = r.target_probs[row, 0], r.draft.probs[row, 0]
    assert first.tv == pytest.approx(float((p - q).abs().sum() / 2))
    assert first.acceptance == pytest.approx(min(1, float(p[first.token] / q[first.token])))


def test_mean_acceptance_is_one_minus_tv():
    """Over all tokens that the draft could have drawn, the acceptance is on average 1 − TV (theorem 3.5)."""
    trace = tiny_run(new=30)
    found = positions_of(trace, WORDS)
    for r in (r for r in trace.rounds if r.draft.k):
        p, q = r.target_probs[0, 0], r.draft.probs[0, 0]
        here = next(x for x in found if x.round == r.index)
        assert float((q * (p / q).clamp(max=1)).sum()) == pytest.approx(1 - here.tv)
