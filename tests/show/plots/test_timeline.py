"""Over time: spans by hand, and the same tokens on both sides; over rounds, a tile as long as its prompt."""

import pytest
from figures import tiny_run

from minispec.show.plots.timeline import WorkTimes, speculative_spans

TIMES = WorkTimes(target=1.0, draft=0.25, verify=1.5)


@pytest.mark.parametrize("row", [0, 1])
def test_every_token_of_a_run_comes_once(row):
    """In ragged runs of real models: all tokens in order, one pass per round, no gap between spans."""
    trace = tiny_run(prompts=[(3, 1, 4), (2, 2)], max_new_tokens=20, eos=(5,))
    assert not all(trace.rounds[-1].live)  # one row was done before the other
    spans = speculative_spans(trace, TIMES, prompt=row)
    judged = [token for span in spans for token in span.judged]
    assert [token for token, state in judged if state not in ("rejected", "untested")] == trace.tokens(row)
    assert sum(span.work == "verify" for span in spans) == sum(r.live[row] for r in trace.rounds)
    assert all(span.judged for span in spans if span.work == "verify")
    assert all(a.end == b.start for a, b in zip(spans, spans[1:], strict=False))
