"""Memory that the system refuses becomes a MemoryError; models and caches stay as they are."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from native_models import ALONE, SANITIZED, needs_compiler

from minispec.native.library import find_compiler, native_functions

HERE = Path(__file__).parent
LINUX = sys.platform.startswith("linux")
pytestmark = [
    pytest.mark.evidence,
    needs_compiler,
    pytest.mark.skipif(not LINUX or bool(SANITIZED), reason="memory is refused on Linux, without sanitizers"),
]


def run(part, *arguments, **environment):
    """Runs a part of `refused.py` in a process that can crash; returns what it has counted."""
    native_functions(torch.float32)  # the library is built here
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", str(HERE / "refused.py"), part, *arguments],
        env=os.environ | ALONE | environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return json.loads(done.stdout)


def test_every_request_for_memory_can_be_refused(tmp_path):
    """Each of a call in turn: a MemoryError with one line, no leak, the same cache; and without threads."""
    made = str(tmp_path / "refusals.so")
    switches = ["-O1", "-shared", "-fPIC", "-std=c++17", "-o", made]
    subprocess.run([*find_compiler(), *switches, str(HERE / "refusals.cpp"), "-ldl", "-pthread"], check=True)
    ended = run("requests", made, LD_PRELOAD=made)
    print(ended)
    taking = {name for name, count in ended.items() if count.get("refused")}
    assert taking == {*ended} - {"choose", "greedy"}  # these two take no memory
    many = {name for name in ended if name.startswith(("draw", "play"))}
    assert all(ended[name]["refused"] >= 5 for name in many | {"model"})
    assert ended["no threads"]["answered"] == 1  # memory for a thread is refused: the others compute


def test_a_full_address_space_ends_in_a_line():
    """At 10 sizes: what torch, numpy and the library are refused is a MemoryError, the rest is right.

    The command `generate` ends with one line and status 2. The process ends well with a thread in a forward.
    """
    ended = run("limit", MALLOC_MMAP_THRESHOLD_="131072")  # what is freed goes back to the system
    print(ended)
    first, *refused, last = ended.pop("command")
    assert first == last and first[0] == 0 and first[1].startswith("The cat")
    for status, out, err in refused:
        assert (status, out) == (2, "")
        assert err.startswith("minispec: there is not enough memory") and err.count("\n") == 1
    for name, count in ended.items():
        assert count["answered"] and len(count) > 1, name  # somebody was refused
    assert sum(count.get("torch or numpy", 0) for count in ended.values()) >= 15
    assert sum(count.get("the library", 0) for count in ended.values()) >= 3
