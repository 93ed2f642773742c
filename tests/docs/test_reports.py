"""Reports: what is taken out of one, and what a person may do wrong."""

import json

import pytest
from book.__main__ import main
from book.reports import MAKERS, measurement_of

from minispec.evidence.bench.measurements import DraftPoint, SpeedPoint, saved

VERIFIERS = ("greedy", "rejection")


def report():
    """A report with a little of everything that is taken out of one."""
    latency = [
        {"path": p, "threads": 1, "model": m, "width": width, "seconds": s, "low": s, "high": s}
        for p, s in (("torch", 2.0), ("native", 1.0))
        for m in ("target", "draft")
        for width in (1, 4)  # the second is not shown
    ]
    row = {"speedup": 2.0, "speedup_quartiles": [1.5, 2.5], "acceptance": 0.8, "k": 4}
    said = {"c": 0.1, "simple": 3.0, "speedup": 2.1}
    gain = {"gain": 1.5, "low": 1.4, "high": 1.6}
    draft = {"name": "1×16", "parameters": 9, "alpha": 0.7, "c": 0.1, "k": 4, "setting": "…"} | gain
    batch = {"rows": 2, "target_only": 10.0, "speculative": 15.0} | gain
    return {
        "kind": "bench",
        "date": "2026-01-02",
        "pair": "tiny",
        "machine": {"cores": 2, "threads": 2, "processor": "a processor", "gpu": None},
        "conditions": {"dtype": "float32", "plan": {"new_tokens": 160}, "prompt_tokens": 32, "seed": 0},
        "sections": {
            "latency": {"points": latency},
            "target-only": {side: {"path": "native", "threads": 1} for side in ("baseline", "speculative")},
            "widths": {"sweep": [row | {"verifier": v, "setting": f"{v} K=4"} for v in VERIFIERS]},
            "prediction": {"settings": [said | {"setting": f"{v} K=4"} for v in VERIFIERS]},
            "drafts": {"points": [draft]},
            "batch": {"points": [batch]},
        },
    }


def test_a_report_becomes_a_file_for_each_kind(tmp_path):
    """Latencies of the fastest backend, the sampled sweep with what was predicted, machine, date."""
    (tmp_path / "report.json").write_text(json.dumps(report()))
    with pytest.raises(SystemExit, match="^0$"):
        main(["measurements", str(tmp_path / "report.json"), "--folder", str(tmp_path)])
    found = {kind: saved(kind, tmp_path) for kind in MAKERS}
    assert [point.seconds for point in found["latency"].points] == [1.0, 1.0]
    assert found["speed"].points == (SpeedPoint(4, 0.8, 0.1, 2.0, 1.5, 2.5, 3.0, 2.1),)
    assert found["drafts"].points == (DraftPoint("1×16", 9, 0.7, 0.1, 4, 1.5, 1.4, 1.6),)
    assert found["batches"].points[0].speculative == 15.0
    for measurement in found.values():
        assert measurement.where == "a processor, 2 of 2 cores, 2026-01-02"
        assert measurement.conditions["pair"] == "tiny"
    assert found["speed"].conditions["target_only"] == "native, 1 threads"


def test_a_report_that_lacks_a_section(tmp_path, capsys):
    """One line says which, and how to get it; nothing is written."""
    short = report()
    del short["sections"]["batch"]
    assert len(measurement_of(short, "drafts").points) == 1
    (tmp_path / "report.json").write_text(json.dumps(short))
    with pytest.raises(SystemExit, match="^2$"):
        main(["measurements", str(tmp_path / "report.json"), "--folder", str(tmp_path)])
    error = capsys.readouterr().err
    assert "'batch'" in error and "--full" in error and error.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]
