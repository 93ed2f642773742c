"""Recording walkthroughs anew: only a run that comes out the same on every machine is written."""

from dataclasses import replace

import pytest
import torch
from book.record_walkthroughs import (
    CLEAR,
    MOST_TOKENS,
    acceptance_ratios,
    first_clear,
    has_all_endings,
    margin,
    unclear,
    write_walkthroughs,
)

import minispec
from minispec.io.recording import Draw, LoggingRng
from minispec.io.recording_file import load_recording
from minispec.io.walkthrough import load_walkthrough

VERIFIERS = ("greedy", "rejection")


@pytest.fixture(scope="module")
def pair():
    return minispec.load_pair("stories")


@pytest.fixture(params=VERIFIERS)
def walkthrough(request):
    return load_walkthrough(request.param)


def test_has_a_correction_a_bonus_and_an_end(walkthrough):
    """Each walkthrough shows both ways in which a round ends, and ends itself in at most 70 tokens."""
    assert {"correction", "bonus"} <= {r.kind(0) for r in walkthrough.trace.rounds}
    assert has_all_endings(walkthrough)
    assert len(walkthrough.trace.tokens()) <= 70


def test_every_argmax_and_every_draw_is_clear(pair, walkthrough):
    """No argmax with a margin of 1e-3 or less, no number drawn within 1e-3 of its threshold."""
    assert CLEAR == 1e-3
    assert unclear(walkthrough, pair.draft) == []


def test_an_unclear_draw_is_found(pair):
    """A number that is moved to its threshold is reported; so is a ratio of almost 1."""
    recording = load_walkthrough("rejection")
    index, number = next(
        (i, n)
        for i, draws in enumerate(recording.draws)
        for n, d in enumerate(draws)
        if d.kind == "accept" and d.number is not None
    )
    draws = [list(of_round) for of_round in recording.draws]
    d = draws[index][number]
    edge = d.high if d.outcome else d.low
    draws[index][number] = Draw(d.prompt, d.position, d.kind, d.low, d.high, edge + 1e-4, d.outcome)
    moved = replace(recording, draws=tuple(map(tuple, draws)))
    assert any(
        line.startswith(f"round {index}, position {d.position}: accept") for line in unclear(moved, None)
    )


def test_margins_are_distances_to_inner_thresholds():
    """A number near 0 or 1 is near no threshold; near the edge of its outcome it is."""
    rng = LoggingRng(0)
    rng.bernoulli(torch.full((400,), 0.25, dtype=torch.float64))
    for d in rng.take():
        assert abs(margin(d) - abs(d.number - 0.25)) < 1e-15
    rng.bernoulli(torch.tensor([1.0]))
    assert margin(rng.take()[0]) == float("inf")


def test_a_tie_is_found(pair):
    """Two logits made equal are reported, of the target and, by reading again, of the draft."""
    recording = load_walkthrough("greedy")
    r = recording.trace.rounds[0]
    logits = r.target_logits.clone()
    best = logits[0, 2].topk(2)
    logits[0, 2, best.indices[1]] = best.values[0] - 1e-4
    rounds = (replace(r, target_logits=logits), *recording.trace.rounds[1:])
    tied = replace(recording, trace=replace(recording.trace, rounds=rounds))
    assert any("position 2: the target" in line for line in unclear(tied, pair.draft))

    class Tied:
        """The draft, with a tie where it guesses the first token after the prompt."""

        def __call__(self, tokens):
            logits = pair.draft(tokens).clone()
            here = logits[0, len(recording.trace.prompts[0]) - 1]
            here[here.topk(2).indices] = here.max()
            return logits

    first = [line for line in unclear(recording, Tied()) if line.startswith("round 0")]
    assert first == ["round 0, position 0: the draft's best logits differ by 0"]


def test_ratios_are_not_cut_at_one():
    """p/q of tested tokens may exceed 1: min(1, p/q) would hide how near to 1 they are."""
    recording = load_walkthrough("rejection")
    ratios = [x for r in recording.trace.rounds for x in acceptance_ratios(r)]
    assert max(ratios) > 1 > min(ratios)


def test_no_clear_run_is_an_error(pair, monkeypatch):
    """A story that does not end in time is refused in one line."""
    monkeypatch.setitem(MOST_TOKENS, "greedy", 3)
    with pytest.raises(ValueError, match="no greedy walkthrough"):
        first_clear(pair, pair.walkthrough, "greedy")


def test_both_are_written_as_they_are_committed(pair, tmp_path, capsys):
    """The same recordings come out again, wherever they are written, and their texts are printed."""
    write_walkthroughs(pair, tmp_path)
    said = capsys.readouterr().out
    for verifier in VERIFIERS:
        new = load_recording(tmp_path / f"walkthrough-{verifier}.json")
        old = load_walkthrough(verifier)
        assert new.trace.tokens() == old.trace.tokens() and new.info == old.info
        assert f"walkthrough-{verifier}.json: seed {old.info['seed']}" in said and old.text() in said
