"""Plain Llama checkpoints, as transformers 4 and 5 write them, are read; what is not plain is refused."""

import re

import pytest
import torch
from checkpoints import split
from native_models import needs_compiler
from pairs import edit_json
from refusals import refused
from safetensors.torch import load_file, save_file

from minispec.core.loop import generate
from minispec.core.model import GPT, GPTConfig
from minispec.core.rng import SeededRng
from minispec.core.warp import Warp
from minispec.io.checkpoint import save_model
from minispec.io.files import read_json, write_json
from minispec.io.source import load_model
from minispec.native.model import NativeGPT

SHAPES = {
    "grouped": GPTConfig(64, 3, 48, 6, 2, 40, max_length=50, rope_theta=500.0),
    "one head of keys, tied": GPTConfig(50, 1, 24, 6, 1, 64, max_length=40, tied=True, norm_eps=1e-6),
    "larger heads": GPTConfig(80, 2, 32, 4, 2, 56, max_length=48, head_size=16),
    "smaller heads, tied": GPTConfig(70, 2, 40, 4, 4, 33, max_length=64, tied=True, head_size=6),
    "a width that heads do not divide": GPTConfig(61, 2, 30, 4, 2, 44, max_length=64, head_size=10),
}
OPENING = [3, 1, 4, 1, 5, 9, 2, 6]


def random_model(config):
    torch.manual_seed(sum(map(ord, str(config))))
    return GPT(config).eval().requires_grad_(False)


def written(model):
    """Logits of a text, and the greedy text that follows it."""
    with torch.inference_mode():
        logits = model(torch.tensor([OPENING]))
    steps = generate(model, [OPENING], max_new_tokens=20, warp=Warp(0.0), rng=SeededRng(0))
    return logits, [token for (token,) in steps]


def as_5(folder):
    """Says of positions what transformers 5 says, where it says it."""
    theta = read_json(folder / "config.json")["rope_theta"]
    rotary = {"rope_type": "default", "rope_theta": theta}
    edit_json(
        folder / "config.json", rope_parameters=rotary, rope_theta=..., dtype="float32", torch_dtype=...
    )


def as_4(folder):
    """Says what transformers 4 says besides, and stores frequencies as its first versions did."""
    edit_json(folder / "config.json", rope_scaling=None, pretraining_tp=1, use_cache=True)
    weights = load_file(folder / "model.safetensors")
    weights["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(2)
    save_file(weights, folder / "model.safetensors")


@needs_compiler
@pytest.mark.parametrize("dialect", [as_4, as_5, split], ids=["as 4", "as 5", "in three files"])
@pytest.mark.parametrize("name", SHAPES)
def test_a_checkpoint_is_read_as_it_was_written(name, dialect, tmp_path):
    """The same bits as before, the same greedy text, and with the native backend too."""
    model = random_model(SHAPES[name])
    save_model(model, tmp_path, torch.float32)
    dialect(tmp_path)
    read = load_model(tmp_path)
    assert read.config == model.config
    (wanted, text) = written(model)
    (found, same) = written(read)
    assert torch.equal(wanted, found) and text == same
    found, same = written(NativeGPT(read))
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-4)
    assert same == text


@pytest.fixture
def folder(tmp_path):
    """A checkpoint that is right."""
    save_model(random_model(SHAPES["grouped"]), tmp_path)
    return tmp_path


def is_refused(folder, says):
    """Asserts that a checkpoint is refused in one line that names its folder."""
    with refused(re.escape(says), folder):
        load_model(folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"rope_parameters": {"rope_type": "llama3", "factor": 8.0, "rope_theta": 1e4}},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "factor": 2.0}},
        {"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5, "rope_theta": 1e4}},
        {"rope_parameters": "default"},
        {"rope_scaling": {"type": "linear", "factor": 2.0}},
    ],
    ids=str,
)
def test_positions_that_are_stretched_are_refused(changes, folder):
    edit_json(folder / "config.json", **changes)
    is_refused(folder, f"has {next(iter(changes))} ")


@pytest.mark.parametrize(
    ("index", "says"),
    [
        (None, "weight_map should name files"),
        ({}, "weight_map should name files"),
        ({"a": "../other.safetensors"}, "of this folder"),
        ({"a": "weights.bin"}, "that end in .safetensors"),
        ({str(i): f"{i}.safetensors" for i in range(1001)}, "1,000 at most"),
        ({"a": "gone.safetensors"}, "gone.safetensors cannot be read"),
    ],
)
def test_an_index_that_leads_nowhere_is_refused(index, says, folder):
    (folder / "model.safetensors").unlink()
    write_json(folder / "model.safetensors.index.json", {"weight_map": index})
    is_refused(folder, says)


@pytest.mark.parametrize("kind", [torch.int8, torch.bool, torch.uint8, torch.float8_e4m3fn])
def test_weights_that_do_not_stand_for_themselves_are_refused(kind, folder):
    """Quantized weights have scales elsewhere; without them the numbers would be wrong in silence."""
    weights = load_file(folder / "model.safetensors")
    name = "model.layers.1.mlp.up_proj.weight"
    save_file(weights | {name: weights[name].to(kind)}, folder / "model.safetensors")
    is_refused(folder, f"{name}' has type {kind}; minispec reads")


def test_what_several_files_do_not_hold_together_is_refused(folder):
    """Weights that do not fit the config, one that stands in two files, one file that is missing."""
    split(folder)
    edit_json(folder / "config.json", intermediate_size=41)
    is_refused(folder, "index.json does not fit its config.json")
    names = [f"model-0000{i}-of-00003.safetensors" for i in (1, 2, 3)]
    for name in names[::2]:
        save_file(load_file(folder / name) | {"model.norm.weight": torch.ones(48)}, folder / name)
    is_refused(folder, "'model.norm.weight' stands in another file, too")
    (folder / names[1]).unlink()
    is_refused(folder, f"{names[1]} cannot be read")


def test_a_weight_under_both_of_its_names_is_refused(folder):
    """Which of the two is meant nobody can know."""
    whole = load_file(folder / "model.safetensors")
    save_file(whole | {"norm.weight": -whole["model.norm.weight"]}, folder / "model.safetensors")
    is_refused(folder, "norm.weight is stored twice")
