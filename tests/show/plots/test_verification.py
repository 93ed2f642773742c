"""Verdicts and positions of runs: numbers from p, q and what was drawn."""

import pytest
from book.handouts import numbers_drawn
from figures import WORDS, tiny_run

from minispec.io.walkthrough import load_walkthrough
from minispec.show.plots.verification import drafted_tokens, positions_of


def test_the_verdict_follows_from_what_was_drawn():
    """Each tested token is accepted just when its number lies under min(1, p/q)."""
    recording = load_walkthrough("rejection")
    seen = set()
    for r in recording.trace.rounds:
        for test in drafted_tokens(r, recording.words, drawn=numbers_drawn(recording, r.index)):
            assert test.drawn is None or test.state in ("accepted", "rejected")
            if test.drawn is not None:
                assert (test.drawn < test.acceptance) == (test.state == "accepted")
                seen.add(test.state)
    assert seen == {"accepted", "rejected"}


@pytest.mark.parametrize("row", [0, 1])
def test_numbers_of_a_run(row):
    """Counts agree with the trace; probabilities and distances are those of p and q.

    Over all tokens that the draft could have drawn, the acceptance is on average 1 − TV (theorem 3.5).
    """
    trace = tiny_run(prompts=[(3, 1, 4), (2, 2)], max_new_tokens=30)
    found = positions_of(trace, WORDS, row)
    live = [r for r in trace.rounds if r.live[row]]
    assert len(found) == sum(r.tested(row) for r in live)
    kept = [token for r in live for token in r.emitted[row][: r.accepted(row)]]
    assert [x.token for x in found if x.accepted] == kept
    rounds = [r for r in live for _ in range(r.tested(row))]
    for x, r in zip(found, rounds, strict=True):
        p = r.target_probs[row, x.index]
        q = r.draft.probs[row, x.index]
        assert (x.p, x.q) == (float(p[x.token]), float(q[x.token]))
        assert x.acceptance == pytest.approx(min(1, x.p / x.q))
        assert x.tv == pytest.approx(float((p - q).abs().sum() / 2))
        assert float((q * (p / q).clamp(max=1)).sum()) == pytest.approx(1 - x.tv)
