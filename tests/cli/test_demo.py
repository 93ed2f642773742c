"""`minispec demo`: a line for each round, what they add up to, one speed-up, and the page of `--html`."""

import re

import pytest
from native_models import has_compiler

from minispec.evidence.bench.speed import WIDTHS, fastest_k, halves, recorded_k
from minispec.io.checkpoint import load_pair
from minispec.io.files import read_json, write_json
from minispec.native.backend import TORCH, on_backend

SHORT = "demo --no-train --prompt 'The cat' --max-new-tokens 12"
FASTEST = "native" if has_compiler() else "torch"


@pytest.fixture(autouse=True)
def few_runs(monkeypatch):
    """Short texts and few of them are timed."""
    monkeypatch.setattr("minispec.evidence.bench.speed.NEW_TOKENS", 12)


@pytest.fixture
def demo(document, pair):
    """Runs the demo; returns what it says of the pair, and what people read."""

    def run(line, *more):
        report, err = document(f"{SHORT} {line}", "--pair", pair, *more)
        (shown,) = report["pairs"]
        return shown, err

    return run


def test_each_round_is_a_line_and_the_counts_are_those_of_the_lines(demo):
    """Tokens and target calls that it names are the sums over its lines; the greedy text is the target's."""
    shown, err = demo("--k 3 --backend torch")
    rounds = re.findall(r"^draft: .* (\d+) tokens?, 1 call$", err, re.MULTILINE)
    for run in shown["runs"]:
        mine, rounds = rounds[: run["target_calls"]], rounds[run["target_calls"] :]
        assert sum(map(int, mine)) == run["tokens"] <= 12
        assert f"{run['tokens']} tokens in {run['target_calls']} target call" in err
    assert rounds == [] and [run["verifier"] for run in shown["runs"]] == ["greedy", "rejection"]
    assert [run["same_as_target_only"] for run in shown["runs"]] == [True, None]
    assert shown["runs"][0]["target_calls"] < shown["runs"][0]["tokens"]  # a draft model that is often right


def test_one_speed_up_is_measured_on_the_fastest_backend(demo):
    """Nine interleaved runs of both sides, and of the target against itself."""
    shown, err = demo("--k 3")
    speed = shown["speed"]
    assert (speed["backend"], speed["k"], speed["runs"]) == (FASTEST, 3, 9)
    for low, median, high in (speed["quartiles"], speed["noise"]):
        assert 0 < low <= median <= high
    assert err.count("Speed: ") == 1


def test_k_is_what_the_pair_records(demo, pair, tmp_path):
    """Without --k the demo takes the pair's K; a pair that records none, or nonsense, has K = 4."""
    assert demo("--backend torch")[0]["k"] == 4
    info = read_json(pair / "pair.json")
    try:
        for recorded, k in ((2, 2), ("many", 4), (0, 4)):
            write_json(pair / "pair.json", info | {"k": recorded})
            assert recorded_k(load_pair(pair)) == k
        write_json(pair / "pair.json", info | {"k": 2})
        assert demo("--backend torch")[0]["k"] == 2
    finally:
        write_json(pair / "pair.json", info)


def test_k_is_chosen_on_other_prompts_than_those_that_are_timed(pair):
    """The halves share no prompt; what is chosen is one of the values tried."""
    models = load_pair(pair)
    choosing, reporting = halves(models)
    assert choosing and reporting
    assert not {*map(tuple, choosing)} & {*map(tuple, reporting)}
    assert fastest_k(on_backend(models, TORCH.name), choosing[:1]) in WIDTHS
