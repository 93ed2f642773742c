"""Plain Llama checkpoints, as transformers 4 and 5 write them, are read; what is not plain is refused."""

import pytest
import torch
from checkpoints import split
from native_models import needs_compiler
from pairs import edit_json
from safetensors.torch import load_file, save_file

from minispec.core.loop import generate
from minispec.core.model import GPT, GPTConfig
from minispec.core.rng import SeededRng
from minispec.core.warp import Warp
from minispec.io.checkpoint import save_model
from minispec.io.files import read_json
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
