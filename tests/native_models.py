"""Native models for tests: the library is built once in a run of the tests, in a folder of its own."""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from minispec.native.model import NativeGPT


@cache
def folder():
    """Returns where the library is kept while the tests run."""
    made = tempfile.mkdtemp(prefix="minispec-native-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(made)


def native(model):
    """Returns a model on the native path."""
    return NativeGPT(model, folder())
