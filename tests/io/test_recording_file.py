"""Recordings on disk: what comes back is what was written, and a bad file is one clear line."""

import json
from dataclasses import replace

import pytest
import torch
from tiny import gpt_pair, table_pair

from minispec import ModelDrafter, Warp, verify_greedy, verify_rejection
from minispec.io.recording import LoggingRng, record_run
from minispec.io.recording_file import load_recording, save_recording

WORDS = (" a", "b", "\n", "é", "⏹", '"', "\\", "g", "h", "i", "�")


def recorded(models=None, temperature=1.0, prompts=((1, 2, 3), (4,)), k=3, **more):
    target, draft = models or gpt_pair()
    return record_run(
        target,
        ModelDrafter(draft) if k else None,
        prompts,
        WORDS[: target.vocab_size],
        rng=LoggingRng(2),
        info={"seed": 2},
        k=k,
        verifier=verify_greedy if temperature == 0 else verify_rejection,
        max_new_tokens=11,
        warp=Warp(temperature, **more),
    )


CASES = {
    "sampled": dict(),
    "greedy": dict(temperature=0.0),
    "top-k": dict(top_k=2),
    "alone": dict(k=0),
    "tables": dict(models=table_pair()),
    "one row": dict(prompts=((3, 1),)),
    "in float32": dict(models=gpt_pair(dtype=torch.float32)),
}


@pytest.mark.parametrize("case", CASES)
def test_round_trip(case, tmp_path):
    """Integers come back exactly, distributions and logits to nine digits, and sums are 1."""
    before = recorded(**CASES[case])
    save_recording(before, tmp_path / "run.json")
    after = load_recording(tmp_path / "run.json")
    assert (after.words, after.draws, dict(after.info)) == (before.words, before.draws, dict(before.info))
    assert after.trace.prompts == before.trace.prompts and after.trace.config == before.trace.config
    for a, b in zip(after.trace.rounds, before.trace.rounds, strict=True):
        for name in ("index", "emitted", "live", "finish", "target_cache", "draft_cache"):
            assert getattr(a, name) == getattr(b, name), name
        for mine, theirs in (
            (a.pending, b.pending),
            (a.draft.tokens, b.draft.tokens),
            (a.draft.lengths, b.draft.lengths),
            (a.verdict.accepted, b.verdict.accepted),
            (a.verdict.token, b.verdict.token),
        ):
            assert mine.tolist() == theirs.tolist()
        for mine, theirs in ((a.draft.probs, b.draft.probs), (a.target_probs, b.target_probs)):
            assert torch.allclose(mine, theirs.double(), rtol=1e-6, atol=1e-7)
            assert torch.allclose(mine.sum(-1), torch.ones(mine.shape[:2], dtype=torch.float64))
            assert torch.equal(mine == 0, theirs == 0)
        mine, theirs = a.target_logits.log_softmax(-1), b.target_logits.double().log_softmax(-1)
        best = theirs.topk(5).indices
        assert torch.allclose(mine.gather(-1, best), theirs.gather(-1, best), rtol=1e-6)
        assert a.seconds == pytest.approx(dict(b.seconds))


def test_small_probabilities_are_added_up_and_named_ones_kept(tmp_path):
    """Of a distribution's tail the mass is kept; a drafted token keeps its own probability, however small."""
    whole = recorded(prompts=((3, 1),), k=2)
    r = whole.trace.rounds[0]
    dist = torch.full((11,), 2e-9, dtype=torch.float64)
    token = int(r.draft.tokens[0, 0])
    dist[token] = 3e-9
    dist[(token + 1) % 11] = 1 - float(dist.sum() - dist[(token + 1) % 11])
    probs = r.draft.probs.clone()
    probs[0, 0] = dist
    spoilt = replace(r, draft=replace(r.draft, probs=probs))
    whole = replace(whole, trace=replace(whole.trace, rounds=(spoilt, *whole.trace.rounds[1:])))
    save_recording(whole, tmp_path / "run.json")
    stored = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))["rounds"][0]["q"][0][0]
    assert token in stored[0] and len(stored[0]) < 11 and stored[2] > 0
    back = load_recording(tmp_path / "run.json").trace.rounds[0].draft.probs[0, 0]
    assert float(back[token]) == pytest.approx(3e-9, rel=1e-8)
    assert float(back.sum()) == pytest.approx(1, abs=1e-12)
    assert float(back.min()) == pytest.approx(2e-9, rel=1e-6)  # the rest is spread, not lost


def test_same_recording_same_file(tmp_path):
    """A recording is written to the same bytes each time."""
    recording = recorded(models=table_pair())
    save_recording(recording, tmp_path / "a.json")
    save_recording(recording, tmp_path / "b.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def spoil(data, *keys, value):
    for step in keys[:-1]:
        data = data[step]
    if value is ...:
        del data[keys[-1]]
    else:
        data[keys[-1]] = value


@pytest.mark.parametrize(
    ("keys", "value", "words"),
    [
        (("format",), "minispec pair", "no recording"),
        (("version",), 3, "version 3"),
        (("version",), ..., "version None"),
        (("rounds", 0, "q"), ..., "q is missing"),
        (("rounds", 0, "pending", 0), 11, "out of range"),
        (("rounds", 0, "drafted", 0, 0), -1, "out of range"),
        (("rounds", 0, "emitted", 0, 0), "x", "out of range"),
        (("rounds", 0, "p", 0, 0, 1, 0), 3.0, "sums to"),
        (("rounds", 0, "p", 0), [], "distributions"),
        (("rounds", 0, "finish", 0), "boredom", "boredom"),
        (("rounds", 0, "draws", 0), [1, 2], "damaged"),
        (("rounds", 0, "target_cache"), [[1], [2], [3]], "target_cache should be"),
        (("rounds", 1, "index"), 5, "counted"),
        (("words",), ["a"], "damaged"),
        (("prompts",), 7, "damaged"),
    ],
)
def test_a_damaged_file_is_one_line(keys, value, words, tmp_path):
    """Whatever is wrong with a file, its name and the reason are said in one line."""
    path = tmp_path / "run.json"
    save_recording(recorded(), path)
    data = json.loads(path.read_text(encoding="utf-8"))
    spoil(data, *keys, value=value)
    path.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(ValueError, match=words) as caught:
        load_recording(path)
    assert "\n" not in str(caught.value) and str(path) in str(caught.value)


@pytest.mark.parametrize("content", [None, b"", b"{", b"\xff\xfe", b"[1]", b"null", b"[" * 100_000])
def test_what_is_no_recording_is_one_line(content, tmp_path):
    """Missing, cut and foreign files are ValueErrors that name the file."""
    path = tmp_path / "run.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match="run.json") as caught:
        load_recording(path)
    assert "\n" not in str(caught.value)


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    """If writing ends half-way, the old file is whole and no other is left."""
    path = tmp_path / "run.json"
    path.write_text("old", encoding="utf-8")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(ValueError, match="No space left"):
        save_recording(recorded(), path)
    assert path.read_text(encoding="utf-8") == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["run.json"]
