"""Processes that share a training: they take the steps of one, and go on where another number stopped."""

import json
import os
import shutil
import socket
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pairs import MODELS, tiny_recipe

from minispec.io.checkpoint import weights_hash
from minispec.train import corpus, training
from minispec.train.dataset import gather
from minispec.train.processes import ALONE, PARALLEL, Processes, joined
from minispec.train.recipes import CurriculumStage

STAGES = (CurriculumStage(2, 4, 32), CurriculumStage(4, 2, 48))
RECIPE = tiny_recipe(target_stages=STAGES, draft_stages=STAGES, distill_stages=STAGES, written=((3, 1.0),))
STEPS = 6


class Stop(Exception):
    """What interrupts a training here."""


def run(folder, dataset, processes=ALONE, stop=None):
    """Trains, perhaps up to a (model, step); returns losses, sizes of files and hashes by model."""
    losses = {name: {} for name in MODELS}

    def report(progress):
        losses[progress.model][progress.step] = progress.loss
        if (progress.model, progress.step) == stop:
            raise Stop

    try:
        done = training.train_pair(RECIPE, folder, report, dataset=dataset, processes=processes)[1]
    except Stop:
        done = {}
    sizes = {name: [f.stat().st_size for f in folder.glob(f"{name}.step-*/*.safetensors")] for name in MODELS}
    hashes = {name: weights_hash(result.model) for name, result in done.items()}
    return {"losses": losses, "sizes": sizes, "hashes": hashes}


def set_up(patch):
    """Computes in float32, saves every 2 steps, reports each; returns the dataset."""
    patch.setattr(training, "SAVE_EVERY", 2)
    patch.setattr(training, "REPORT_EVERY", 1)
    patch.setattr(training, "autocast", lambda _: nullcontext())
    patch.setattr(corpus, "VALIDATION_STORIES", 4)
    torch.set_num_threads(1)
    return gather(RECIPE)


def share(folder):
    """What each of two processes does: whole trainings, one that one process has begun, one that is cut."""
    results = {}
    with pytest.MonkeyPatch.context() as patch, joined("ddp", 1) as processes:
        dataset = set_up(patch)
        for parallel in PARALLEL:
            sharing = replace(processes, parallel=parallel)
            results[parallel] = run(folder / parallel, dataset, sharing)
            results[f"{parallel} begun"] = run(folder / f"{parallel} begun", dataset, sharing)
            run(folder / f"{parallel} cut", dataset, sharing, stop=("draft", 3))
    if processes.rank == 0:
        (folder / "results.json").write_text(json.dumps(results), encoding="utf-8")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What one process and two have trained, by name."""
    folder = tmp_path_factory.mktemp("shared")
    threads = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        dataset = set_up(patch)
        alone = run(folder / "alone", dataset)
        parts = run(folder / "parts", dataset, Processes(accumulate=2))
        run(folder / "ddp begun", dataset, stop=("draft-plain", 5))
        shutil.copytree(folder / "ddp begun", folder / "fsdp begun")
        both = start_two(folder)
        assert [process.wait(120) for process in both] == [0, 0]
        found = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        found |= {f"{name} cut": run(folder / f"{name} cut", dataset) for name in PARALLEL}
    torch.set_num_threads(threads)
    found = json.loads(json.dumps(found | {"alone": alone, "parts": parts}))  # steps as texts in all of them
    return found


def start_two(folder):
    """Starts two processes that find each other as those of torchrun do."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    paths = os.pathsep.join(map(str, Path(__file__).parents[:3]))
    code = "import sys; from pathlib import Path; from test_processes import share; share(Path(sys.argv[1]))"
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "PYTHONPATH": paths}
    return [
        subprocess.Popen(
            [sys.executable, "-c", code, str(folder)], env=os.environ | shared | {"RANK": str(rank)}
        )
        for rank in range(2)
    ]


def losses_of(result):
    """Returns the losses of all steps that were taken, in order, by model and step."""
    return {
        (name, step): loss
        for name, losses in result["losses"].items()
        for step, loss in losses.items()
        if loss == loss
    }


@pytest.mark.evidence
@pytest.mark.parametrize("parallel", PARALLEL)
def test_two_processes_have_the_losses_of_one(results, parallel):
    """Of every step of all three models, distillation included, to 1e-4, with the same batch."""
    one, two = losses_of(results["alone"]), losses_of(results[parallel])
    assert one.keys() == two.keys() and len(one) == 3 * STEPS
    assert two == pytest.approx(one, abs=1e-4)


@pytest.mark.evidence
def test_two_processes_are_one_that_accumulates_bit_for_bit(results):
    """The gradient of two halves is the same, whoever computes them; of the whole it is rounded otherwise."""
    assert results["ddp"]["hashes"] == results["parts"]["hashes"]
    assert losses_of(results["parts"]) == pytest.approx(losses_of(results["alone"]), abs=1e-4)


@pytest.mark.evidence
@pytest.mark.parametrize("parallel", PARALLEL)
@pytest.mark.parametrize(("name", "model", "first"), [("begun", "draft-plain", 5), ("cut", "draft", 3)])
def test_another_number_of_processes_goes_on(results, parallel, name, model, first):
    """Two with what one has begun, one with what two have; from the step saved last, with one's losses."""
    alone, resumed = losses_of(results["alone"]), losses_of(results[f"{parallel} {name}"])
    assert resumed and resumed == pytest.approx({key: alone[key] for key in resumed}, abs=1e-4)
    assert [int(step) for m, step in resumed if m == model] == list(range(first, STEPS + 1))
    done = MODELS[: MODELS.index(model)]
    assert not any(m in done for m, _ in resumed)


def test_gradients_of_parts_add_up_to_that_of_the_whole(tmp_path, monkeypatch):
    """One process that accumulates two halves of each batch has the losses of one that does not."""
    threads = torch.get_num_threads()
    dataset = set_up(monkeypatch)
    whole = losses_of(run(tmp_path / "whole", dataset))
    parts = losses_of(run(tmp_path / "parts", dataset, Processes(accumulate=2)))
    torch.set_num_threads(threads)
    assert parts == pytest.approx(whole, abs=1e-4) and len(whole) == 3 * STEPS


@given(count=st.integers(1, 4), accumulate=st.integers(1, 4), size=st.integers(1, 3))
def test_every_row_of_a_batch_goes_to_one_process(count, accumulate, size):
    """Each once, in parts of one size."""
    rows = torch.arange(count * accumulate * size)[:, None]
    parts = [part for rank in range(count) for part in Processes("ddp", rank, count, accumulate).parts(rows)]
    assert torch.equal(torch.cat(parts), rows) and {len(part) for part in parts} == {size}


def test_a_batch_that_cannot_be_shared_is_refused(tmp_path):
    """Before anything is made: 3 processes and 4 sequences, or 2 processes that accumulate 2 of 2."""
    for processes in (Processes("ddp", 0, 3), Processes("fsdp", 1, 2, accumulate=2)):
        with pytest.raises(ValueError, match="cannot be cut into . equal parts"):
            training.train_pair(RECIPE, tmp_path, print, processes=processes)
    assert list(tmp_path.iterdir()) == []
