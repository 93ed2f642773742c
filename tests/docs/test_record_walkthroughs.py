"""Recording walkthroughs anew: only a run that comes out the same on every machine is written."""

from dataclasses import replace

import pytest
import torch
from book.record_walkthroughs import (
    CLEAR,
    MOST_TOKENS,
    SEEDS,
    acceptance_ratios,
    first_clear,
    has_all_endings,
    margin,
    unclear,
    write_walkthroughs,
)

import minispec
from minispec.io.recording import LoggingRng
from minispec.io.recording_file import load_recording
from minispec.io.walkthrough import load_walkthrough

VERIFIERS = ("greedy", "rejection")


@pytest.fixture(scope="module")
def pair():
    return minispec.load_pair("stories")


@pytest.mark.parametrize("verifier", VERIFIERS)
def test_the_committed_ones_are_clear_and_whole(pair, verifier):
    """No margin of 1e-3 or less; a correction, a bonus and an end, in at most 70 tokens."""
    walkthrough = load_walkthrough(verifier)
    assert CLEAR == 1e-3 and unclear(walkthrough, pair.draft) == []
    assert has_all_endings(walkthrough) and len(walkthrough.trace.tokens()) <= 70


@pytest.mark.parametrize("kind", ["accept", "pick"])
def test_an_unclear_draw_is_found(kind):
    """A number that is moved to its threshold is reported; so is a pick without one."""
    recording = load_walkthrough("rejection")
    index, number, d = next(
        (i, n, d)
        for i, draws in enumerate(recording.draws)
        for n, d in enumerate(draws)
        if d.kind == kind and d.number is not None and 0 < d.low < d.high
    )
    for moved in (d.low + 1e-4, None if kind == "pick" else d.low + 1e-4):
        draws = [list(of_round) for of_round in recording.draws]
        draws[index][number] = replace(d, number=moved)
        (line,) = unclear(replace(recording, draws=tuple(map(tuple, draws))), None)
        assert line.startswith(f"round {index}, position {d.position}: {kind}")


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
    (line,) = unclear(tied, pair.draft)
    assert line.startswith("round 0, position 2: the target")

    def tied_draft(tokens):
        """The draft, with a tie where it guesses the first token after the prompt."""
        logits = pair.draft(tokens).clone()
        here = logits[0, len(recording.trace.prompts[0]) - 1]
        here[here.topk(2).indices] = here.max()
        return logits

    first = [line for line in unclear(recording, tied_draft) if line.startswith("round 0")]
    assert first == ["round 0, position 0: the draft's best logits differ by 0"]


def test_ratios_are_not_cut_at_one():
    """p/q of tested tokens may exceed 1: min(1, p/q) would hide how near to 1 they are."""
    recording = load_walkthrough("rejection")
    ratios = [ratio for *_, ratio in acceptance_ratios(recording)]
    assert max(ratios) > 1 > min(ratios)
    rounds = recording.trace.rounds
    index, i, _ = next(acceptance_ratios(recording))
    draft = rounds[index].draft
    probs = draft.probs.clone()
    probs[0, i] = rounds[index].target_probs[0, i]
    equal = replace(rounds[index], draft=replace(draft, probs=probs))
    trace = replace(recording.trace, rounds=(*rounds[:index], equal, *rounds[index + 1 :]))
    (line,) = unclear(replace(recording, trace=trace), None)
    assert line == f"round {index}, position {i}: p/q differs from 1 by 0"


def test_no_clear_run_is_an_error(pair, monkeypatch):
    """A story that does not end in time is refused in one line."""
    monkeypatch.setitem(MOST_TOKENS, "greedy", 3)
    with pytest.raises(ValueError, match="no greedy walkthrough"):
        first_clear(pair, pair.walkthrough, "greedy")


def test_both_are_written_as_they_are_committed(pair, tmp_path, capsys, monkeypatch):
    """The same recordings come out again, after others were passed over, and their texts are printed."""
    committed = load_walkthrough("rejection").info["seed"]
    monkeypatch.setitem(SEEDS, "rejection", range(committed - 3, committed + 2))
    write_walkthroughs(pair, tmp_path)
    said = capsys.readouterr().out
    for verifier in VERIFIERS:
        new = load_recording(tmp_path / f"walkthrough-{verifier}.json")
        old = load_walkthrough(verifier)
        assert new.trace.tokens() == old.trace.tokens() and new.info == old.info
        assert f"walkthrough-{verifier}.json: seed {old.info['seed']}" in said and old.text() in said
