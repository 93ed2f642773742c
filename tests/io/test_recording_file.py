"""Recordings on disk: what is not stored by itself is added up; what is no recording is one clear line."""

from dataclasses import replace

import pytest
import torch
from records import round_of

from minispec import Trace
from minispec.io.files import read_json
from minispec.io.recording import Recording
from minispec.io.recording_file import load_recording, save_recording


def test_small_probabilities_are_added_up_and_named_ones_kept(tmp_path):
    """Of a distribution's tail the mass is kept; a drafted token keeps its own probability, however small."""
    r = round_of(0, [[3], [5]], [1, 1], [1, 1], [7, 0], ((3, 7), (5, 0)), (True, True), (None, None))
    dists = torch.full((2, 1, 8), 2e-9, dtype=torch.float64)
    dists[0, 0, 3] = 3e-9
    dists[..., 4] += 1 - dists.sum(-1)
    r = replace(r, draft=replace(r.draft, probs=dists))
    trace = Trace(((0,) * 3, (0,) * 8), {}, (r,))
    save_recording(Recording(trace, tuple("abcdefgh"), ((),)), tmp_path / "run.json")
    stored = read_json(tmp_path / "run.json")["rounds"][0]["q"][0][0]
    assert stored[0] == [3, 4, 7] and stored[2] > 0
    back = load_recording(tmp_path / "run.json").trace.rounds[0].draft.probs[0, 0]
    assert float(back[3]) == pytest.approx(3e-9, rel=1e-8)
    assert float(back.sum()) == pytest.approx(1, abs=1e-12)
    assert float(back.min()) == pytest.approx(2e-9, rel=1e-6)  # the rest is spread, not lost
