"""Figures of the shipped pair's own runs can be read, and show what its records say."""

from dataclasses import replace

import pytest
from figures import readable, shipped_run

from minispec.show.plots.caches import cache_grid
from minispec.show.plots.coloured import coloured_text
from minispec.show.plots.drafts import draft_bars
from minispec.show.plots.overlap import overlap
from minispec.show.plots.timeline import WorkTimes, timeline
from minispec.show.plots.verification import along_the_text, positions_of, verification_strip


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_figures_of_a_run_can_be_read(temperature):
    """Rounds one by one, texts of many lengths; at temperature 1 p and q of every drafted token."""
    trace, words = shipped_run(temperature)
    found = positions_of(trace, words)
    for positions in (found[2:5], found * 3):
        picture = along_the_text(positions)
        readable(picture)
        heights = [[bar.get_height() for bar in axes.patches] for axes in picture.figure.axes]
        assert heights == [[x.acceptance for x in positions[:28]], [x.tv for x in positions[:28]]]
    r = trace.rounds[0]
    readable(verification_strip(r, words, drawn=[0.25] * (r.tested(0) if temperature else 0)))
    readable(draft_bars(r, words))
    readable(cache_grid(trace, words))
    for i, token in enumerate(r.draft.tokens[0, :3].tolist() if temperature else []):
        readable(overlap(r.target_probs[0, i], r.draft.probs[0, i], words, token))


@pytest.mark.parametrize(
    ("times", "tokens"), [(None, 12), (None, 24), (WorkTimes(1, 0.4, 1.2), 1), (WorkTimes(1, 0.01, 1), 12)]
)
def test_a_timeline_has_whole_rounds(times, tokens):
    """As many as yield no more than so many tokens, one at least."""
    trace, words = shipped_run()
    picture = timeline(trace, words, times, tokens)
    readable(picture)
    sums = [sum(len(r.emitted[0]) for r in trace.rounds[: n + 1]) for n in range(len(trace.rounds))]
    assert int(picture.caption.split()[2]) == max([n for n in sums if n <= tokens], default=sums[0])
    assert picture.figure.get_figwidth() < 20


def test_a_long_text_is_broken_inside_the_page():
    """The walkthrough's run, and one whose prompt is four times as long: nothing is cut."""
    trace, words = shipped_run()
    long = coloured_text(replace(trace, prompts=(trace.prompts[0] * 4,)), words)
    readable(long)
    assert long.figure.get_figheight() > 1.4 * coloured_text(trace, words).figure.get_figheight()
