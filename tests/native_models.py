"""Native models for tests: the library lies where every program of this user has it."""

import os
import shutil
from pathlib import Path

import pytest
import tiny
import torch

from minispec import SeededRng, speculate
from minispec.io.checkpoint import cache_folder
from minispec.native import library
from minispec.native.decisions import NativeWarp
from minispec.native.drafter import Chain
from minispec.native.library import find_compiler

LIBRARIES = cache_folder() / "native"  # before a test has another home
LIBRARIES.mkdir(parents=True, exist_ok=True)

# What a program is started with that is to import the checkout that these tests lie in.
ALONE = {"PYTHONPATH": os.pathsep.join(map(str, Path(__file__).parents[:2])), "OMP_NUM_THREADS": "1"}
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


def small_pair(dtype=torch.float32):
    """Returns a target and a smaller draft with a vocabulary of three tokens."""
    sizes = {"vocab_size": 3, "max_length": 24}
    less = {"layers": 1, "width": 8, "heads": 2, "kv_heads": 1, "ffn": 8}
    return tiny.gpt(tiny.config(**sizes), 0, dtype), tiny.gpt(tiny.config(**sizes, **less), 1, dtype)


def block(model, rows, length, seed=0):
    """Returns tokens [rows, length]."""
    return torch.randint(model.vocab_size, (rows, length), generator=torch.Generator().manual_seed(seed))


def drawn(model, tokens, cache, k, temperature, numbers, budgets=None):
    """Draws a draft with a native model; see `Chain.draw`."""
    return Chain(model).draw(tokens, cache, k, NativeWarp(temperature), numbers, budgets)


QUICK_FLAGS = ("-O0", "-std=c++17", "-shared", "-fPIC")  # a slow library, built in a second


def plant(monkeypatch, folder, right, wrong):
    """Makes the library one of a source in `folder` that differs from the shipped one; returns its path."""
    shutil.copytree(library.SOURCE.parent, folder / "cpp")
    path = folder / "cpp" / "forward.h"
    assert right in path.read_text()
    path.write_text(path.read_text().replace(right, wrong))
    source = folder / "cpp" / "native.cpp"
    monkeypatch.setattr(library, "SOURCE", source)
    monkeypatch.setattr(library, "FLAGS", QUICK_FLAGS)
    return source


def decided(
    side, prompts, *, rule="rejection", temperature=1.0, seed=0, warp=None, rng=None, trees=False, **settings
):
    """Returns the rounds of a run, and the numbers that its generator would give next.

    A side is a backend, a target, and what makes a drafter.
    """
    backend, target, make = side
    settings = {
        "k": 4,
        "max_new_tokens": 30,
        "verifier": backend.verifier(rule, trees),
    } | settings
    draws = (rng or backend.rng)(seed)
    warp = backend.warp(temperature, **warp or {})
    rounds = list(speculate(target, make(), prompts, warp=warp, rng=draws, **settings))
    later = draws.bernoulli(torch.full((20,), 0.5)).tolist() if isinstance(draws, SeededRng) else None
    return rounds, later


def assert_same(sides, prompts, **settings):
    """Asserts that both sides decide the same, and use up the same numbers; returns the rounds."""
    (plain, after), (ours, later) = (decided(side, prompts, **settings) for side in sides)
    for one, other in zip(plain, ours, strict=True):
        assert (one.emitted, one.finish) == (other.emitted, other.finish)
        assert torch.equal(one.draft.tokens, other.draft.tokens)
        assert torch.equal(one.draft.lengths, other.draft.lengths)
        here = one.draft.mask
        torch.testing.assert_close(other.draft.probs[here], one.draft.probs[here], rtol=0, atol=1e-10)
        assert torch.equal(one.verdict.accepted, other.verdict.accepted)
        assert torch.equal(one.verdict.token, other.verdict.token)
    assert later == after
    return plain
