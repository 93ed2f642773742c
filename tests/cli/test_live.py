"""Training from the command line: resumed, refused if it failed, and live in the demo."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from pairs import call, tiny_config, tiny_recipe

from minispec import load_pair
from minispec.cli.train import choose_recipe
from minispec.train import corpus
from minispec.train.publish import history_of
from minispec.train.recipes import OWN_TEXT, PRESETS, CurriculumStage

GOOD = tiny_recipe(
    name="quick",
    friends=1,
    target=tiny_config(2, 256, vocab_size=512),
    draft=tiny_config(1, 256, width=8, ffn=8),
    target_stages=(CurriculumStage(60, 8, 48, 1),),
    draft_stages=(CurriculumStage(2, 8, 48, 1),),
    distill_stages=(CurriculumStage(2, 8, 48, 1),),
)
BAD = replace(
    GOOD,
    target_stages=(CurriculumStage(1, 2, 48, 1),),
    draft=tiny_config(1, 256),
    draft_stages=(CurriculumStage(60, 8, 48, 1),),
)


@pytest.fixture(autouse=True)
def small(monkeypatch, minispec_home):
    """A home of its own, few stories to measure on, short texts to measure acceptance with."""
    monkeypatch.setattr(corpus, "VALIDATION_STORIES", 6)
    monkeypatch.setattr("minispec.evidence.bench.measure.NEW_TOKENS", 20)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def train(capsys, *arguments):
    """Runs `train --json`; returns its status, its document and what people read."""
    status, out, err = call(capsys, "train", "--json", *arguments)
    return status, json.loads(out), err


def test_a_good_training_is_said_to_be_one(capsys, monkeypatch, minispec_home):
    """The target learned and the draft did not: status 0, figures of all three models, a pair by its name."""
    monkeypatch.setitem(PRESETS, "quick", GOOD)
    status, report, _ = train(capsys, "--preset", "quick")
    assert (status, report["failed"], report["pair"]) == (0, None, "quick")
    for name, steps in (("target", 60), ("draft_plain", 2), ("draft", 2)):
        assert {"parameters", "seconds", "steps", "validation_loss", "sha256"} == set(report[name])
        assert report[name]["steps"] == steps
    assert (
        0 < report["entropy_floor"] < report["target"]["validation_loss"] < report["draft"]["validation_loss"]
    )
    assert 0 <= report["acceptance"] <= 1 and 0 <= report["forced_accuracy"]["target"]["all"] <= 1
    assert load_pair("quick").info["command"] == "minispec train --preset quick"


def test_a_target_that_is_no_better_is_a_failed_training(capsys, monkeypatch, minispec_home):
    """The draft learned and the target did not: status 3, and a line that says so with both losses."""
    monkeypatch.setitem(PRESETS, "quick", BAD)
    status, report, err = train(capsys, "--preset", "quick")
    assert status == 3
    assert report["target"]["validation_loss"] > report["draft"]["validation_loss"]
    assert "the training failed: the target's loss" in report["failed"]
    (line,) = [line for line in err.splitlines() if line.startswith("minispec: ")]
    assert line == f"minispec: {report['failed']}"


def test_a_second_run_resumes_and_a_fresh_one_does_not(capsys, monkeypatch, minispec_home):
    """Trained again the weights are the same; only with `--fresh` are the steps taken again."""
    monkeypatch.setitem(PRESETS, "quick", GOOD)
    _, first, _ = train(capsys)
    (state,) = minispec_home.glob("runs/*/target.safetensors")
    written = state.stat().st_mtime_ns
    for arguments, again in (((), False), (("--fresh",), True)):
        _, report, _ = train(capsys, *arguments)
        assert report["target"]["sha256"] == first["target"]["sha256"]
        assert report["draft"]["sha256"] == first["draft"]["sha256"]
        assert (state.stat().st_mtime_ns != written) is again


def test_a_text_of_ones_own_gives_a_pair_of_its_name(capsys, monkeypatch, minispec_home, tmp_path):
    """A file is trained on even where it has a corpus's name, and its pair has the file's."""
    monkeypatch.setattr("minispec.cli.train.OWN_TEXT", replace(GOOD, name="own-text", corpus=""))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "python").write_text("\n\n".join(f"Day {i}. " * 60 for i in range(12)), encoding="utf-8")
    _, report, _ = train(capsys, "--text", "python", "--seed", 3)
    pair = load_pair(minispec_home / "python")
    assert report["entropy_floor"] is None and report["forced_accuracy"] is None
    assert pair.info["corpus"]["train_documents"] == 11 and pair.info["seed"] == 3
    assert pair.info["command"] == "minispec train --text python --seed 3"
    history = history_of(pair.info)
    assert len(history) > 3 and {p.model for p in history} == {"target", "draft-plain", "draft"}
    assert all(p.validation is not None for p in history)


def test_a_text_takes_the_recipe_for_any_text_unless_a_preset_is_named():
    """`--text` alone takes the recipe for any text, changed in name and corpus alone; so does a preset."""
    text = Path("a.txt")
    own = choose_recipe(None, text, None, None, 1.0)
    assert own == replace(OWN_TEXT, name="a", corpus="a.txt")
    for name, preset in PRESETS.items():
        assert choose_recipe(name, text, None, None, 1.0) == replace(preset, name="a", corpus="a.txt")


def test_the_demo_trains_a_pair_once(capsys, monkeypatch, minispec_home, tmp_path):
    """The demo trains the quick pair live, decodes with both, and the next time takes it from the cache."""
    monkeypatch.setitem(PRESETS, "quick", GOOD)
    monkeypatch.setattr("minispec.cli.demo.QUICK", GOOD)
    monkeypatch.setenv("COLUMNS", "120")
    train(capsys, "--out", tmp_path / "other")
    options = ("demo", "--pair", tmp_path / "other", "--max-new-tokens", 20, "--backend", "torch")
    status, out, _ = call(capsys, *options)
    assert status == 0 and "A pair trained here" in out and "entropy of the grammar" in out
    assert out.count("same text: ") == 2 and out.count("yes") == 2
    monkeypatch.setattr("minispec.cli.demo.train_and_publish", None)  # another training would fail
    status, out, err = call(capsys, *options, "--json")
    document = json.loads(out)
    assert status == 0 and "A pair trained here" in err
    assert [pair["pair"] for pair in document["pairs"]] == ["quick", "quick"]
    for pair in document["pairs"]:
        assert [run["same_as_target_only"] for run in pair["runs"]] == [True, None]
        assert all(run["tokens"] <= 20 and run["seconds"] > 0 for run in pair["runs"])
