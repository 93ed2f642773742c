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


def test_every_request_for_memory_can_be_refused(tmp_path):
    """Each of a call in turn: a MemoryError with one line, no leak, the same cache; and without threads."""
    made = str(tmp_path / "refusals.so")
    switches = ["-O1", "-shared", "-fPIC", "-std=c++17", "-o", made]
    subprocess.run([*find_compiler(), *switches, str(HERE / "refusals.cpp"), "-ldl", "-pthread"], check=True)
    native_functions(torch.float32)  # the library is built here
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", str(HERE / "refused.py"), made],
        env=os.environ | ALONE | {"LD_PRELOAD": made},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    ended = json.loads(done.stdout)
    print(ended)
    taking = {name for name, count in ended.items() if count.get("refused")}
    assert taking == {*ended} - {"choose", "greedy"}  # these two take no memory
    many = {name for name in ended if name.startswith(("draw", "play"))}
    assert all(ended[name]["refused"] >= 5 for name in many | {"model"})
    assert ended["no threads"]["answered"] == 1  # memory for a thread is refused: the others compute
