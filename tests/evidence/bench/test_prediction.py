"""What a bench report says of its own predictions."""

import pytest

from minispec.drafters.costs import Costs
from minispec.evidence.bench.interleaved import Setting
from minispec.evidence.bench.prediction import compare, measured, predict
from minispec.evidence.bench.section import BenchRun
from minispec.evidence.theory.predict import predict_speed_up

ROW = {"speedup_quartiles": [1.9, 2.1], "speedup": 2.0}
FOUND = {  # two K and a draft were predicted, a batch was not
    "prediction": {
        "settings": [
            {"setting": name, "speedup": gain, "simple": 3.0}
            for name, gain in (("a", 2.2), ("b", 1.2), ("d", 1.2))
        ]
    },
    "widths": {
        "sweep": [
            ROW | {"setting": "a"},
            ROW | {"setting": "b", "speedup": 2.5},
            ROW | {"setting": "unforeseen", "speedup": 9.0},
        ],
        "settings": [ROW | {"setting": "a", "speedup": 2.2}],
    },
    "drafts": {"points": [{"setting": "d", "gain": 1.2, "low": 1.1, "high": 1.3}]},
    "batch": {"points": [{"setting": "8 rows", "gain": 0.9, "low": 0.8, "high": 1.1}]},
}


def test_predictions_are_compared_with_measurements():
    """Relative errors over all that was predicted, on both halves of the prompts."""
    compared = compare(FOUND)
    assert [(row["setting"], row["prompts"]) for row in compared["rows"]] == [
        ("a", "choosing"), ("b", "choosing"), ("a", "reporting"), ("d", "reporting")
    ]  # fmt: skip
    assert [row["error"] for row in compared["rows"]] == pytest.approx([0.1, -0.52, 0.0, 0.0])
    assert compared["worst_error"] == pytest.approx(0.52) and compared["median_error"] == pytest.approx(0.05)
    assert compared["simple_worst_error"] == pytest.approx(1.5)
    assert compare({"widths": FOUND["widths"]}) == {}
    assert [row["setting"] for row in measured(FOUND)][-2:] == ["d", "8 rows"]


def test_the_baseline_is_where_the_target_is_fastest():
    """If the target alone is twice as fast elsewhere, the promise is half as large, and c twice."""
    rows = [
        {"path": path, "threads": 1, "verifier": "greedy", "target_only": rate}
        for path, rate in (("torch", 50.0), ("native", 100.0))
    ]
    places = {"baseline": {"path": "native", "threads": 1}, "speculative": {"path": "torch", "threads": 1}}
    bench = BenchRun(None, None, None, results={"target-only": {"rows": rows} | places})
    costs = Costs(0.1, {1: 1.0, 4: 1.2})
    texts = [[0.8] * 20]
    compared = predict(bench, Setting(None, 3, "greedy"), costs, texts)
    assert compared["speedup"] == pytest.approx(predict_speed_up(costs, texts, 3).speed_up / 2)
    assert compared["c"] == pytest.approx(0.2) and compared["setting"] == "greedy, T = 0, K = 3"
