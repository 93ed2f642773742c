"""Whenever the replacing of a pair is interrupted, all of the old pair or all of the new one is there."""

import os
import random
import shutil
import signal
import sys
import time
from functools import partial

import pytest
import torch
from interruptions import forks, in_a_child, interrupt_at
from pairs import build_pair, files_below, random_models

from minispec.io.checkpoint import find_pair, known_pairs, load_pair, weights_hash
from minispec.io.files import replace_folder

MOMENTS = 30  # at which a signal comes; three planted faults were found by the 5th
LONGEST = 0.015  # seconds until it does
SLOW = 0.001  # seconds of a renaming, as on a network's disk: a quarter of a replacement


@pytest.fixture
def two(tmp_path):
    """Returns two pairs, and the folder of a third that is one of them."""
    target, draft = random_models()
    sources = [build_pair(tmp_path / "sources/a", target, draft, name="a")]
    with torch.no_grad():
        target.norm.weight.mul_(2)
    sources.append(build_pair(tmp_path / "sources/b", target, draft, name="b"))
    folder = tmp_path / "home" / "pair"
    shutil.copytree(sources[0], folder)
    return sources, folder


def put(source, folder):
    """Replaces a folder by a copy of another."""
    with replace_folder(folder) as new:
        shutil.copytree(source, new, dirs_exist_ok=True, copy_function=os.link)


def press_ctrl_c():
    raise KeyboardInterrupt


def whole(folder, sources):
    """Returns which of two pairs is read: it must be all of one of them."""
    return [files_below(source) for source in sources].index(files_below(find_pair(folder)))


def test_ctrl_c_at_every_step(two):
    """Before and after each change of a folder: the pair is whole, and the next replacement works."""
    (old, new), folder = two
    step = 0
    interrupted = True
    while interrupted:
        step += 1
        put(old, folder)
        interrupt_at(step, press_ctrl_c)
        try:
            put(new, folder)
            interrupted = False
        except (KeyboardInterrupt, ValueError):  # within rmtree, Ctrl-C can come out as "Bad file descriptor"
            pass
        finally:
            sys.setprofile(None)
        whole(folder, (old, new))
    assert step > 20 and files_below(folder) == files_below(new)
    put(old, folder)
    assert files_below(folder) == files_below(old)


@pytest.mark.evidence
@forks
def test_killed_at_every_step(two):
    """The same where the process ends at once; then one more is killed where the first has left things."""
    (old, new), folder = two
    reads = set()
    for step in range(1, 1000):
        put(old, folder)
        for source in (new, old) if step % 3 else (new,):  # the second begins in what the first has left

            def work(source=source, step=step):
                interrupt_at(step, lambda: os._exit(1))
                put(source, folder)

            status = os.waitpid(in_a_child(work), 0)[1]
            reads.add((whole(folder, (old, new)), folder.exists()))
        if status == 0:
            break
    assert step > 20 and {(0, True), (1, True), (0, False)} <= reads


@forks
def test_what_a_killed_process_has_put_aside_is_found_by_name_and_comes_back(two, monkeypatch):
    """Between the two renames: the pair is known and found by its name; the next replacement tidies up."""
    (old, new), folder = two
    monkeypatch.setenv("MINISPEC_HOME", str(folder.parent))
    rename = os.rename

    def work():
        os.rename = lambda *names: (rename(*names), os._exit(1))
        put(new, folder)

    os.waitpid(in_a_child(work), 0)
    assert not folder.exists() and load_pair("pair").name == "a" and "pair" in known_pairs()
    put(new, folder)
    assert load_pair("pair").name == "b" and [path.name for path in folder.parent.iterdir()] == ["pair"]


def end(child, which):
    """Sends a signal until it ends a child: Python loses Ctrl-C where it comes while an object is deleted."""
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        os.kill(child, which)
        time.sleep(0.005)


@pytest.mark.evidence
@forks
def test_signals_at_random_moments(two):
    """30 moments, SIGKILL and SIGINT in turn: the pair loads, and is the old one or the new one."""
    sources, folder = two
    hashes = [weights_hash(load_pair(source).target) for source in sources]
    moments = random.Random(0)

    hear, tell = os.pipe()
    rename = os.rename

    def slow(*names):
        rename(*names)
        time.sleep(SLOW)

    def work(which=0):
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.rename = slow
        os.write(tell, b"!")
        while True:
            which = 1 - which
            put(sources[which], folder)

    seen = set()
    which = 0
    for number in range(MOMENTS):
        child = in_a_child(partial(work, which))
        os.read(hear, 1)
        time.sleep(moments.uniform(0, LONGEST))
        end(child, signal.SIGINT if number % 2 else signal.SIGKILL)
        pair = load_pair(folder)
        which = whole(folder, sources)
        assert weights_hash(pair.target) == hashes[which] and pair.name == "ab"[which]
        seen.add(which)
    assert seen == {0, 1}
