"""The native library under sanitizers; `make sanitize` runs every test of the native backend so."""

import os

import pytest
from native import sanitize


@pytest.mark.evidence
@pytest.mark.skipif("MINISPEC_SANITIZE" in os.environ, reason="this is under a sanitizer already")
@pytest.mark.parametrize("kind", sanitize.CHECKED)
def test_calls_from_two_threads_are_clean(kind):
    """Forwards, drafts, rules, right and wrong: no memory that is not ours, nothing undefined, no race."""
    if sanitize.runtimes(kind) is None:
        pytest.skip(sanitize.MISSING)
    done = sanitize.run(kind, [str(sanitize.NATIVE / "misuse.py"), "100", "2"])
    assert done.returncode == 0, done.stdout[-3000:]
