"""Weights on their way from a file to the native backend: mapped, packed layer by layer, there once."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import tiny
import torch
from native_models import ALONE, SANITIZED, block, needs_compiler

from minispec import GPT, GPTConfig, load_pair
from minispec.io.checkpoint import save_model
from minispec.io.source import load_model
from minispec.native.backend import on_backend
from minispec.native.library import native_functions
from minispec.native.model import NativeGPT

TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
MEGABYTE = 10**6
# Loads a folder; says what that took at most, and what it takes afterwards, without what is mapped.
LOADED = """
import json, sys, torch
from pathlib import Path
from minispec.io.source import load_model
from minispec.native.model import NativeGPT
import tiny

def taken():
    lines = Path("/proc/self/status").read_text().splitlines()
    return [1024 * int(line.split()[1]) for line in lines if line.startswith(("VmHWM", "RssAnon"))]

folder, backend, dtype = sys.argv[1:]
kept = getattr(torch, dtype)
NativeGPT(tiny.gpt(tiny.config()), kept=kept)  # so that torch and the library have what they need
before = taken()
if backend == "native":
    model = NativeGPT(load_model(folder, dtype=None), kept=kept)
else:
    model = load_model(folder, dtype=kept)
print(json.dumps([now - then for now, then in zip(taken(), before)]))
"""


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_weights_stay_as_they_are_stored(dtype, tied, tmp_path):
    """Of every type, and no copy is made: the file's own pages are what is read."""
    model = tiny.gpt(tiny.config(tied=tied))
    save_model(model, tmp_path, dtype)
    again = load_model(tmp_path, dtype=None)
    assert {weight.dtype for weight in again.parameters()} == {dtype}
    assert (again.lm_head.weight is again.embed_tokens.weight) is tied
    for name, weight in again.state_dict().items():
        assert torch.equal(weight, model.state_dict()[name].to(dtype)), name
    if Path("/proc/self/maps").exists():
        lines = [line for line in Path("/proc/self/maps").read_text().splitlines() if str(tmp_path) in line]
        mapped = [[int(end, 16) for end in line.split()[0].split("-")] for line in lines]
        assert all(any(a <= weight.data_ptr() < b for a, b in mapped) for weight in again.parameters())


@needs_compiler
@torch.inference_mode()
@pytest.mark.parametrize("kept", [torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_a_native_model_is_made_of_weights_of_any_type(dtype, kept):
    """It has the bits of one that was made of the converted model; what is stored stays as it was."""
    model = tiny.gpt(tiny.config(tied=True, layers=3), dtype=dtype)
    ours = NativeGPT(model, kept=kept)
    assert {weight.dtype for weight in model.parameters()} == {dtype} and ours.weights_dtype == dtype
    converted = NativeGPT(tiny.gpt(tiny.config(tied=True, layers=3), dtype=dtype).to(kept))
    text = block(model, 2, 9)
    assert torch.equal(ours(text), converted(text))


@needs_compiler
@pytest.mark.parametrize("part", ["embed_tokens", "layers.2.mlp.up_proj", "norm", "lm_head"])
def test_a_model_that_was_packed_otherwise_is_refused(part, monkeypatch):
    """The comparison sees every part, though it copies one after the other."""
    sizes = tiny.config(layers=3, vocab_size=37)
    monkeypatch.setattr("minispec.native.pack.AT_ONCE", 8)
    right = tiny.gpt(sizes)
    other = tiny.gpt(sizes)
    with torch.no_grad():
        other.get_submodule(part).weight[3] += 0.5  # the text has it
    for kept in (torch.float64, torch.int8):
        native = NativeGPT(other, kept=kept)
        native.check(other)
        with pytest.raises(ValueError, match="does not compute what the model does"):
            native.check(right)


@needs_compiler
@pytest.mark.parametrize("kept", [torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_both_backends_keep_weights_in_the_type_that_a_pair_says(kept):
    """Loaded as they are stored, in bfloat16."""
    pair = replace(load_pair("stories", dtype=None), kept=kept)
    native = on_backend(pair, "native")
    assert pair.target.dtype == torch.bfloat16
    assert native.target.native.dtype == native.draft.native.dtype == kept
    plain = on_backend(pair, "torch")
    assert plain.target is pair.target and {w.dtype for w in pair.target.parameters()} == {kept}
    text = block(pair.target, 1, 8)
    difference = (native.target(text).double() - plain.target(text).double()).abs().max()
    assert difference < (0.2 if kept == torch.bfloat16 else 1e-4)


@needs_compiler
@pytest.mark.evidence
@pytest.mark.skipif(not sys.platform.startswith("linux") or bool(SANITIZED), reason="it reads /proc")
def test_loading_takes_little_more_than_what_is_kept(tmp_path):
    """A checkpoint of 105 MB in bfloat16: the pages of the file, what is packed, and one layer's copy."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        sizes = GPTConfig(20_000, layers=12, width=576, heads=9, kv_heads=3, ffn=1536, tied=True)
        save_model(GPT(sizes), tmp_path)
    size = (tmp_path / "model.safetensors").stat().st_size
    assert 100 * MEGABYTE < size < 120 * MEGABYTE
    native_functions(torch.float32)  # the library is built here
    most = {  # of the file's size: at most, and afterwards without what is mapped
        ("native", "bfloat16"): (2.75, 1.6),
        ("native", "int8"): (2.8, 1.6),
        ("native", "float32"): (4.5, 3.4),
        ("torch", "bfloat16"): (1.2, 0.1),
        ("torch", "float32"): (3.2, 2.1),
    }
    for (backend, dtype), limits in most.items():
        command = [sys.executable, "-c", LOADED, str(tmp_path), backend, dtype]
        done = subprocess.run(command, env=os.environ | ALONE, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3000:]
        taken = [number / size for number in json.loads(done.stdout)]
        print(backend, dtype, [round(share, 2) for share in taken])
        assert 0 < taken[0] <= limits[0] and taken[1] <= limits[1], (backend, dtype)
