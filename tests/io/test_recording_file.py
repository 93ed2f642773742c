"""Recordings on disk: what is not stored by itself is added up; what is no recording is one clear line."""

import json
from dataclasses import replace

import pytest
import torch
from refusals import refused
from tiny import gpt_pair

from minispec import ModelDrafter, Warp, verify_rejection
from minispec.io.recording import LoggingRng, record_run
from minispec.io.recording_file import load_recording, save_recording


def test_small_probabilities_are_added_up_and_named_ones_kept(tmp_path):
    """Of a distribution's tail the mass is kept; a drafted token keeps its own probability, however small."""
    target, draft = gpt_pair()
    settings = {"k": 2, "verifier": verify_rejection, "max_new_tokens": 3, "warp": Warp()}
    whole = record_run(target, ModelDrafter(draft), [[3, 1]], "abcdefghijk", rng=LoggingRng(2), **settings)
    r = whole.trace.rounds[0]
    token = int(r.draft.tokens[0, 0])
    dist = torch.full((11,), 2e-9, dtype=torch.float64)
    dist[token] = 3e-9
    dist[(token + 1) % 11] += 1 - float(dist.sum())
    probs = r.draft.probs.clone()
    probs[0, 0] = dist
    r = replace(r, draft=replace(r.draft, probs=probs))
    trace = replace(whole.trace, rounds=(r, *whole.trace.rounds[1:]))
    save_recording(replace(whole, trace=trace), tmp_path / "run.json")
    stored = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))["rounds"][0]["q"][0][0]
    assert token in stored[0] and len(stored[0]) < 11 and stored[2] > 0
    back = load_recording(tmp_path / "run.json").trace.rounds[0].draft.probs[0, 0]
    assert float(back[token]) == pytest.approx(3e-9, rel=1e-8)
    assert float(back.sum()) == pytest.approx(1, abs=1e-12)
    assert float(back.min()) == pytest.approx(2e-9, rel=1e-6)  # the rest is spread, not lost


@pytest.mark.parametrize("content", [None, b"", b"{", b"\xff\xfe", b"[1]", b"null", b"[" * 100_000])
def test_what_is_no_recording_is_one_line(content, tmp_path):
    """Missing, cut and foreign files are ValueErrors that name the file."""
    path = tmp_path / "run.json"
    if content is not None:
        path.write_bytes(content)
    with refused("run.json"):
        load_recording(path)
