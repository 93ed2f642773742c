"""The section on batches: a queue with refilled rows and without, and where speculation stops paying."""

import pytest
import torch

from minispec import load_pair
from minispec.evidence.bench.batches import Queue, speed_up_row
from minispec.evidence.bench.interleaved import Run, Setting
from minispec.native.backend import on_backend


@pytest.fixture(scope="module")
def exact(pair):
    """The pair in float64, where greedy texts are equal."""
    return load_pair(pair.folder, dtype=torch.float64)


@pytest.mark.parametrize("refill", [False, True])
@pytest.mark.parametrize("k", [0, 3])
def test_a_queue_gives_each_prompts_text(exact, k, refill):
    """In the order of the prompts, whatever the row and the batch in which they were decoded."""
    models = on_backend(exact, "torch")
    prompts = [exact.info["prompts"][i][: 32 - 5 * i] for i in range(5)]
    queued = Setting(models, k, "greedy", 0.0)
    run = Queue(queued, 2, refill).decode(prompts, seed=0, new_tokens=9)
    assert run.texts == tuple(Setting(models).decode([prompt], 0, 9).texts[0] for prompt in prompts)
    assert run.seconds_per_token == pytest.approx(run.seconds / 45)


def test_live_places_are_counted(exact):
    """Texts of 2, 1, 4 and 1 tokens in two rows take 5 steps with refill, and 2 and 4 without."""
    lengths = [2, 1, 4, 1]  # as many as the context has space for
    prompts = [[1] * (exact.target.max_length - n) for n in lengths]
    setting = Setting(on_backend(exact, "torch"))
    without, refilled = (Queue(setting, 2, refill).decode(prompts, 0, 9) for refill in (False, True))
    assert without.live == 8 / 12 and refilled.live == 8 / 10
    assert without.texts == refilled.texts and [len(text) for text in refilled.texts] == lengths


def test_rates_and_gains_are_of_all_rows_together():
    """Two texts of two tokens in four seconds and in two."""
    sides = [[Run(seconds, ((1, 2), (3, 4)))] for seconds in (4.0, 2.0)]
    assert speed_up_row(*sides) == {
        "target_only": 1.0,
        "speculative": 2.0,
        "low": 2.0,
        "gain": 2.0,
        "high": 2.0,
    }
