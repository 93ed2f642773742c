"""Forwards at real sizes: the same weights everywhere, every figure in its row, and what lacks says why."""

from dataclasses import replace

import pytest
import torch

from minispec.core.model import GPTConfig
from minispec.drafters.costs import Costs
from minispec.evidence.bench import measure, real_sizes
from minispec.evidence.bench.interleaved import Run
from minispec.evidence.bench.machine import using_threads
from minispec.evidence.bench.real_sizes import (
    TOLERANCES,
    backends,
    decoding_of,
    difference,
    predicted,
    random_model,
)
from minispec.evidence.bench.run import run_bench
from minispec.evidence.bench.section import QUICK, Section
from minispec.io.trace import Statistics
from minispec.native.loop import Forwards

TIED = GPTConfig(50, layers=2, width=32, heads=4, kv_heads=2, ffn=48, max_length=96, tied=True)
UNTIED = replace(TIED, tied=False, rope_theta=500.0)
SHAPES = {"tiny": TIED, "smaller": replace(TIED, layers=1)}


def refuse(model):
    raise ValueError("it is not installed")


def test_every_shape_type_and_number_of_threads_has_its_row(pair, monkeypatch):
    """At the top of the document, with the keys that outside checks read; what cannot be had says why."""
    monkeypatch.setattr(real_sizes, "SHAPES", SHAPES)
    monkeypatch.setattr(real_sizes, "SETTLE", 1e-4)
    makers = real_sizes.MAKERS | {"absent": refuse}
    more = [Section("real-sizes", lambda bench: real_sizes.measure(bench, makers))]
    report = run_bench(pair, sections=("real-sizes",), plan=replace(QUICK, latencies=1), more=more)
    rows = report["real_sizes"]
    section = report["sections"]["real-sizes"]
    keys = [(row["shape"], row["backend"], row["dtype"], row["threads"]) for row in rows]
    assert len(set(keys)) == len(keys)
    for shape in SHAPES:
        for backend, dtype in (("torch", "float32"), ("native", "bfloat16"), ("native", "int8")):
            assert (shape, backend, dtype, 1) in keys
    for row in rows:
        assert set(row["milliseconds"]) == {"1", "5", "9"} and min(row["milliseconds"].values()) > 0
        assert row["tokens_per_second"] == pytest.approx(1000 / row["milliseconds"]["1"])
        assert len(row["predicted_speedup"]) == 6
        is_decoded = (row["backend"], row["threads"]) == ("native", torch.get_num_threads())
        assert ("decoding" in row) is is_decoded
        for one in row.get("decoding", ()):
            assert min(one["milliseconds_per_token"], one["over_forward"]) > 0
        decodings = [(one["temperature"], one["k"]) for one in row.get("decoding", ())]
        assert decodings == ([(0.0, 0), (1.0, 0), (0.0, 4), (1.0, 4)] if is_decoded else [])
    assert section["unavailable"] == {
        f"absent, {dtype}": "it is not installed" for dtype in ("float32", "bfloat16")
    }
    assert section["parameters"]["tiny"] == random_model(TIED, "float32").parameters_count


def test_figures_are_medians_of_what_ran_with_so_many_threads(monkeypatch):
    """Milliseconds with quartiles, by new tokens; a task computes with its own number of threads."""

    def timed(tasks, repeats, settle):
        for (_, _, threads, _), task in tasks.items():
            task()
            assert torch.get_num_threads() == threads
        return {key: [0.001 * key[3], 0.002 * key[3], 0.004 * key[3]] for key in tasks}

    monkeypatch.setattr(real_sizes, "interleaved_seconds", timed)
    with using_threads(2), torch.inference_mode():
        point, two = real_sizes.measure_models({("torch", "float32"): random_model(TIED, "float32")}, 1)
    assert point["milliseconds"] == two["milliseconds"] == pytest.approx({"1": 2, "5": 10, "9": 18})
    assert point["quartiles"]["5"] == pytest.approx([7.5, 15]) and (point["threads"], two["threads"]) == (
        1,
        2,
    )


def test_decoding_is_compared_with_its_forwards():
    """10 tokens in 55 ms, of 5 ms each; 8 in 4 rounds of 3 drafted tokens, 7.25 + 3 ms: a tenth more."""
    costs = Costs(1.0, {1: 5.0, 5: 8.0, 9: 9.0})  # t(4) is 7.25
    alone = Run(0.065, ((0,) * 10,), forwards=Forwards(0.0, 1.0, 0.010))
    wanted = {"milliseconds_per_token": 5.5, "over_forward": 1.1}
    assert decoding_of([alone] * 3, costs) == pytest.approx(wanted)
    counts = Statistics(8, 4, 4, 4, 8, 12, {})
    drafted = Run(0.0551, ((0,) * 8,), counts, forwards=Forwards(0.0, 1.0, 0.010))
    wanted = {"milliseconds_per_token": 45.1 / 8, "over_forward": 1.1}
    assert decoding_of([drafted], costs) == pytest.approx(wanted)


def test_the_speed_up_is_predicted_at_the_best_k():
    """Where checking is free, at K = 8; where each token costs a forward, drafting does not pay."""
    free, dear = (
        {(p["draft"], p["acceptance"]): p for p in predicted(t)}
        for t in ({"1": 2.0, "5": 2.0, "9": 2.0}, {"1": 1.0, "5": 5.0, "9": 9.0})
    )
    assert free[0.05, 0.8]["k"] == 8
    assert free[0.05, 0.8]["speedup"] == pytest.approx((1 - 0.8**9) / 0.2 / 1.4)
    assert free[0.1, 0.6]["k"] == 3  # of 1.6/1.1, 1.96/1.2, 2.176/1.3, 2.3056/1.4
    assert free[0.1, 0.6]["speedup"] == pytest.approx(2.176 / 1.3)
    assert all(p["k"] == 0 and p["speedup"] == 1 for p in dear.values())
    between = predicted({"1": 1.0, "5": 1.4, "9": 9.0})[2]  # t(3) is 1.2, on a straight line
    assert between["k"] == 4 and between["speedup"] == pytest.approx(sum(0.8**i for i in range(5)) / 1.8)


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_a_backend_with_other_weights_is_not_timed(dtype):
    """The readable code in bfloat16 is near enough itself."""
    model = random_model(TIED, dtype)
    other = random_model(replace(TIED, rope_theta=1000.0), dtype)
    makers = {"ours": lambda model: model, "other": lambda model: other}
    lack = {}
    assert list(backends(model, dtype, makers, lack)) == ["ours"]
    assert list(lack) == [f"other, {dtype}"] and "logits" in lack[f"other, {dtype}"]


def test_no_part_of_a_random_model_is_idle():
    """Each weight matters to the logits, far more than rounding; bfloat16 rounds the same weights."""
    model = random_model(UNTIED, "float32")
    ids = torch.arange(9)[None]
    wanted = model(ids)
    gains = [tuple(w.tolist()) for w in model.parameters() if w.dim() == 1]
    assert len(set(gains)) == len(gains) == 5  # one for another would be noticed
    for name, weight in model.named_parameters():
        before = weight.clone()
        weight.mul_(1.5)
        assert difference(model(ids), wanted) > 10 * TOLERANCES["float32"], name
        weight.copy_(before)
    rounded = random_model(UNTIED, "bfloat16")
    for point, half in zip(model.parameters(), rounded.parameters(), strict=True):
        assert torch.equal(point.bfloat16(), half)


def test_a_task_may_run_until_others_threads_sleep(monkeypatch):
    """At least once and for so many seconds before the run that counts, with a clock that is not real."""
    clock = [0.0]
    calls = []

    def task():
        clock[0] += 0.4
        calls.append(1)

    monkeypatch.setattr(measure, "perf_counter", lambda: clock[0])
    results = measure.interleaved_seconds({"a": task}, 1, settle=1.0)
    assert results["a"] == pytest.approx([0.4]) and len(calls) == (1 + measure.WARM_UP_PASSES) * (3 + 1)
    calls.clear()
    measure.interleaved_seconds({"a": task}, 1)
    assert len(calls) == (1 + measure.WARM_UP_PASSES) * measure.RUNS_PER_PASS
