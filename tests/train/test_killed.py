"""A training that is killed at any moment: the pair is whole, and the next one ends with the same weights."""

import os
import subprocess
import sys
import time

import psutil
import pytest

from minispec.io.checkpoint import load_pair
from minispec.io.files import read_json
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


def start(folder, home, processes):
    """Starts a training of some seconds; its pair goes to the home folder."""
    command = [sys.executable]
    if processes > 1:
        command += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    options = ["--text", folder / "my.txt", "--preset", "quick", "--scale", "0.1"]
    command += [folder / "worker.py", "train", *options]
    command += ["--parallel", "ddp"] if processes > 1 else []
    quiet = subprocess.DEVNULL
    environment = os.environ | {"MINISPEC_HOME": str(home), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([*map(str, command)], stdout=quiet, stderr=quiet, env=environment)


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


def hashes(home):
    """Returns the hashes of a pair's weights; it must be whole."""
    load_pair(home / "my")
    return {name: model["sha256"] for name, model in read_json(home / "my" / "pair.json")["models"].items()}


@pytest.mark.evidence
@pytest.mark.parametrize(("processes", "moments"), [(1, 14), (2, 6)])
def test_a_training_may_be_killed_at_any_moment(processes, moments, tmp_path):
    """20 moments in all, from the first step to the last file; each time there is no pair, or a whole one."""
    (tmp_path / "worker.py").write_text(WORKER, encoding="utf-8")
    stories = "\n\n".join(story.text for story in draw_stories(600, seed=9))
    (tmp_path / "my.txt").write_text(stories, encoding="utf-8")
    started = time.perf_counter()
    assert start(tmp_path, tmp_path / "undisturbed", processes).wait() == 0
    whole = time.perf_counter() - started
    expected = hashes(tmp_path / "undisturbed")
    stages = set()
    for moment in range(moments):
        home = tmp_path / f"killed{moment}"
        process = start(tmp_path, home, processes)
        time.sleep(whole * (0.3 + 0.7 * moment / (moments - 1)))
        kill(process)
        stages.add(tuple(sorted(path.name for path in home.glob("runs/*/*.step-*"))))
        if (home / "my").exists():
            assert hashes(home) == expected
        assert start(tmp_path, home, processes).wait() == 0
        assert hashes(home) == expected
    assert len(stages) >= 4  # what was left differed
