"""Verdicts and positions: states by hand, numbers from p and q, and what is shown of them."""

from dataclasses import replace

import pytest
import torch
from figures import WORDS, by_hand, readable, shipped_run, tiny_run
from matplotlib.colors import to_hex
from tiny import table_pair

import minispec
from minispec.core.records import Draft
from minispec.io.recording import LoggingRng, record_run
from minispec.show.plots.verification import (
    along_the_text,
    drafted_tokens,
    positions_of,
    verification_strip,
)
from minispec.show.signs import STATES


@pytest.mark.parametrize(
    ("play", "states", "last"),
    [
        (([5, 6, 7], 1, 8), ["accepted", "rejected", "untested"], ""),
        (([5, 6, 7], 0, 8), ["rejected", "untested", "untested"], ""),
        (([5, 6], 2, 8), ["accepted", "accepted"], "★"),
        (([5, 10, 7], 3, 8, 2), ["accepted", "accepted", "cut"], ""),
        (([], 0, 8), [], "★"),
    ],
)
def test_states_by_hand(play, states, last):
    """Accepted, rejected, not tested, or after the end; then a bonus or nothing."""
    r = by_hand([0, 1], play).rounds[0]
    assert [test.state for test in drafted_tokens(r, WORDS)] == states
    picture = verification_strip(r, WORDS)
    readable(picture)
    signs = {"accepted": "✓", "rejected": "✗", "untested": "○", "cut": "/"}
    verdict = picture.twin.splitlines()[1]
    assert [c for c in verdict if c in "✓✗○/↳★"] == [*(signs[s] for s in states), *last]
    assert f"{len(r.emitted[0])} token" in picture.caption


@pytest.mark.parametrize("accepted", [0, 1, 2])
def test_the_correction_stands_under_the_token_that_it_replaces(accepted):
    """Its tile lies under that of the rejected token, between the same sides; in the twin likewise."""
    picture = verification_strip(by_hand([0, 1], ([5, 6, 7], accepted, 8)).rounds[0], WORDS)
    (axes,) = picture.figure.axes
    boxes = {
        sign: next(
            patch.get_bbox()
            for patch in axes.patches
            for text in axes.texts
            if text.get_text().startswith(f"{sign} ") and patch.contains_point(text_at(axes, text))
        )
        for sign in "✗↳"
    }
    assert (boxes["✗"].x0, boxes["✗"].x1) == (boxes["↳"].x0, boxes["↳"].x1)
    assert boxes["↳"].y1 <= boxes["✗"].y0 + 0.03
    verdict, instead = picture.twin.splitlines()[1:3]
    assert verdict.index("✗") == instead.index("↳")
    replaced = WORDS[5 + accepted].strip()
    assert picture.title == f'{accepted} of 3 drafted tokens are accepted; "j" replaces "{replaced}"'


def text_at(axes, text):
    return axes.transData.transform(text.get_position())


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


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_walkthrough_can_be_read(temperature):
    """Every round of the shipped pair's walkthrough; at temperature 0 the target's own tokens stand below."""
    trace, words = shipped_run(temperature)
    for r in trace.rounds[:4]:
        picture = verification_strip(r, words, drawn=[0.25] * (r.tested(0) if temperature else 0))
        readable(picture)
        names = [line.split("  ")[0] for line in picture.twin.splitlines()[1:]]
        greedy, sampled = ["target says"], ["draft, q", "target, p", "min(1, p/q)", "drawn"]
        instead = ["instead"] * (r.kind(0) == "correction")
        assert names == ["verdict", *instead, *(sampled if temperature else greedy)]


def test_positions_by_hand():
    """Tested tokens only, round by round; what was not tested has no position."""
    trace = by_hand([0, 1], ([5, 6, 7], 1, 8), ([2, 3], 2, 4))
    assert [(x.round, x.index, x.token, x.word, x.accepted) for x in positions_of(trace, WORDS)] == [
        (0, 0, 5, " six", True),
        (0, 1, 6, " h", False),
        (1, 0, 2, ".", True),
        (1, 1, 3, " the", True),
    ]
    added = [x.added for x in positions_of(trace, WORDS)]
    assert added == ["", WORDS[8], "", WORDS[4]]  # a correction for the second, a bonus after the last


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


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_figure_shows_each_position(temperature):
    """One bar per position in both charts, as high as the numbers; 28 of a longer text.

    The target's own tokens stand between them, without bars: where a round ends, and only there.
    """
    trace, words = shipped_run(temperature)
    found = positions_of(trace, words)
    for positions in (found, found[2:5], found[:1], found * 3):
        picture = along_the_text(positions)
        readable(picture)
        heights = [[bar.get_height() for bar in axes.patches] for axes in picture.figure.axes]
        chosen = positions[:28]
        assert heights == [[x.acceptance for x in chosen], [x.tv for x in chosen]]
        ends = [x for x in chosen if x.added]
        labels = [label.get_text() for label in picture.figure.axes[1].get_xticklabels()]
        assert len(picture.twin.splitlines()) == 2 + len(chosen) + len(ends) == 2 + len(labels)
        signs = [STATES["bonus" if x.accepted else "correction"].glyph for x in ends]
        assert [label[-1] for label in labels if label[-1] in "↳★"] == signs
        for label, drawn in zip(labels, picture.figure.axes[1].get_xticklabels(), strict=True):
            (state,) = (state for state in STATES.values() if state.glyph == label[-1])
            assert to_hex(drawn.get_bbox_patch().get_facecolor()).upper() == state.colour
