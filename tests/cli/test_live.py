"""Training from the command line: resumed, refused if it failed, and live in the demo."""

from dataclasses import replace

import pytest
import torch
from pairs import tiny_config, tiny_recipe

from minispec import load_pair
from minispec.cli.main import run
from minispec.train import corpus
from minispec.train.publish import history_of
from minispec.train.recipes import PRESETS, CurriculumStage

MANY = (CurriculumStage(60, 8, 48, 1),)
FEW = (CurriculumStage(2, 8, 48, 1),)
GOOD = tiny_recipe(
    name="quick",
    friends=1,
    target=tiny_config(2, 256, vocab_size=512),
    draft=tiny_config(1, 256, width=8, ffn=8),
    target_stages=MANY,
    draft_stages=FEW,
    distill_stages=FEW,
)
BAD = replace(GOOD, target_stages=FEW, draft=tiny_config(1, 256), draft_stages=MANY)


@pytest.fixture(autouse=True, scope="module")
def small():
    """Few stories to measure on, short texts to measure acceptance with, and a small recipe for `quick`."""
    threads = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus, "VALIDATION_STORIES", 6)
        patch.setattr("minispec.evidence.bench.measure.NEW_TOKENS", 20)
        patch.setattr("minispec.evidence.bench.speed.NEW_TOKENS", 20)
        patch.setattr("minispec.cli.train.best_k", lambda pair: 3)  # without building the native library
        patch.setitem(PRESETS, "quick", GOOD)
        yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def trained(small, tmp_path_factory):
    """A home in which the small recipe was trained."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINISPEC_HOME", str(home))
        assert run(["train", "--json"]) == 0
    return home


def test_a_good_training_is_said_to_be_one(trained, document, monkeypatch):
    """Status 0, figures of all models, a pair by its name; only with `--fresh` are steps taken again."""
    monkeypatch.setenv("MINISPEC_HOME", str(trained))
    (state,) = trained.glob("runs/*/target.step-*/progress.json")
    written = state.stat().st_mtime_ns
    weights = []
    for option, again in (("", False), ("--fresh", True)):
        report, _ = document(f"train --preset quick {option}")
        assert (report["failed"], report["pair"]) == (None, "quick")
        for name, steps in (("target", 60), ("draft_plain", 2), ("draft", 2)):
            assert {"parameters", "seconds", "steps", "validation_loss", "sha256"} == set(report[name])
            assert report[name]["steps"] == steps
        target, draft = (report[name]["validation_loss"] for name in ("target", "draft"))
        assert 0 < report["entropy_floor"] < target < draft
        assert 0 <= report["acceptance"] <= 1 and 0 <= report["forced_accuracy"]["target"]["all"] <= 1
        assert (state.stat().st_mtime_ns != written) is again
        weights.append((report["target"]["sha256"], report["draft"]["sha256"]))
    assert weights[0] == weights[1]
    assert load_pair("quick").info["command"] == "minispec train --preset quick"
    assert load_pair("quick").info["k"] == 3


def test_a_target_that_is_no_better_is_a_failed_training(document, monkeypatch, minispec_home):
    """The draft learned and the target did not: status 3, and a line that says so with both losses."""
    monkeypatch.setitem(PRESETS, "quick", BAD)
    report, err = document("train --preset quick --scale 0.5", status=3)
    assert report["target"]["validation_loss"] > report["draft"]["validation_loss"]
    assert (report["target"]["steps"], report["draft"]["steps"]) == (1, 1)
    assert "the training failed: the target's loss" in report["failed"]
    assert f"minispec: {report['failed']}" in err.splitlines()
    assert load_pair("quick").info["command"] == "minispec train --preset quick --scale 0.5"


def test_a_text_of_ones_own_gives_a_pair_of_its_name(document, monkeypatch, minispec_home, tmp_path):
    """A file is trained on even where it has a corpus's name, and its pair has the file's."""
    monkeypatch.setattr("minispec.cli.train.OWN_TEXT", replace(GOOD, name="own-text", corpus=""))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "python").write_text("\n\n".join(f"Day {i}. " * 60 for i in range(12)), encoding="utf-8")
    report, _ = document("train --text python --seed 3")
    pair = load_pair(minispec_home / "python")
    assert report["entropy_floor"] is None and report["forced_accuracy"] is None
    assert pair.info["corpus"]["train_documents"] == 11 and pair.info["seed"] == 3
    assert pair.info["command"] == "minispec train --text python --seed 3"
    history = history_of(pair.info)
    assert len(history) >= 3 and {p.model for p in history} == {"target", "draft-plain", "draft"}
    assert all(p.validation is not None for p in history)
