"""Training: the same weights each time, whatever happens meanwhile."""

import errno
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from pairs import MODELS, tiny_config, tiny_recipe
from safetensors.torch import save_file

from minispec.core.model import GPT
from minispec.io.checkpoint import weights_hash
from minispec.train import corpus, training
from minispec.train.dataset import batch, gather, kind_of
from minispec.train.evaluate import mean_loss
from minispec.train.recipes import CurriculumStage

RECIPE = tiny_recipe(
    target_stages=(CurriculumStage(4, 2, 32, friends=1), CurriculumStage(5, 2, 48)),
    draft_stages=(CurriculumStage(7, 2, 48),),
    distill_stages=(CurriculumStage(7, 3, 32),),
)
# A process that trains the recipe and is killed: from outside, between two steps, or while it saves.
WORKER = """
import os, signal, sys, time
from pathlib import Path
import torch
from test_training import RECIPE
from minispec.train import corpus, training
from minispec.io.checkpoint import weights_hash

torch.set_num_threads(1)
training.SAVE_EVERY, training.TELL_EVERY, corpus.VALIDATION_STORIES = 3, 1, 4
folder, moment, name, step = Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
rename = os.replace

def report(progress):
    if moment == "outside" and progress.step > 3:
        time.sleep(30)
    if moment == "between" and (progress.model, progress.step) == (name, step):
        os.kill(os.getpid(), signal.SIGKILL)

def save(source, target):
    if moment == "saving" and Path(target).stem == name and Path(target).exists():
        Path(source).write_bytes(Path(source).read_bytes()[:1000])
        os.kill(os.getpid(), signal.SIGKILL)
    rename(source, target)

os.replace = save
for path in (folder, folder / "undisturbed") if moment == "never" else (folder,):
    _, done = training.train_pair(RECIPE, path, report)
    print(*(weights_hash(done[name].model) for name in done))
"""


@pytest.fixture(scope="module")
def dataset():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus, "VALIDATION_STORIES", 4)
        return gather(RECIPE)


@pytest.fixture(autouse=True)
def quickly(request, monkeypatch):
    """Saves often, reports every step, and gathers the dataset only once."""
    monkeypatch.setattr(training, "SAVE_EVERY", 3)
    monkeypatch.setattr(training, "TELL_EVERY", 1)
    if "dataset" in request.fixturenames:
        found = request.getfixturevalue("dataset")
        monkeypatch.setattr(training, "gather", lambda recipe: found)


class Stop(Exception):
    """What interrupts a run here."""


def run(folder, recipe=RECIPE, stop=None):
    """Trains; returns the hashes by model and the reports. `stop` is a (model, step) to break off at."""
    seen = []

    def report(progress):
        seen.append(progress)
        if (progress.model, progress.step) == stop:
            raise Stop

    _, done = training.train_pair(recipe, folder, report)
    return {name: weights_hash(result.model) for name, result in done.items()}, seen


def work(folder, moment, name="", step=0):
    """Starts a worker process."""
    here = str(Path(__file__).parent)
    path = os.pathsep.join([here, str(Path(here).parent), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, str(folder), moment, name, str(step)],
        env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="Windows has no SIGKILL")
def test_a_killed_run_ends_with_the_same_weights(tmp_path):
    """Killed once in every run, at any moment and while it saved, a run ends as an undisturbed one."""
    process = work(tmp_path, "outside")
    deadline = time.monotonic() + 120
    while not (tmp_path / "target.safetensors").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert [f.name for f in tmp_path.iterdir()] == ["target.safetensors"]

    process = work(tmp_path, "between", "draft-plain", 5)
    assert process.wait() == -signal.SIGKILL
    process = work(tmp_path, "saving", "draft")
    assert process.wait() == -signal.SIGKILL
    assert {f.name for f in tmp_path.glob("[!.]*")} == {f"{name}.safetensors" for name in MODELS}
    assert len([*tmp_path.glob(".*.part")]) == 1  # what was not whole yet

    resumed, undisturbed = work(tmp_path, "never").communicate()[0].split("\n")[:2]
    assert len(resumed.split()) == 3 and resumed == undisturbed


def test_a_seed_fixes_the_weights(dataset, tmp_path):
    """The same recipe gives the same weights in every run, another seed others."""
    first, _ = run(tmp_path / "a")
    again, _ = run(tmp_path / "b")
    other, _ = run(tmp_path / "c", replace(RECIPE, seed=1))
    assert first == again and len(set(first.values())) == 3
    assert not set(first.values()) & set(other.values())


@pytest.mark.parametrize(
    "stop", [("target", 3), ("target", 5), ("draft-plain", 1), ("draft", 2), ("draft", 7)]
)
def test_a_run_goes_on_from_its_last_state(dataset, tmp_path, stop):
    """Broken off anywhere, a run takes up the step that it saved last, and ends with the same weights."""
    whole, _ = run(tmp_path / "whole")
    with pytest.raises(Stop):
        run(tmp_path / "broken", stop=stop)
    resumed, seen = run(tmp_path / "broken")
    begun = {name: next(p.step for p in seen if p.model == name) for name in MODELS}
    steps = {"target": 9, "draft-plain": 7, "draft": 7}
    saved = {name: steps[name] for name in MODELS[: MODELS.index(stop[0])]}
    saved[stop[0]] = stop[1] if stop[1] == steps[stop[0]] else stop[1] // 3 * 3
    assert begun == dict.fromkeys(MODELS, 0) | saved
    assert resumed == whole


def test_a_finished_run_is_not_run_again(dataset, tmp_path):
    """A second run of a finished recipe takes no step and keeps the seconds of the first."""
    first, seen = run(tmp_path)
    second, told = run(tmp_path)
    assert first == second
    assert [(p.model, p.step) for p in told] == [("target", 9), ("draft-plain", 7), ("draft", 7)]
    assert all(math.isnan(p.loss) for p in told)
    assert told[0].seconds == pytest.approx(max(p.seconds for p in seen if p.model == "target"), abs=0.5)


@pytest.mark.parametrize("damage", ["empty", "truncated", "text", "no record", "folder"])
def test_a_damaged_state_starts_over(dataset, tmp_path, damage):
    """A state that cannot be read is as good as none: the run begins again and ends the same."""
    whole, _ = run(tmp_path)
    path = tmp_path / "draft.safetensors"
    data = path.read_bytes()
    path.unlink()
    if damage == "no record":
        save_file({"model.norm.weight": torch.ones(2)}, path)
    elif damage != "folder":
        path.write_bytes({"empty": b"", "truncated": data[: len(data) // 2], "text": b"{" * 99}[damage])
    again, seen = run(tmp_path)
    assert again == whole
    assert [p.step for p in seen if p.model == "draft"] == [0, 1, 2, 3, 4, 5, 6, 7]


def test_another_recipe_is_not_resumed(dataset, tmp_path):
    """What a recipe has left is of no use to one that differs in a single number."""
    run(tmp_path)
    other = replace(RECIPE, learning_rate=0.003)
    afresh, _ = run(tmp_path / "fresh", other)
    mixed, seen = run(tmp_path, other)
    assert [p.step for p in seen if math.isnan(p.loss)] == [0, 0, 0]
    assert mixed == afresh


def test_a_full_disk_costs_nothing(dataset, tmp_path, monkeypatch):
    """A state that cannot be written is one clear error; the state before stays, and serves."""
    whole, _ = run(tmp_path / "whole")
    with pytest.raises(Stop):
        run(tmp_path / "full", stop=("target", 4))
    before = (tmp_path / "full" / "target.safetensors").read_bytes()

    def full(tensors, path, metadata=None):
        Path(path).write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("minispec.io.files.save_file", full)
        with pytest.raises(ValueError, match="cannot write .*No space left on device"):
            run(tmp_path / "full")
    assert (tmp_path / "full" / "target.safetensors").read_bytes() == before
    assert run(tmp_path / "full")[0] == whole


def test_training_lowers_the_loss(dataset, tmp_path):
    """Sixty steps take a tiny model more than a nat below where it starts, near log V."""
    recipe = replace(
        RECIPE, target_stages=(CurriculumStage(60, 8, 48),), draft_stages=(CurriculumStage(60, 8, 48),)
    )
    _, seen = run(tmp_path, recipe)
    for name in ("target", "draft-plain"):
        losses = [p.validation for p in seen if p.model == name and p.validation is not None]
        assert losses[0] == pytest.approx(math.log(300), abs=0.8)
        assert losses[-1] < losses[0] - 1


def test_reports_say_what_happened(dataset, tmp_path):
    """Each run reports its start, then every step with its loss, and measures at the end."""
    _, seen = run(tmp_path)
    assert [p.model for p in seen] == ["target"] * 10 + ["draft-plain"] * 8 + ["draft"] * 8
    for name in MODELS:
        own = [p for p in seen if p.model == name]
        assert [p.step for p in own] == list(range(own[0].steps + 1))
        assert math.isnan(own[0].loss) and all(math.isfinite(p.loss) for p in own[1:])
        assert own[-1].validation is not None
        assert [p.seconds for p in own] == sorted(p.seconds for p in own)


def test_the_last_validation_is_the_models(dataset, tmp_path):
    """The last held-out loss reported is that of the model returned, but for the quick look's rounding."""
    seen = []
    _, done = training.train_pair(RECIPE, tmp_path, seen.append)
    for name in MODELS:
        last = [p for p in seen if p.model == name][-1]
        assert last.validation == pytest.approx(mean_loss(done[name].model, *dataset.held_out), abs=0.05)


def test_distillation_starts_at_the_draft_and_measures_its_divergence(dataset, tmp_path):
    """The first loss of `draft` is KL(target || draft), summed by hand over the first batch."""
    seen = []
    _, done = training.train_pair(RECIPE, tmp_path, seen.append)
    stage = RECIPE.distill_stages[0]
    rows = batch(dataset.sequences[kind_of(stage)], stage.rows, 0, RECIPE.seed)[:, :-1]
    p, q = (done[name].model(rows).double().softmax(-1) for name in ("target", "draft-plain"))
    by_hand = float((p * (p.log() - q.log())).sum(-1).mean())
    first = next(p for p in seen if p.model == "draft" and p.step == 1)
    assert first.loss == pytest.approx(by_hand, rel=0.02)


def test_distillation_brings_the_draft_to_the_target(dataset, tmp_path):
    """Learning from the target lowers the divergence from it and leaves the target as it was."""
    recipe = replace(
        RECIPE, target_stages=(CurriculumStage(40, 8, 48),), distill_stages=(CurriculumStage(40, 8, 48),)
    )
    hashes, _ = run(tmp_path, recipe)
    _, done = training.train_pair(recipe, tmp_path, lambda progress: None)
    tokens = dataset.held_out[0][:40, :48]
    dists = {name: done[name].model(tokens).log_softmax(-1) for name in MODELS}
    far, near = (
        float((dists["target"].exp() * (dists["target"] - dists[name])).sum(-1).mean()) for name in MODELS[1:]
    )
    assert near < 0.7 * far
    assert weights_hash(done["target"].model) == hashes["target"]


def test_what_is_trained_is_ready_for_use(dataset, tmp_path):
    """The models come in evaluation mode, without gradients, with honest counts."""
    _, done = training.train_pair(RECIPE, tmp_path, lambda progress: None)
    assert list(done) == ["target", "draft-plain", "draft"]
    assert [result.steps for result in done.values()] == [9, 7, 7]
    assert [result.tokens for result in done.values()] == [4 * 2 * 32 + 5 * 2 * 48, 7 * 2 * 48, 7 * 3 * 32]
    for result in done.values():
        assert not result.model.training
        assert not any(p.requires_grad for p in result.model.parameters())


def test_curriculum_stages_have_stories_of_their_own(dataset):
    """A stage with one friend has sequences of such stories; the pair is measured on those of its recipe."""
    kinds = {(window, friends): rows for (window, (friends, _)), rows in dataset.sequences.items()}
    assert set(kinds) == {(32, 1), (48, 3), (32, 3)}
    text = {key: dataset.tokenizer.decode(rows[0].tolist()) for key, rows in kinds.items()}
    assert "one friend" in text[32, 1] and "three friends" in text[48, 3]
    assert all("three friends" in text for text in dataset.corpus.validation)
    assert all(rows.shape[1] == window + 1 for (window, _), rows in kinds.items())


@pytest.mark.parametrize("tied", [False, True])
def test_muon_gets_the_matrices_of_the_layers_and_nothing_else(tied):
    """Muon has exactly the layers' matrices, AdamW all the rest, and no weight is in both or in neither."""
    model = GPT(tiny_config(layers=2, tied=tied))
    (muon, _), (adamw, _) = training.make_optimizers(model, RECIPE)
    assert isinstance(muon, torch.optim.Muon) and isinstance(adamw, torch.optim.AdamW)
    names = {id(p): name for name, p in model.named_parameters()}
    matrices, rest = ([names[id(p)] for g in o.param_groups for p in g["params"]] for o in (muon, adamw))
    projections = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    assert sorted(name.split(".")[3] for name in matrices) == sorted(projections * 2)
    assert sorted(matrices + rest) == sorted(names.values())
    assert "embed_tokens.weight" in rest and ("lm_head.weight" in rest) is not tied


@pytest.mark.parametrize("steps", [1, 2, 10, 300, 5000])
def test_the_schedule_rises_stays_and_falls(steps):
    """The rate warms up to its highest, falls at the end, is never above it and never zero."""
    rates = [training.schedule(step, steps) for step in range(steps)]
    assert all(0 < rate <= 1 for rate in rates) and max(rates) > 0.99
    top = rates.index(max(rates))
    assert rates[: top + 1] == sorted(rates[: top + 1])
    assert rates[top:] == sorted(rates[top:], reverse=True)
    if steps >= 300:
        assert rates[0] == pytest.approx(1 / 50) and rates[49] == 1 and rates[steps // 2] == 1
        assert rates[-1] < 0.02


def test_fingerprints_tell_recipes_apart():
    """Any change of a recipe changes its fingerprint; the same recipe made again has the same."""
    changes = [
        {"seed": 1},
        {"corpus": "english"},
        {"target": tiny_config(3, 256)},
        {"friends": 2},
        {"stories": 41},
    ]
    prints = {replace(RECIPE, **change).fingerprint() for change in ({}, *changes)}
    assert len(prints) == len(changes) + 1
    assert RECIPE.fingerprint() == replace(RECIPE).fingerprint()


def test_scaling_a_recipe_changes_the_steps_only():
    """Steps are multiplied, at least one is left, and all else stays."""
    scaled = RECIPE.scaled(0.1)
    assert [stage.steps for stage in scaled.target_stages] == [1, 1]
    assert [stage.steps for stage in RECIPE.scaled(3).draft_stages] == [21]
    assert replace(scaled, **{f"{k}_stages": () for k in ("target", "draft", "distill")}) == replace(
        RECIPE, **{f"{k}_stages": () for k in ("target", "draft", "distill")}
    )


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"rows": 0}, {"window": 1}, {"friends": 0}])
def test_an_impossible_curriculum_stage_is_refused(wrong):
    """A curriculum stage without steps, rows, friends or anything to predict is refused when it is made."""
    with pytest.raises(ValueError, match="a curriculum stage needs"):
        CurriculumStage(**{"steps": 1, "rows": 1, "window": 8} | wrong)


def test_a_changed_text_is_not_resumed(tmp_path):
    """After the text file has changed, the old weights are not taken for those of the new text."""
    book = tmp_path / "book.txt"
    recipe = tiny_recipe(corpus=str(book), tokenizer="characters", stories=1)
    book.write_text("\n\n".join(f"The cat sat on mat {i}. " * 30 for i in range(9)), encoding="utf-8")
    run(tmp_path / "run", recipe)
    book.write_text("\n\n".join(f"A dog ran to the river {i}. " * 30 for i in range(9)), encoding="utf-8")
    assert run(tmp_path / "run", recipe)[0] == run(tmp_path / "fresh", recipe)[0]
