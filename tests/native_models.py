"""Native models for tests."""

import os
import shutil
from pathlib import Path

import pytest
import tiny
import torch

from minispec import SeededRng, speculate
from minispec.drafters.eagle import FeatureLayer
from minispec.drafters.eagle3 import Eagle3Layer
from minispec.drafters.exit import untrained_exit
from minispec.drafters.medusa import Medusa
from minispec.drafters.parallel import ParallelLayers
from minispec.evidence.proof.models import with_normals
from minispec.native import library
from minispec.native.decisions import NativeWarp
from minispec.native.drafter import Chain
from minispec.native.library import find_compiler

ROUND = ("index", "prompt_ids", "live", "emitted", "finish", "lengths", "stops_at_first_rejection")
CLOSE = {torch.float64: 1e-11, torch.float32: 1e-4}  # how far logits may be from those of torch
# Sizes of GPTs: those that fill no vector, and those that are more than a panel.
ODD = {"vocab_size": 101, "width": 36, "heads": 6, "kv_heads": 2, "ffn": 41}
WIDE = {"vocab_size": 300, "width": 160, "heads": 2, "kv_heads": 1, "ffn": 200}

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


def assert_same_logits(model, ours):
    """Whole texts, then ragged rows through the cache at widths 1 to 20, where one row's context ends."""
    mine = ours.new_cache(3)
    theirs = model.new_cache(3)
    for width, lengths in (
        (17, [17, 4, 9]),
        (1, [18, 5, 10]),
        (6, [24, 7, 16]),
        (7, [31, 9, 20]),
        (20, None),
    ):
        tokens = block(model, 3, width, seed=width)
        space = model.max_length - torch.tensor(mine.row_lengths)[:, None]
        real = torch.arange(width) < space  # what lies past a row's end means nothing
        found = ours(tokens, mine)
        wanted = model(tokens, theirs)
        assert found.dtype == model.dtype and mine.row_lengths == theirs.row_lengths
        torch.testing.assert_close(found[real], wanted[real], rtol=0, atol=CLOSE[model.dtype])
        if lengths:
            mine.truncate(lengths), theirs.truncate(lengths)
    assert not real.all() and mine.row_lengths == (model.max_length, 29, 40)


def exit_of(model, layers):
    """Returns an exit with some random numbers; what leaves there is right now and then."""
    made = untrained_exit(model, layers).double()
    noise = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in made.parameters():
            weight += 0.1 * torch.randn(weight.shape, generator=noise).double()
    return made.to(model.dtype)


def trained(gpt, kind, layers=1):
    """Returns what drafts for a GPT, with random numbers."""
    if kind == "exit":
        return exit_of(gpt, layers)
    made = {
        "eagle": lambda: FeatureLayer(gpt.config, layers),
        "eagle3": lambda: Eagle3Layer(gpt.config, (1, 2), torch.arange(0, gpt.vocab_size, 2)),
        "parallel": lambda: ParallelLayers(gpt.config, layers),
        "medusa": lambda: Medusa(gpt.config.width, gpt.vocab_size, 3),
    }[kind]()
    return with_normals(made, 7).to(gpt.dtype)


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
    side,
    prompts,
    *,
    rule="rejection",
    temperature=1.0,
    seed=0,
    warp=None,
    rng=None,
    trees=False,
    how=speculate,
    **settings,
):
    """Returns the rounds of a run, and the numbers that its generator would give next.

    A side is a backend, a target, and what makes a drafter; `how` is the loop.
    """
    backend, target, make = side
    settings = {
        "k": 4,
        "max_new_tokens": 30,
        "verifier": backend.verifier(rule, trees),
    } | settings
    draws = (rng or backend.rng)(seed)
    warp = backend.warp(temperature, **warp or {})
    rounds = list(how(target, make(), prompts, warp=warp, rng=draws, **settings))
    later = draws.bernoulli(torch.full((20,), 0.5)).tolist() if isinstance(draws, SeededRng) else None
    return rounds, later


def same_round(ours, theirs, tolerance):
    """Asserts that two rounds are one, but for the numbers in q, which may differ so much."""
    for name in ROUND:
        assert getattr(ours, name) == getattr(theirs, name), name
    for name in ("accepted", "token"):
        assert torch.equal(getattr(ours.verdict, name), getattr(theirs.verdict, name)), name
    for name in ("tokens", "lengths"):
        assert torch.equal(getattr(ours.draft, name), getattr(theirs.draft, name)), name
    mask = ours.draft.mask
    q = ours.draft.probs[mask].double()
    torch.testing.assert_close(q, theirs.draft.probs[mask].double(), rtol=0, atol=tolerance)
