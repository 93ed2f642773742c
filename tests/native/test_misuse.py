"""Misuse of the native backend ends in a clear error or in a right answer, never in a crash.

`MINISPEC_MISUSE=5000` makes so many calls instead of `CALLS`; every one hangs on its number alone.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from native_models import needs_compiler

CALLS = int(os.environ.get("MINISPEC_MISUSE", 1000))
TESTS = Path(__file__).parents[1]


@needs_compiler
def test_misuse_is_refused_in_a_line_or_answered_rightly():
    """Calls with odd arguments, in a process of their own: one that crashes is seen here as a status."""
    command = [sys.executable, "-X", "faulthandler", str(TESTS / "native" / "misuse.py"), str(CALLS)]
    paths = os.pathsep.join([str(TESTS.parent), str(TESTS)])
    environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    seen = json.loads(done.stdout)
    print(seen)
    assert sum(seen.values()) == CALLS and "wrong" not in seen
    assert seen["refused"] > CALLS / 3 and seen["answered"] > CALLS / 5
