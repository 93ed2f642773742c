"""Native models for tests: the library is built once in a run of the tests, in a folder of its own."""

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

import pytest
import tiny
import torch

from minispec.native import library
from minispec.native.library import find_compiler
from minispec.native.model import NativeGPT

SANITIZED = os.environ.get("MINISPEC_SANITIZE")  # switches of the compiler: see native/sanitize.py
if SANITIZED:
    library.FLAGS = (*library.FLAGS, "-g", *SANITIZED.split())


def has_compiler():
    """Whether the library can be built here."""
    try:
        return bool(find_compiler())
    except ValueError:
        return False


needs_compiler = pytest.mark.skipif(not has_compiler(), reason="there is no C++ compiler here")


@cache
def folder():
    """Returns where the library is kept while the tests run."""
    if SANITIZED:
        return Path(os.environ["MINISPEC_HOME"]) / "native"
    made = tempfile.mkdtemp(prefix="minispec-native-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(made)


def native(model):
    """Returns a model on the native backend."""
    return NativeGPT(model, folder())


def small_pair(dtype=torch.float32):
    """Returns a target and a smaller draft with a vocabulary of three tokens."""
    sizes = {"vocab_size": 3, "max_length": 24}
    less = {"layers": 1, "width": 8, "heads": 2, "kv_heads": 1, "ffn": 8}
    return tiny.gpt(tiny.config(**sizes), 0, dtype), tiny.gpt(tiny.config(**sizes, **less), 1, dtype)


def block(model, rows, length, seed=0):
    """Returns tokens [rows, length]."""
    return torch.randint(model.vocab_size, (rows, length), generator=torch.Generator().manual_seed(seed))
