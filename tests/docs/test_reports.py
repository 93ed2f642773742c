"""Reports: what is taken out of one, and what a person may type wrong."""

import json

import pytest
from book.reports import MAKERS, main, measurement_of

from minispec.evidence.bench.measurements import DraftPoint, SpeedPoint, saved


def report(path="native"):
    """A report with a little of everything that is taken out of one."""
    latency = [
        {"path": p, "threads": 1, "model": m, "width": 1, "seconds": s, "low": s, "high": s}
        for p, s in (("torch", 2.0), ("native", 1.0))
        for m in ("target", "draft")
    ]
    row = {"speedup": 2.0, "speedup_quartiles": [1.5, 2.5], "acceptance": 0.8, "k": 4}
    sweep = [row | {"verifier": v, "setting": f"{v} K=4"} for v in ("greedy", "rejection")]
    said = [{"setting": f"{v} K=4", "c": 0.1, "simple": 3.0, "speedup": 2.1} for v in ("greedy", "rejection")]
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
            "target-only": {side: {"path": path, "threads": 1} for side in ("baseline", "speculative")},
            "widths": {"sweep": sweep},
            "prediction": {"settings": said},
            "drafts": {"points": [draft]},
            "batch": {"points": [batch]},
        },
    }


def test_a_report_becomes_a_file_for_each_kind(tmp_path):
    """Latencies of the fastest backend, the sampled sweep with what was predicted, machine, date."""
    (tmp_path / "report.json").write_text(json.dumps(report()))
    assert main([str(tmp_path / "report.json"), str(tmp_path)]) == 0
    found = {kind: saved(kind, tmp_path) for kind in MAKERS}
    assert [point.seconds for point in found["latency"].points] == [1.0, 1.0]
    assert found["speed"].points == (SpeedPoint(4, 0.8, 0.1, 2.0, 1.5, 2.5, 3.0, 2.1),)
    assert found["drafts"].points == (DraftPoint("1×16", 9, 0.7, 0.1, 4, 1.5, 1.4, 1.6),)
    assert found["batches"].points[0].speculative == 15.0
    for measurement in found.values():
        assert measurement.where == "a processor, 2 of 2 cores, 2026-01-02"
        assert measurement.conditions["pair"] == "tiny"
    assert found["speed"].conditions["target_only"] == "native, 1 threads"


@pytest.mark.parametrize("arguments", [[], ["one", "two", "three"], ["--short"]])
def test_wrong_arguments_are_told_the_usage(arguments, capsys):
    """Nothing is written, and the exit status is 2."""
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith("usage: ")


@pytest.mark.parametrize(
    ("text", "words"),
    [(None, "no report"), ("{", "not JSON"), ("[]", "no report"), ('{"kind": "zoo"}', "no report of")],
)
def test_files_that_are_no_reports(tmp_path, capsys, text, words):
    """One line says what is wrong, with exit status 2."""
    path = tmp_path / "r.json"
    if text is not None:
        path.write_text(text)
    assert main([str(path), str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1


def test_a_report_that_lacks_a_section(tmp_path):
    """The message says which, and how to get it."""
    short = report()
    del short["sections"]["batch"]
    with pytest.raises(ValueError, match="'batch'.*--full"):
        measurement_of(short, "batches")
    assert len(measurement_of(short, "drafts").points) == 1
