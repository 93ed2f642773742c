"""The main job, as a person runs it: train both sizes live, decode with them, kill nothing."""

import json
import os
import subprocess
import sys

import pytest
from native_models import has_compiler


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


def minispec(home, *arguments):
    """Runs the command in a process of its own and returns its outcome."""
    return subprocess.run(
        [sys.executable, "-m", "minispec", *arguments],
        env={**os.environ, "MINISPEC_HOME": str(home)},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


@pytest.mark.slow
def test_quick_training_reports_both_sizes(home):
    """`train --preset quick` prints sizes, losses, the floor and acceptance, and the target is ahead."""
    done = minispec(home, "train", "--preset", "quick", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    for model in ("target", "draft"):
        assert {"parameters", "seconds", "steps", "validation_loss"} <= report[model].keys()
    assert report["entropy_floor"] < report["target"]["validation_loss"]
    assert report["target"]["validation_loss"] < 0.98 * report["draft"]["validation_loss"]
    assert 0.5 < report["acceptance"] < 1
    assert report["failed"] is None


@pytest.mark.slow
def test_demo_runs_the_whole_job(home):
    """`demo` decodes with the shipped pair and the one just trained; greedy is target-only."""
    done = minispec(home, "demo", "--json")
    assert done.returncode == 0, done.stderr
    pairs = json.loads(done.stdout)["pairs"]
    assert [pair["pair"] for pair in pairs] == ["stories", "quick"]
    for pair in pairs:
        backends = ["torch", "native"] if has_compiler() else ["torch"]
        found = [(run["verifier"], run["backend"]) for run in pair["runs"]]
        assert found == [(rule, backend) for rule in ("greedy", "rejection") for backend in backends]
        for run in pair["runs"]:
            assert run["same_as_target_only"] is (True if run["verifier"] == "greedy" else None)
            # An automatic K is 0 where the measured costs say that drafting does not pay.
            assert run["target_calls"] < run["tokens"] or run["k"] == 0
    for sign in ("✓", "✗", "↳", "★", "speed-up", "yes"):
        assert sign in done.stderr


@pytest.mark.slow
def test_generate_lists_its_rounds(home):
    """`generate --json` says of every round what was drafted, kept and emitted."""
    done = minispec(
        home,
        "generate",
        "--prompt",
        "The cat",
        "--k",
        "4",
        "--verifier",
        "rejection",
        "--seed",
        "1",
        "--json",
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert [t for r in report["rounds"] for t in r["emitted"]] == report["tokens"]
    for r in report["rounds"]:
        assert len(r["drafted"]) <= 4 and r["accepted"] <= len(r["drafted"])
        assert r["kind"] in ("correction", "bonus", "draft")
        assert r["emitted"][: r["accepted"]] == r["drafted"][: min(r["accepted"], len(r["emitted"]))]
    assert report["target_calls"] == len(report["rounds"]) < len(report["tokens"])
