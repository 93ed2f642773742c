"""The main job, as a person runs it: train both sizes live, decode with them, kill nothing."""

import json
import os
import subprocess
import sys

import pytest
from native_models import has_compiler
from pairs import call

from minispec.evidence.bench.speed import WIDTHS

pytestmark = pytest.mark.slow


# How much of the recipe's steps: a tenth is enough for a target that is ahead of a draft that pays.
SCALES = [pytest.param(0.1, id="tenth"), pytest.param(1, id="whole", marks=pytest.mark.evidence)]


@pytest.fixture(scope="module", params=SCALES)
def scale(request):
    """By how much the steps of `quick` are multiplied."""
    return request.param


@pytest.fixture(scope="module")
def home(scale, libraries, tmp_path_factory):
    """Where `quick` is trained; the native library is built once, for all tests."""
    made = tmp_path_factory.mktemp("home")
    (made / "native").symlink_to(libraries)
    return made


@pytest.fixture(scope="module")
def training(scale, home):
    """What `train --preset quick` printed, in a process of its own."""
    line = ["train", "--preset", "quick", "--scale", str(scale), "--json"]
    return subprocess.run(
        [sys.executable, "-m", "minispec", *line],
        env={**os.environ, "MINISPEC_HOME": str(home)},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


@pytest.fixture
def report(home, capsys, monkeypatch):
    """Runs a command with `--json`; returns its document, and what people read."""
    monkeypatch.setenv("MINISPEC_HOME", str(home))

    def run(*arguments):
        status, out, err = call(capsys, *arguments, "--json")
        assert status == 0, err
        return json.loads(out), err

    return run


def test_quick_training_reports_both_sizes(training):
    """It prints sizes, losses, the floor and acceptance, and the target is ahead."""
    assert training.returncode == 0, training.stderr
    trained = json.loads(training.stdout)
    for model in ("target", "draft"):
        assert {"parameters", "seconds", "steps", "validation_loss"} <= trained[model].keys()
    assert trained["entropy_floor"] < trained["target"]["validation_loss"]
    assert trained["target"]["validation_loss"] < 0.98 * trained["draft"]["validation_loss"]
    assert 0.5 < trained["acceptance"] < 1
    assert trained["failed"] is None


def test_demo_runs_the_whole_job(report, training):
    """`demo` decodes with the shipped pair and the one just trained; drafts pay; greedy is target-only."""
    shown, err = report("demo", "--max-new-tokens", 50)
    assert [pair["pair"] for pair in shown["pairs"]] == ["stories", "quick"]
    for pair in shown["pairs"]:
        assert [run["verifier"] for run in pair["runs"]] == ["greedy", "rejection"]
        assert [run["same_as_target_only"] for run in pair["runs"]] == [True, None]
        assert all(2 * run["target_calls"] < run["tokens"] for run in pair["runs"])
        assert pair["k"] in WIDTHS  # a training recorded it
        assert pair["speed"]["backend"] == ("native" if has_compiler() else "torch")
        assert pair["speed"]["tokens"] >= 160 and pair["speed"]["runs"] >= 7
    for sign in ("✓", "✗", "↳", "★"):
        assert sign in err
    assert err.count("Speed: ") == 2
