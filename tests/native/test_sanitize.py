"""The native library under sanitizers, briefly; `make sanitize` runs every test of the native backend so.

Races are looked for once a week: a run of `test_border.py` in several threads has the texts of each alone.
"""

import os

import pytest
from native import sanitize


@pytest.mark.skipif("MINISPEC_SANITIZE" in os.environ, reason="this is under a sanitizer already")
@pytest.mark.parametrize("kind", ["address", pytest.param("thread", marks=pytest.mark.evidence)])
def test_calls_from_two_threads_are_clean(kind):
    """Forwards, drafts, rules, right and wrong: no memory that is not ours, nothing undefined, no race."""
    if sanitize.runtimes(kind) is None:
        pytest.skip(sanitize.MISSING)
    done = sanitize.run(kind, [str(sanitize.NATIVE / "misuse.py"), "100", "2"])
    assert done.returncode == 0, done.stdout[-3000:]
