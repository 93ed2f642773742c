"""Measuring: every figure is there, the arithmetic is right, and files survive the round trip."""

import pytest
from pairs import edit_json
from refusals import refused

from minispec.evidence.bench import machine as machine_module
from minispec.evidence.bench.measure import measure_latency, measure_memory
from minispec.evidence.bench.measurements import (
    KINDS,
    load_measurement,
    save_measurement,
    saved,
    zoo_measurement,
)
from minispec.evidence.theory.formulas import kv_cache_bytes
from minispec.evidence.zoo.checks import CHECKS
from minispec.evidence.zoo.matrix import CheckResult, Damage, Specimen, Zoo
from minispec.evidence.zoo.mutants import mutant_named


def test_latency_has_a_point_per_width(pair):
    """One median per width between its quartiles, and the cache is as it was."""
    points = measure_latency(pair.target, [1, 3, 9], cached=20, repeats=4, name="big")
    assert [(point.model, point.width) for point in points] == [("big", 1), ("big", 3), ("big", 9)]
    assert all(0 < point.low <= point.seconds <= point.high for point in points)


def test_memory_counts_weights_and_caches(pair):
    """Of both models."""
    parts = measure_memory(pair)
    assert list(parts) == [(model, what) for model in ("target", "draft") for what in ("weights", "cache")]
    assert parts["target", "weights"] == 4 * pair.target.parameters_count
    assert parts["target", "cache"] == kv_cache_bytes(pair.target.config, pair.target.max_length)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_comes_with_the_package_and_survives_the_round_trip(tmp_path, kind):
    """Each has points of its kind, machine and date; it is written whole, and nothing else is left behind."""
    measurement = saved(kind)
    path = tmp_path / f"{kind}.json"
    assert measurement.points and all(type(point) is KINDS[kind] for point in measurement.points)
    assert measurement.date.startswith("20")
    assert (
        f"{measurement.machine['threads']} of {measurement.machine['cores']} cores, {measurement.date}"
        in measurement.where
    )
    save_measurement(measurement, path)
    assert load_measurement(path) == measurement and list(tmp_path.iterdir()) == [path]


def test_zoo_becomes_rows(tmp_path):
    """A mark per check: killed, killed by an exception, missed."""
    cells = {check.name: CheckResult(False) for check in CHECKS}
    cells["distribution"] = CheckResult(True, "why")
    cells["distribution-gpt"] = CheckResult(True, "error", crashed=True)
    specimen = Specimen(mutant_named("ratio-inverted"), "a case", Damage(0.1, True, (1, 1), (1, 1)), cells)
    save_measurement(zoo_measurement(Zoo((specimen,), CHECKS, {}, 1.0).to_json()), tmp_path / "zoo.json")
    read = load_measurement(tmp_path / "zoo.json")
    (row,) = read.points
    assert (row.name, row.module, row.effect) == ("ratio-inverted", "verify", "biased")
    assert row.marks == "x!" + "." * (len(CHECKS) - 2)
    assert read.conditions["checks"][0] == "distribution" and len(read.conditions["theirs"]) == 3


@pytest.mark.parametrize(
    "damage",
    [{"kind": "weather"}, {"format": 2}, {"points": [{"rows": 1}]}, {"points": 3}, {"date": ...}],
)
def test_broken_files_are_refused(tmp_path, damage):
    """A file of another kind or format, or with something missing, ends in one line."""
    path = tmp_path / "batches.json"
    save_measurement(saved("batches"), path)
    edit_json(path, **damage)
    with refused(r"batches\.json"):
        load_measurement(path)


def test_a_system_without_proc_says_what_it_is(monkeypatch):
    """macOS and Windows have no /proc/cpuinfo: there `platform` knows the processor, or nobody."""

    def absent(*_, **__):
        raise FileNotFoundError

    monkeypatch.setattr("builtins.open", absent)
    monkeypatch.setattr(machine_module.platform, "processor", lambda: "Apple M4")
    assert machine_module.processor() == "Apple M4"
    monkeypatch.setattr(machine_module.platform, "processor", lambda: "")
    assert machine_module.processor() == "unknown"
