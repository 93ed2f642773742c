"""The committed walkthroughs: clear on every machine, and what the shipped pair says today."""

from dataclasses import replace

import pytest
import torch

import minispec
from minispec.io.checkpoint import SHIPPED, find_pair, weights_hash
from minispec.io.draws import Draw
from minispec.io.trace_file import load_trace
from minispec.io.walkthrough import (
    CLEAR,
    COMMAND,
    K,
    acceptance_ratios,
    first_clear,
    is_telling,
    load_walkthrough,
    main,
    record_pair,
    unclear,
    walkthrough_path,
)

VERIFIERS = ("greedy", "rejection")


@pytest.fixture(scope="module")
def pair():
    return minispec.load_pair("stories")


@pytest.fixture(scope="module", params=VERIFIERS)
def walkthrough(request):
    return load_walkthrough(request.param)


def test_is_of_this_pair(pair, walkthrough):
    """The recording was made with the weights that are shipped; if not, the command makes it again."""
    marks = {"target": weights_hash(pair.target), "draft": weights_hash(pair.draft)}
    assert walkthrough.info["sha256"] == marks, f"write the walkthroughs again: {COMMAND}"


def test_is_told_with_the_walkthrough_prompt(pair, walkthrough):
    """The prompt is the pair's own, and K is 5."""
    assert walkthrough.info["prompt"] == pair.walkthrough
    assert walkthrough.trace.prompts[0] == tuple(pair.tokenizer.encode(pair.walkthrough))
    assert walkthrough.trace.config["k"] == K == 5


def test_has_a_correction_a_bonus_and_an_end(walkthrough):
    """Each walkthrough shows both ways in which a round ends, and ends itself in at most 70 tokens."""
    assert {"correction", "bonus"} <= {r.kind(0) for r in walkthrough.trace.rounds}
    assert is_telling(walkthrough)
    assert len(walkthrough.trace.tokens()) <= 70


def test_every_argmax_and_every_draw_is_clear(pair, walkthrough):
    """No argmax with a margin of 1e-3 or less, no number drawn within 1e-3 of its threshold."""
    assert CLEAR == 1e-3
    assert unclear(walkthrough, pair.draft) == []


def test_replaying_gives_the_same_tokens(pair, walkthrough):
    """The pair, run again, emits what is recorded, round by round, for the same numbers drawn."""
    info = walkthrough.info
    most = walkthrough.trace.config["max_new_tokens"]
    again = record_pair(pair, info["prompt"], info["verifier"], seed=info["seed"], max_new_tokens=most)
    then = walkthrough.trace.rounds
    assert [r.emitted for r in again.trace.rounds] == [r.emitted for r in then]
    assert [r.kind(0) for r in again.trace.rounds] == [r.kind(0) for r in then]
    numbers = [[d.number for d in draws] for draws in again.draws]
    assert numbers == [[d.number for d in draws] for draws in walkthrough.draws]
    for a, b in zip(again.trace.rounds, then, strict=True):
        assert torch.allclose(a.target_probs.double(), b.target_probs, atol=1e-4)


def test_is_small_and_says_its_text(pair, walkthrough):
    """At most 250 kB, and its own words give the tokenizer's text."""
    path = walkthrough_path(find_pair("stories"), walkthrough.info["verifier"])
    assert path.parent == SHIPPED / "stories" and path.stat().st_size <= 250_000
    assert walkthrough.text().replace("⏹", "") == pair.tokenizer.decode(walkthrough.trace.tokens())


def test_a_pair_with_recordings_beside_it_loads(pair):
    """The recordings lie in the pair's folder and disturb nothing."""
    assert (pair.folder / "walkthrough-greedy.json").is_file()


def test_an_unclear_draw_is_found(pair):
    """A number that is moved to its threshold is reported; so is a ratio of almost 1."""
    recording = load_walkthrough("rejection")
    index, place = next(
        (i, n)
        for i, draws in enumerate(recording.draws)
        for n, d in enumerate(draws)
        if d.kind == "accept" and d.number is not None
    )
    draws = [list(of_round) for of_round in recording.draws]
    d = draws[index][place]
    edge = d.high if d.outcome else d.low
    draws[index][place] = Draw(d.row, d.position, d.kind, d.low, d.high, edge + 1e-4, d.outcome)
    moved = replace(recording, draws=tuple(map(tuple, draws)))
    assert any(
        line.startswith(f"round {index}, position {d.position}: accept") for line in unclear(moved, None)
    )


def test_a_tie_is_found(pair):
    """Two logits made equal are reported, of the target and, by reading again, of the draft."""
    recording = load_walkthrough("greedy")
    r = recording.trace.rounds[0]
    logits = r.target_logits.clone()
    best = logits[0, 2].topk(2)
    logits[0, 2, best.indices[1]] = best.values[0] - 1e-4
    rounds = (replace(r, target_logits=logits), *recording.trace.rounds[1:])
    tied = replace(recording, trace=replace(recording.trace, rounds=rounds))
    assert any("place 2: the target" in line for line in unclear(tied, pair.draft))

    class Tied:
        """The draft, with a tie where it guesses the first token behind the prompt."""

        def __call__(self, tokens):
            logits = pair.draft(tokens).clone()
            here = logits[0, len(recording.trace.prompts[0]) - 1]
            here[here.topk(2).indices] = here.max()
            return logits

    first = [line for line in unclear(recording, Tied()) if line.startswith("round 0")]
    assert first == ["round 0, place 0: the draft's best logits differ by 0"]


def test_ratios_are_not_cut_at_one():
    """p/q of tested tokens may exceed 1: min(1, p/q) would hide how near to 1 they are."""
    recording = load_walkthrough("rejection")
    ratios = [x for r in recording.trace.rounds for x in acceptance_ratios(r)]
    assert max(ratios) > 1 > min(ratios)


def test_no_clear_run_is_an_error(pair, monkeypatch):
    """A story that does not end in time is refused in one line."""
    monkeypatch.setattr("minispec.io.walkthrough.GREEDY_TOKENS", 3)
    with pytest.raises(ValueError, match="no greedy walkthrough"):
        first_clear(pair, pair.walkthrough, "greedy")


def test_an_unknown_verifier_is_an_error():
    """There is a walkthrough for each verifier of the benchmark, and for no other."""
    with pytest.raises(ValueError, match="greedy or rejection"):
        load_walkthrough("best")


def test_the_command_writes_both(pair, tmp_path, capsys, monkeypatch):
    """The command writes the same recordings again, wherever the pair lies."""
    monkeypatch.setattr("minispec.io.walkthrough.load_pair", lambda name: replace(pair, folder=tmp_path))
    main([])
    said = capsys.readouterr().out
    for verifier in VERIFIERS:
        new, old = load_trace(walkthrough_path(tmp_path, verifier)), load_walkthrough(verifier)
        assert new.trace.tokens() == old.trace.tokens() and new.info == old.info
        assert f"walkthrough-{verifier}.json: seed {old.info['seed']}" in said and old.text() in said
