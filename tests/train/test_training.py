"""Training: the same weights each time, whatever happens meanwhile."""

import errno
import math
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from pairs import MODELS, files_below, tiny_config, tiny_recipe

from minispec.core.model import GPT
from minispec.io.checkpoint import weights_hash
from minispec.train import corpus, training
from minispec.train.dataset import batch, gather, stage_key
from minispec.train.evaluate import mean_loss
from minispec.train.muon import Muon
from minispec.train.recipes import CURRICULA, CurriculumStage

RECIPE = tiny_recipe(
    target_stages=(CurriculumStage(4, 2, 32, friends=1), CurriculumStage(5, 2, 48)),
    draft_stages=(CurriculumStage(7, 2, 48),),
    distill_stages=(CurriculumStage(7, 3, 32),),
    written=((3, 1.0), (2, 0.0)),
)
STEPS = {"target": 9, "draft-plain": 7, "draft": 7}
# Trains the recipe in processes that are killed: between two steps, and while they save. Then to the end, and
# undisturbed. It prints how each process ended, and the hashes of each training.
WORKER = """
import os, signal, sys
from pathlib import Path
import torch
from test_training import RECIPE
from minispec.train import corpus, training
from minispec.io.checkpoint import weights_hash
from minispec.train.dataset import gather

torch.set_num_threads(1)
training.SAVE_EVERY, training.REPORT_EVERY, corpus.VALIDATION_STORIES = 3, 1, 4
folder = Path(sys.argv[1])
rename = os.rename
dataset = gather(RECIPE)

def killed_between(name, step):
    def report(progress):
        if (progress.model, progress.step) == (name, step):
            os.kill(os.getpid(), signal.SIGKILL)
    training.train_pair(RECIPE, folder, report, dataset=dataset)

def killed_while_saving(name, _):
    def save(source, target):
        if Path(target).stem == name and any(folder.glob(f"{name}.step-*")):
            shard = next(Path(source).glob("*.safetensors"))
            shard.write_bytes(shard.read_bytes()[:1000])
            os.kill(os.getpid(), signal.SIGKILL)
        rename(source, target)
    os.rename = save
    training.train_pair(RECIPE, folder, lambda _: None, dataset=dataset)

moments = (killed_between, "target", 4), (killed_between, "draft-plain", 5), (killed_while_saving, "draft", 0)
for train, name, step in moments:
    child = os.fork()
    if child == 0:
        train(name, step)
        os._exit(0)
    print(os.waitpid(child, 0)[1], *sorted(path.name for path in folder.glob("[!.]*")))
print(len(list(folder.glob(".*.part"))))
for path in (folder, folder / "undisturbed"):
    _, done = training.train_pair(RECIPE, path, lambda _: None, dataset=dataset)
    print(*(weights_hash(done[name].model) for name in done))
"""


@pytest.fixture(scope="module")
def dataset():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus, "VALIDATION_STORIES", 4)
        return gather(RECIPE)


@pytest.fixture(autouse=True, scope="module")
def quickly(dataset):
    """Saves often, reports every step, gathers the dataset only once, and has one thread, as `WORKER` has."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "SAVE_EVERY", 3)
        patch.setattr(training, "REPORT_EVERY", 1)
        yield
    torch.set_num_threads(threads)


class Stop(Exception):
    """What interrupts a run here."""


def run(folder, recipe, dataset, stop=None):
    """Trains; returns what is trained and the reports. `stop` is a (model, step) to break off at."""
    reports = []

    def report(progress):
        reports.append(progress)
        if (progress.model, progress.step) == stop:
            raise Stop

    return training.train_pair(recipe, folder, report, dataset=dataset)[1], reports


def hashes(done):
    return {name: weights_hash(result.model) for name, result in done.items()}


@pytest.fixture(scope="module")
def whole(dataset, tmp_path_factory):
    """An undisturbed run: its folder, what is trained, and the reports."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, *run(folder, RECIPE, dataset)


@pytest.mark.evidence
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the killed process is a fork: POSIX")
def test_a_killed_run_ends_with_the_same_weights(tmp_path):
    """Killed once in every run, between steps and while it saved, a run ends as an undisturbed one."""
    paths = os.pathsep.join(map(str, Path(__file__).parents[:3]))
    told = subprocess.run(
        [sys.executable, "-c", WORKER, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
    ).stdout.splitlines()
    left = (
        ["target.step-00000003"],
        ["draft-plain.step-00000003", "target.step-00000009"],
        ["draft-plain.step-00000007", "draft.step-00000003", "target.step-00000009"],
    )
    assert [line.split() for line in told[:3]] == [[str(int(signal.SIGKILL)), *files] for files in left]
    unfinished, resumed, undisturbed = told[3:]
    assert unfinished == "1"  # what was not whole yet
    assert len(resumed.split()) == 3 and resumed == undisturbed


def test_a_seed_fixes_the_weights(dataset, whole, tmp_path):
    """The same recipe gives the same weights in every run, another seed others."""
    first = hashes(whole[1])
    again = hashes(run(tmp_path / "a", RECIPE, dataset)[0])
    other = hashes(run(tmp_path / "b", replace(RECIPE, seed=1), dataset)[0])
    assert first == again and len(set(first.values())) == 3
    assert not set(first.values()) & set(other.values())


def rarely(what):
    return pytest.param(what, marks=pytest.mark.evidence)


@pytest.mark.parametrize(
    "stop", [("draft", 3), *map(rarely, [("target", 5), ("draft-plain", 1), ("draft", 7)])]
)
def test_a_run_goes_on_from_its_last_state(dataset, whole, tmp_path, stop, monkeypatch):
    """Broken off anywhere, and on a full disk then, it takes up the step saved last, and ends the same.

    A second run of what is finished takes no step.
    """
    with pytest.raises(Stop):
        run(tmp_path, RECIPE, dataset, stop=stop)
    before = files_below(tmp_path)

    def full(tensors, metadata=None):
        raise OSError(errno.ENOSPC, "No space left on device")

    if stop != ("draft", 7):  # then nothing is left to be saved
        with monkeypatch.context() as patch:
            patch.setattr("safetensors.torch.save", full)
            with pytest.raises(ValueError, match="cannot write .*No space left on device"):
                run(tmp_path, RECIPE, dataset)
        assert before.items() <= files_below(tmp_path).items()
    resumed, reports = run(tmp_path, RECIPE, dataset)
    begun = {
        name: next(p.step for p in reports if p.model == name and p.steps == STEPS[name]) for name in MODELS
    }
    name, step = stop
    saved = {done: STEPS[done] for done in MODELS[: MODELS.index(name)]}
    saved[name] = step if step == STEPS[name] else step // 3 * 3
    assert {**begun, "draft": saved.get("draft", 0)} == dict.fromkeys(MODELS, 0) | saved
    again, told = run(tmp_path, RECIPE, dataset)
    assert hashes(again) == hashes(resumed) == hashes(whole[1])
    assert {(p.model, p.step) for p in told} == {*STEPS.items(), ("draft", 0)}


DAMAGE = {
    "truncated": lambda shard: shard.write_bytes(shard.read_bytes()[: shard.stat().st_size // 2]),
    "no record": lambda shard: (shard.parent / "progress.json").unlink(),
    "braces": lambda shard: shard.write_bytes(b"{" * 99),
    "no shard": lambda shard: shard.unlink(),
    "nothing there": lambda shard: shutil.rmtree(shard.parent),
}


@pytest.mark.parametrize("damage", [*list(DAMAGE)[:2], *map(rarely, list(DAMAGE)[2:])])
def test_a_damaged_state_starts_over(dataset, whole, tmp_path, damage):
    """A state that cannot be read is as good as none: the run begins again and ends the same."""
    finished = shutil.copytree(whole[0], tmp_path / "finished")
    DAMAGE[damage](next((finished / "draft.step-00000007").glob("*.safetensors")))
    again, reports = run(finished, RECIPE, dataset)
    assert hashes(again) == hashes(whole[1])
    assert [p.step for p in reports if p.model == "draft"] == [0, *range(8)]


@pytest.mark.parametrize("changed", ["text", rarely("recipe")])
def test_what_another_run_has_left_is_not_taken_up(dataset, whole, tmp_path, changed):
    """It is of no use to a recipe that differs in a number, or to the same one after its text has changed."""
    finished = shutil.copytree(whole[0], tmp_path / "finished")
    corpus = replace(dataset.corpus, train=dataset.corpus.train[1:])
    other = replace(RECIPE, learning_rate=0.003), dataset
    other = other if changed == "recipe" else (RECIPE, replace(dataset, corpus=corpus))
    _, reports = run(finished, *other)
    assert [p.step for p in reports if math.isnan(p.loss)] == [0] * 4


def test_any_change_of_a_recipe_changes_its_fingerprint():
    changes = [{}, {"seed": 1}, {"target": tiny_config(3, 256)}, {"target_stages": RECIPE.draft_stages}]
    assert len({replace(RECIPE, **change).fingerprint() for change in changes}) == len(changes)


def test_training_lowers_the_loss_and_brings_the_draft_to_the_target(dataset, tmp_path):
    """Losses fall from near log V by more than a nat; the divergence from the target falls, which stays."""
    stages = (CurriculumStage(60, 8, 48),)
    recipe = replace(RECIPE, target_stages=stages, draft_stages=stages, distill_stages=stages)
    done, reports = run(tmp_path, recipe, dataset)
    for name in ("target", "draft-plain"):
        losses = [p.validation for p in reports if p.model == name and p.validation is not None]
        assert losses[0] == pytest.approx(math.log(300), abs=0.8)
        assert losses[-1] < losses[0] - 1
    tokens = dataset.held_out[0][:40, :48]
    target, *drafts = (done[name].model(tokens).log_softmax(-1) for name in MODELS)
    far, near = (float((target.exp() * (target - draft)).sum(-1).mean()) for draft in drafts)
    assert near < 0.7 * far


def test_reports_say_what_happened(dataset, whole):
    """Each run reports its start, then every step with its loss, and measures what it ends with.

    The models come in evaluation mode, without gradients, with honest counts.
    """
    _, done, reports = whole
    assert [p.model for p in reports] == ["target"] * 10 + ["draft-plain"] * 8 + ["draft"] * 9
    for name in MODELS:
        start, *each = [p for p in reports if p.model == name][-1 - STEPS[name] :]
        assert [p.step for p in (start, *each)] == list(range(start.steps + 1))
        assert math.isnan(start.loss) and all(math.isfinite(p.loss) for p in each)
        assert [p.seconds for p in each] == sorted(p.seconds for p in each)
        measured = mean_loss(done[name].model, *dataset.held_out)
        assert each[-1].validation == pytest.approx(measured, abs=0.05)  # but for the quick look's rounding
        assert not done[name].model.training and done[name].steps == STEPS[name]
        assert not any(p.requires_grad for p in done[name].model.parameters())
    assert [result.tokens for result in done.values()] == [4 * 2 * 32 + 5 * 2 * 48, 7 * 2 * 48, 7 * 3 * 32]


def test_distillation_starts_at_the_draft_and_measures_its_divergence(dataset, whole):
    """The first loss of `draft` is KL(target || draft), summed by hand over the first batch."""
    _, done, reports = whole
    _, data = training.prepare_distillation(RECIPE, done["target"].model, dataset)
    stage = RECIPE.distill_stages[0]
    rows = batch(data.sequences[stage_key(stage)], stage.rows, 0, RECIPE.seed)[:, :-1]
    p, q = (done[name].model(rows).double().softmax(-1) for name in ("target", "draft-plain"))
    by_hand = float((p * (p.log() - q.log())).sum(-1).mean())
    first = next(p for p in reports if p.model == "draft" and p.step == 1)
    assert first.loss == pytest.approx(by_hand, rel=0.02)


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
    assert isinstance(muon, Muon) and isinstance(adamw, torch.optim.AdamW)
    names = {id(p): name for name, p in model.named_parameters()}
    matrices, rest = ([names[id(p)] for g in o.param_groups for p in g["params"]] for o in (muon, adamw))
    assert sorted(matrices) == sorted(name for name in names.values() if "_proj" in name)
    assert sorted(matrices + rest) == sorted(names.values())


@pytest.mark.parametrize("shape", [(16, 40), (40, 16)])
def test_steps_of_muon_are_torchs_but_for_its_bfloat16(shape):
    """Over three steps a weight moves as by `torch.optim.Muon`, within 2% (bfloat16 holds 0.4% a number)."""
    gradients = torch.randn(3, *shape, generator=torch.Generator().manual_seed(0))
    moved = []
    for muon, settings in (Muon, {}), (torch.optim.Muon, {"adjust_lr_fn": "match_rms_adamw"}):
        weight = torch.nn.Parameter(torch.ones(shape))
        optimizer = muon([weight], lr=0.01, weight_decay=0.1, **settings)
        for weight.grad in gradients:
            optimizer.step()
        moved.append(weight.detach() - 1)
    assert torch.dist(*moved) < 0.02 * moved[0].norm()


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


@pytest.mark.parametrize(
    "wrong",
    [
        {"steps": 0},
        {"rows": 0},
        {"window": 1},
        {"friends": 0},
        {"mix": ()},
        {"mix": (("roll", 1.0),)},
        {"mix": (("story", 0.0),)},
    ],
    ids=str,
)
def test_an_impossible_curriculum_stage_is_refused(wrong):
    """Without steps, rows, friends, anything to predict, or known kinds of text with parts above 0."""
    with pytest.raises(ValueError, match="a curriculum stage"):
        CurriculumStage(**{"steps": 1, "rows": 1, "window": 8} | wrong)


def test_scaling_a_recipe_changes_steps_and_what_is_written_only():
    """Both are multiplied, at least one is left, and all else stays."""
    scaled = RECIPE.scaled(0.1)
    assert [stage.steps for stage in scaled.target_stages] == [1, 1]
    assert scaled.written == ((1, 1.0), (1, 0.0))
    more = RECIPE.scaled(3)
    assert [stage.steps for stage in more.draft_stages] == [21] and more.written == ((9, 1.0), (6, 0.0))
    same = {name: getattr(RECIPE, name) for name in (*CURRICULA, "written")}
    assert replace(scaled, **same) == RECIPE
