"""Serial against speculative: spans by hand, and the same tokens on both sides."""

import pytest
from figures import WORDS, by_hand, readable, shipped_run, tiny_run

from minispec.show.plots.timeline import WorkTimes, speculative_spans, timeline

TRACE = by_hand([0, 1], ([5, 6], 1, 8), ([2, 3], 2, 4), ([], 0, 7))
TIMES = WorkTimes(target=1.0, draft=0.25, verify=1.5)


def told(spans):
    return [(span.work, span.start, span.end) for span in spans]


def test_spans_by_hand():
    """K draft steps, one pass, a catch-up after full acceptance; with no draft, a pass and a catch-up."""
    assert told(speculative_spans(TRACE, TIMES)) == [
        ("draft", 0, 0.25),
        ("draft", 0.25, 0.5),
        ("verify", 0.5, 2.0),
        ("draft", 2.0, 2.25),
        ("draft", 2.25, 2.5),
        ("verify", 2.5, 4.0),
        ("catch-up", 4.0, 4.25),
        ("verify", 4.25, 5.75),
        ("catch-up", 5.75, 6.0),
    ]
    yields = [span.yields for span in speculative_spans(TRACE, TIMES) if span.yields]
    assert yields == [
        ((5, "accepted"), (8, "correction")),
        ((2, "accepted"), (3, "accepted"), (4, "bonus")),
        ((7, "bonus"),),
    ]


def test_alone_a_token_is_known_at_the_end_of_each_step():
    """The target's steps follow each other, a token each; beside them the rounds."""
    lines = [line.split() for line in timeline(TRACE, WORDS, WorkTimes(target=2.0)).twin.splitlines()[2:8]]
    assert [float(time) for time, _ in lines] == [2, 4, 6, 8, 10, 12]
    assert [word for _, word in lines] == ["six", "j", ".", "the", "⏎", "i"]


@pytest.mark.parametrize("row", [0, 1])
def test_every_token_of_a_run_comes_once(row):
    """In ragged runs of real models: all tokens in order, one pass per round, no gap between spans."""
    trace = tiny_run(prompts=[(3, 1, 4), (2, 2)], new=20, eos=(5,))
    assert not all(trace.rounds[-1].live)  # one row was done before the other
    spans = speculative_spans(trace, TIMES, row=row)
    assert [token for span in spans for token, _ in span.yields] == trace.tokens(row)
    assert sum(span.work == "verify" for span in spans) == sum(r.live[row] for r in trace.rounds)
    assert all(span.yields for span in spans if span.work == "verify")
    assert all(a.end == b.start for a, b in zip(spans, spans[1:], strict=False))


@pytest.mark.parametrize(
    ("times", "tokens"), [(None, 12), (None, 24), (WorkTimes(1, 0.4, 1.2), 1), (WorkTimes(1, 0.01, 1), 12)]
)
def test_the_figure_can_be_read(times, tokens):
    """Whole rounds within the number of tokens, one at least."""
    trace, words = shipped_run()
    picture = timeline(trace, words, times, tokens)
    readable(picture)
    count = int(picture.caption.split()[2])
    sums = [sum(len(r.emitted[0]) for r in trace.rounds[: n + 1]) for n in range(len(trace.rounds))]
    assert count == max([n for n in sums if n <= tokens], default=sums[0])
    assert picture.figure.get_figwidth() < 20


def test_the_caption_is_the_ratio():
    """6 serial steps of 1 against three passes, four draft steps and two catch-ups of 0.1: 6 / 3.6."""
    picture = timeline(TRACE, WORDS)
    assert picture.caption == (
        "The same 6 tokens take 6 target passes alone and 3 with a draft: 1.7 times as fast at these costs."
    )


def test_bad_numbers_are_refused():
    """A pass that takes no time ends in one clear line."""
    with pytest.raises(ValueError, match="above 0"):
        WorkTimes(target=0)
