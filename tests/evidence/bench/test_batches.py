"""The section on batches: a queue with refilled rows and without, and where speculation stops paying."""

import pytest
import torch

from minispec import load_pair
from minispec.evidence.bench import batches
from minispec.evidence.bench.batches import Queue, mixed_prompts, speed_up_row, stops_paying
from minispec.evidence.bench.interleaved import Run, Setting
from minispec.evidence.bench.section import BenchRun, group
from minispec.native.backend import on_backend


@pytest.fixture(scope="module")
def exact(pair):
    """The pair in float64, where greedy texts are equal."""
    return load_pair(pair.folder, dtype=torch.float64)


@pytest.fixture
def bench(exact, tiny):
    best = {"path": "torch", "threads": 1}
    results = {"target-only": {"baseline": best, "speculative": best}}
    return BenchRun(exact, tiny, group(exact, tiny), results=results)


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


def test_prompts_are_of_mixed_lengths(bench):
    """From 32 tokens to three quarters of the context, each a beginning of a text that the target wrote."""
    prompts = mixed_prompts(bench, 300)
    sizes = [len(prompt) for prompt in prompts]
    assert len(prompts) == 300 and set(sizes) == set(range(32, 97))
    assert all(prompt[:32] in [*bench.prompts.reporting, *bench.prompts.choosing] for prompt in prompts)
    assert abs(sum(sizes[:20]) / 20 - 64) < 6  # mixed from the start
    assert prompts == mixed_prompts(bench, 300)


def test_each_queue_has_four_sides(bench, monkeypatch):
    """Without refill and with it, the target alone and with its draft, for every number of rows."""
    monkeypatch.setattr(batches, "PER_ROW", 3)
    monkeypatch.setattr(batches, "QUEUES", 1)
    measured = batches.measure(bench)
    assert [point["rows"] for point in measured["points"]] == [1, 3]
    queue = measured["queue"]
    assert [(point["rows"], point["refill"]) for point in queue] == [
        (1, False), (1, True), (3, False), (3, True)
    ]  # fmt: skip
    for point in queue:
        assert 0 < point["live_speculative"] <= 1 and 0 < point["low"] <= point["gain"] <= point["high"]
        assert point["gain"] == pytest.approx(point["speculative"] / point["target_only"])  # a single run
    assert queue[0]["live_target_only"] == queue[1]["live_speculative"] == 1.0  # one row is never empty
    assert set(measured["stops_paying"]) == {"with", "without"}


def test_where_speculation_stops_paying():
    """The first size at which the target alone is faster, of its own kind of queue."""
    gains = {1: (1.5, 1.6), 8: (0.9, 1.1), 16: (1.1, 1.0)}  # without refill, and with it
    queue = [
        {"rows": rows, "refill": refill, "gain": gain[refill]}
        for rows, gain in gains.items()
        for refill in (False, True)
    ]
    assert stops_paying(queue, refill=False) == 8 and stops_paying(queue, refill=True) is None


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
