"""Figures of the shipped pair's own runs can be read, and show what its records say."""

from dataclasses import replace

import pytest
from book.gallery import of_the_rule, shipped_losses
from figures import readable, shipped_run

from minispec.core.verify import verify_rejection
from minispec.evidence.proof.first_token import first_token_counts
from minispec.io.checkpoint import SHIPPED
from minispec.io.files import read_json
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
    for positions in (found, found[2:5], found[:1], found * 3):
        picture = along_the_text(positions)
        readable(picture)
        heights = [[bar.get_height() for bar in axes.patches] for axes in picture.figure.axes]
        assert heights == [[x.acceptance for x in positions[:28]], [x.tv for x in positions[:28]]]
    for r in trace.rounds[:3]:
        readable(verification_strip(r, words, drawn=[0.25] * (r.tested(0) if temperature else 0)))
        readable(draft_bars(r, words))
        readable(cache_grid(trace, words, r.index))
        for i, token in enumerate(r.draft.tokens[0].tolist() if temperature else []):
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
    """The walkthrough's run, and one whose prompt is nine times as long: nothing is cut."""
    trace, words = shipped_run()
    pictures = [coloured_text(replace(trace, prompts=(trace.prompts[0] * n,)), words) for n in (1, 9)]
    for picture in pictures:
        readable(picture)
    assert pictures[1].figure.get_figheight() > 1.4 * pictures[0].figure.get_figheight()


def test_the_recorded_losses_are_those_of_the_shipped_pair():
    """Every held-out loss in pair.json is a point above the entropy; distilling counts its steps on."""
    info = read_json(SHIPPED / "stories" / "pair.json")
    picture = shipped_losses()
    (axes,) = picture.figure.axes
    lines = {line.get_label(): line.get_xydata().tolist() for line in axes.lines}
    words = {"target": "target", "draft-plain": "draft", "draft": "draft, distilled"}
    for stage, word in words.items():
        shift = info["models"]["draft-plain"]["steps"] if stage == "draft" else 0
        points = [[p["step"] + shift, p["validation"]] for p in info["history"] if p["stage"] == stage]
        assert lines[f"{word}, recorded"] == points and len(points) >= 10
        assert min(loss for _, loss in points) > info["entropy_floor"]
    assert f"the target is the best with {info['models']['target']['validation_loss']:.2f}" in picture.caption


def test_shipped_code_is_inside_and_the_mutant_outside():
    """On {a, b, c} the rule stays inside; resampling from p gives (5, 4, 3)/12 and does not."""
    picture = next(of_the_rule())
    assert picture.title == "p comes out of Rule 2 and Rule 4, as 20,000 draws show"
    mutant, shipped = (axes.lines[0].get_ydata() for axes in picture.figure.axes[2:])
    assert mutant == pytest.approx([5, 4, 3], abs=0.24)
    counts = first_token_counts(verify_rejection, (3 / 6, 2 / 6, 1 / 6), (1 / 6, 1 / 6, 4 / 6), 20_000)
    assert shipped == pytest.approx([12 * n / 20_000 for n in counts])
