"""Measuring: every figure is there and finite, the arithmetic is right, and files survive the round trip."""

import json
import math
from dataclasses import replace

import pytest
from pairs import build_pair
from tiny import table_pair

from minispec import ModelDrafter, SeededRng, Warp, load_pair, record, verify_rejection
from minispec.evidence.bench import machine
from minispec.evidence.bench.measure import (
    acceptance_by_position,
    cost_ratio,
    measure_latency,
    measure_memory,
    measure_speed,
)
from minispec.evidence.bench.measurements import (
    KINDS,
    Latency,
    load_measurement,
    save_measurement,
    saved,
    zoo_measurement,
)
from minispec.evidence.theory.formulas import expected_tokens_by_position, kv_cache_bytes, speed_up
from minispec.evidence.zoo.checks import CHECKS
from minispec.evidence.zoo.matrix import CheckResult, Damage, Specimen, Zoo
from minispec.evidence.zoo.mutants import mutant_named


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return load_pair(build_pair(tmp_path_factory.mktemp("pairs") / "tiny", max_length=100))


def finite(points):
    return all(math.isfinite(x) for point in points for x in vars(point).values() if not isinstance(x, str))


def test_latency_has_a_point_per_width(pair):
    """One median per width between its quartiles, and the cache is as it was."""
    points = measure_latency(pair.target, [1, 3, 9], cached=20, repeats=4, name="big")
    assert [(point.model, point.width) for point in points] == [("big", 1), ("big", 3), ("big", 9)]
    assert all(0 < point.low <= point.seconds <= point.high for point in points)


def test_what_does_not_fit_the_context_is_refused(pair):
    """By the cache, before anything is measured."""
    with pytest.raises(ValueError, match="context is full"):
        measure_latency(pair.target, [90], cached=20)


def test_cost_ratio_is_draft_over_target():
    """A draft of 1 ms beside a target of 4 ms costs 0.25."""
    target = [Latency("target", 5, 0.006, 0, 0), Latency("target", 1, 0.004, 0, 0)]
    assert cost_ratio(target, [Latency("draft", 1, 0.001, 0, 0)]) == 0.25


def test_acceptance_by_position_predicts_tokens_per_call():
    """With every block K wide, 1 + Σ Π α_j of the measured rates is the measured tokens per call, exactly."""
    target, draft = table_pair(max_length=400)
    trace = record(
        target,
        ModelDrafter(draft),
        [[1, 2], [3, 4]],
        k=3,
        verifier=verify_rejection,
        max_new_tokens=300,
        warp=Warp(1.0),
        rng=SeededRng(0),
    )
    whole = replace(
        trace, rounds=tuple(r for r in trace.rounds if r.draft.lengths.tolist() == [3, 3] and all(r.live))
    )
    alphas = acceptance_by_position(whole)
    assert len(alphas) == 3 and 0 < min(alphas) < max(alphas) < 1
    assert expected_tokens_by_position(alphas) == pytest.approx(whole.statistics().tokens_per_target_call)


def test_speed_is_predicted_from_what_was_measured(pair):
    """Per K a finite point; the simple prediction is theorem 3.8 of its own α and c."""
    points = measure_speed(pair, [1, 3], prompts=2, new_tokens=6)
    assert [point.k for point in points] == [1, 3] and finite(points)
    for point in points:
        assert point.low <= point.gain <= point.high and 0 < point.alpha <= 1
        assert point.simple == pytest.approx(speed_up(point.alpha, point.k, point.c))


def test_memory_counts_weights_and_caches(pair):
    """Of both models."""
    parts = measure_memory(pair)
    assert [(part.model, part.what) for part in parts] == [
        (model, what) for model in ("target", "draft") for what in ("weights", "cache")
    ]
    assert parts[0].bytes == 4 * pair.target.parameters_count
    assert parts[1].bytes == kv_cache_bytes(pair.target.config, pair.target.max_length)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_comes_with_the_package_and_survives_the_round_trip(tmp_path, kind):
    """Each has points of its kind, machine and date; it is written whole, and nothing else is left behind."""
    found, path = saved(kind), tmp_path / f"{kind}.json"
    assert found.points and all(type(point) is KINDS[kind] for point in found.points)
    assert found.date.startswith("20") and found.date in found.where
    save_measurement(found, path)
    assert load_measurement(path) == found and list(tmp_path.iterdir()) == [path]


def test_zoo_becomes_rows(tmp_path):
    """A mark per check: killed, killed by an exception, missed."""
    cells = {check.name: CheckResult(False) for check in CHECKS}
    cells["law"] = CheckResult(True, "why")
    cells["law-gpt"] = CheckResult(True, "error", crashed=True)
    specimen = Specimen(mutant_named("ratio-inverted"), "a case", Damage(0.1, True, (1, 1), (1, 1)), cells)
    save_measurement(zoo_measurement(Zoo((specimen,), CHECKS, {}, 1.0).to_json()), tmp_path / "zoo.json")
    read = load_measurement(tmp_path / "zoo.json")
    (row,) = read.points
    assert (row.name, row.module, row.effect) == ("ratio-inverted", "verify", "biased")
    assert row.marks == "x!" + "." * (len(CHECKS) - 2)
    assert read.conditions["checks"][0] == "law" and len(read.conditions["theirs"]) == 3


@pytest.mark.parametrize(
    "damage",
    [
        {"kind": "weather"},
        {"format": 2},
        {"points": [{"rows": 1}]},
        {"points": 3},
        {"machine": None, "date": ...},
    ],
)
def test_broken_files_are_refused(tmp_path, damage):
    """A file of another kind or format, or with something missing, ends in one line."""
    path = tmp_path / "batches.json"
    save_measurement(saved("batches"), path)
    document = json.loads(path.read_text()) | damage
    path.write_text(json.dumps({name: x for name, x in document.items() if x is not ...}))
    with pytest.raises(ValueError, match=r"batches\.json") as caught:
        load_measurement(path)
    assert "\n" not in str(caught.value)


def test_files_that_are_none(tmp_path):
    """A missing file, and one that is not JSON, end in one line; an unknown kind is told which there are."""
    (tmp_path / "text.json").write_text("hello")
    for name in ("none.json", "text.json"):
        with pytest.raises(ValueError, match="cannot be read"):
            load_measurement(tmp_path / name)
    with pytest.raises(ValueError, match="there is latency, speed"):
        saved("weather")


def test_a_system_without_proc_says_what_it_is(monkeypatch):
    """macOS and Windows have no /proc/cpuinfo: there `platform` knows the processor, or nobody."""

    def absent(*_, **__):
        raise FileNotFoundError

    monkeypatch.setattr("builtins.open", absent)
    monkeypatch.setattr(machine.platform, "processor", lambda: "Apple M4")
    assert machine.processor() == "Apple M4"
    monkeypatch.setattr(machine.platform, "processor", lambda: "")
    assert machine.processor() == "unknown"
