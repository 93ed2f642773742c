"""A training that is killed at any moment: what is there is whole, and the next one ends with the same."""

import os
import subprocess
import sys
import time

import psutil
import pytest
from pairs import random_models, tiny_tokenizer
from safetensors.torch import load_file

from minispec import load_model, load_pair
from minispec.io.checkpoint import save_model, tensors_hash
from minispec.io.files import read_json
from minispec.io.llama import WEIGHTS
from minispec.io.speculators import load_eagle3
from minispec.train.stories import draw_stories

# Runs a command as a person does, but saves more often.
WORKER = """
import sys
from minispec.cli.main import run
from minispec.train import training

training.SAVE_EVERY = 5
if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
"""

PAIR = "--text my.txt --preset quick --scale 0.1"
# What is trained, from files of a folder, and at how many moments it is killed.
TRAININGS = {
    "pair": (PAIR, 14),
    "pair, two processes": (f"{PAIR} --parallel ddp", 6),
    "head": ("--drafter eagle3 --for target --scale 0.06", 20),
}


def start(folder, home, kind):
    """Starts a training of some seconds; what it makes goes to the home folder."""
    command = [sys.executable]
    if kind == "pair, two processes":
        command += ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += ["worker.py", "train", *TRAININGS[kind][0].split()]
    command += ["--out", str(home / "my")] if kind == "head" else []
    quiet = subprocess.DEVNULL
    environment = os.environ | {"MINISPEC_HOME": str(home), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, cwd=folder, stdout=quiet, stderr=quiet, env=environment)


def kill(process):
    """Kills a process, and all that it has started."""
    try:
        family = [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]
    except psutil.NoSuchProcess:
        family = []
    for one in family:
        try:
            one.kill()
        except psutil.NoSuchProcess:
            continue
    process.wait()
    psutil.wait_procs(family, timeout=10)


def hashes(folder, home, kind):
    """Returns the hashes of what was made, which must be whole."""
    if kind == "head":
        load_eagle3(home / "my", load_model(folder / "target"))
        return tensors_hash(load_file(home / "my" / WEIGHTS))
    load_pair(home / "my")
    return {name: model["sha256"] for name, model in read_json(home / "my" / "pair.json")["models"].items()}


@pytest.fixture
def new_home(folder, libraries):
    """Makes a home folder, in which the native library is."""

    def make(name):
        home = folder / name
        home.mkdir()
        (home / "native").symlink_to(libraries)
        return home

    return make


@pytest.fixture
def folder(tmp_path):
    """A folder with what trainings read: a text, and a target with its tokenizer."""
    (tmp_path / "worker.py").write_text(WORKER, encoding="utf-8")
    stories = "\n\n".join(story.text for story in draw_stories(600, seed=9))
    (tmp_path / "my.txt").write_text(stories, encoding="utf-8")
    (tmp_path / "target").mkdir()
    save_model(random_models()[0], tmp_path / "target")
    tiny_tokenizer().save(tmp_path / "target" / "tokenizer.json")
    return tmp_path


@pytest.mark.evidence
@pytest.mark.parametrize("kind", TRAININGS)
def test_a_training_may_be_killed_at_any_moment(kind, folder, new_home):
    """From the first step to the last file; each time there is nothing, or all of it."""
    started = time.perf_counter()
    assert start(folder, new_home("undisturbed"), kind).wait() == 0
    whole = time.perf_counter() - started
    expected = hashes(folder, folder / "undisturbed", kind)
    stages = set()
    moments = TRAININGS[kind][1]
    for moment in range(moments):
        home = new_home(f"killed{moment}")
        process = start(folder, home, kind)
        time.sleep(whole * (0.3 + 0.7 * moment / (moments - 1)))
        kill(process)
        stages.add(tuple(sorted(path.name for path in home.glob("runs/*/[!.]*"))))
        if (home / "my").exists():
            assert hashes(folder, home, kind) == expected
        assert start(folder, home, kind).wait() == 0
        assert hashes(folder, home, kind) == expected
    print(f"{kind}: killed {moments} times, within {whole:.1f} s; {len(stages)} different things were left")
    assert len(stages) >= 4
