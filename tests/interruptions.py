"""A process that is interrupted at a chosen moment of its work on folders."""

import os
import sys

import pytest

CHANGES = (os.mkdir, os.rename, os.rmdir, os.unlink)
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="the interrupted process is a fork: POSIX")


def interrupt_at(step, end):
    """Calls `end` before or after a call that changes a folder: each such moment is a step."""
    count = [0]

    def profile(frame, event, function):
        if event in ("c_call", "c_return") and function in CHANGES:
            count[0] += 1
            if count[0] == step:
                end()

    sys.setprofile(profile)


def in_a_child(work):
    """Runs a function in a fork, which ends with it; returns the child's number."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    return child
