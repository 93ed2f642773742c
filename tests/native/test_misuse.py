"""Misuse of the native backend ends in a clear error or in a right answer, never in a crash.

`MINISPEC_MISUSE=5000` makes so many calls instead of `CALLS`; every one hangs on its number alone.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from native_models import ALONE, needs_compiler

CALLS = int(os.environ.get("MINISPEC_MISUSE", 1000))


@pytest.mark.evidence
@needs_compiler
def test_misuse_is_refused_in_a_line_or_answered_rightly():
    """Calls with odd arguments, in a process of their own: one that crashes is seen here as a status."""
    command = [sys.executable, "-X", "faulthandler", str(Path(__file__).with_name("misuse.py")), str(CALLS)]
    done = subprocess.run(command, env=os.environ | ALONE, capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    seen = json.loads(done.stdout)
    print(seen)
    assert sum(seen.values()) == CALLS and "wrong" not in seen
    assert seen["refused"] > CALLS / 3 and seen["answered"] > CALLS / 5
