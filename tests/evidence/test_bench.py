"""The bench: its document is complete, and its arithmetic is right."""

import math

import pytest
from pairs import build_pair

from minispec import load_pair
from minispec.decoding.records import Statistics
from minispec.evidence.bench import Setting, Turn, quartiles, run_bench


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return load_pair(build_pair(tmp_path_factory.mktemp("pairs") / "tiny"))


def test_report_is_complete(pair):
    """The report has what outside checks read, for both verifiers, and every figure is finite."""
    report = run_bench(pair, widths=(1, 2), repeats=1, prompts=4, new_tokens=8)
    assert report["machine"]["cores"] >= 1
    assert [s["verifier"] for s in report["settings"]] == ["greedy", "rejection"]
    assert len(report["sweep"]) == 4
    for setting in report["settings"]:
        assert setting["pair"] == "tiny" and setting["k"] in (1, 2)
        assert math.isfinite(setting["speedup"]) and setting["speedup"] > 0
        assert 0 <= setting["acceptance"] <= 1 and setting["tokens_per_target_call"] >= 1
        assert {"draft", "verify", "rollback", "other"} <= setting["seconds"].keys()
    assert all(size > 0 for size in report["memory_bytes"].values())


def test_speedup_is_the_median_ratio():
    """Turns of 4, 2 and 1 times as fast give 2; acceptance is accepted over tested."""
    statistics = Statistics(20, 5, 5, 15, 20, 25, {"draft": 1.0})
    turns = [Turn(ratio, 1.0, statistics) for ratio in (4.0, 1.0, 2.0)]
    setting = Setting("p", "greedy", 0.0, 5, turns)
    assert setting.speedup == 2.0
    figures = setting.to_json()
    assert figures["acceptance"] == 0.75 and figures["tokens_per_target_call"] == 4.0
    assert figures["speedup_quartiles"] == [1.5, 3.0]


def test_quartiles():
    """Quartiles of 1 to 5 are 2, 3 and 4."""
    assert quartiles([5, 1, 4, 2, 3]) == (2, 3, 4)


def test_a_pair_without_prompts(tmp_path):
    """A pair that records no prompts cannot be measured, and that is said."""
    bare = load_pair(build_pair(tmp_path / "bare", prompts=[]))
    with pytest.raises(ValueError, match="no prompts"):
        run_bench(bare, widths=(1,))
