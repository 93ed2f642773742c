"""Heads on disk: what was written comes back; what does not fit is refused in one line."""

import pytest
import torch
from refusals import refused

from minispec import load_pair
from minispec.drafters.exit import Exit, untrained_exit
from minispec.io.heads import heads_folder, load_heads, save_heads, target_hash
from minispec.train.heads import make_feature_layer, make_parallel


@pytest.fixture
def pair(tmp_path, monkeypatch):
    """The shipped pair; what is trained for it goes to an empty folder."""
    monkeypatch.setenv("MINISPEC_HOME", str(tmp_path))
    return load_pair("stories")


def info(pair, **changes):
    """Returns what a file of an exit says."""
    return {"kind": "exit", "number": 3, "target_sha256": target_hash(pair)} | changes


def test_heads_come_back(pair):
    """The same numbers, rounded to bfloat16, in the target's type; the cache comes before the package."""
    torch.manual_seed(0)
    made = Exit(pair.target.config.width, 3)
    torch.nn.init.normal_(made.proj.weight)
    path = heads_folder(pair) / "exit.safetensors"
    save_heads(made, path, info(pair, steps=7))
    found, said = load_heads(pair, "exit")
    assert (found.layers, said["steps"]) == (3, 7)
    assert torch.equal(found.proj.weight, made.proj.weight.detach().bfloat16().float())
    assert not any(weight.requires_grad for weight in found.parameters())
    assert [file.name for file in path.parent.iterdir()] == ["exit.safetensors"]  # nothing half-written


@pytest.mark.parametrize(("kind", "make"), [("eagle", make_feature_layer), ("parallel", make_parallel)])
def test_layers_come_back(pair, kind, make):
    """As many as their file says, in the target's type, with all that belongs to them."""
    made = make(pair.target, 2)
    save_heads(made, heads_folder(pair) / f"{kind}.safetensors", info(pair, kind=kind, number=2))
    found, _ = load_heads(pair, kind)
    assert len(found.layers) == 2
    for name, weight in found.state_dict().items():
        assert torch.equal(weight, made.state_dict()[name].bfloat16().float())


def test_a_known_hash_is_the_weights(pair):
    """What `pair.json` says of the target is what its weights give."""
    assert target_hash(pair) == target_hash(type(pair)(pair.target, pair.draft, pair.tokenizer, pair.folder))


def test_a_folder_that_cannot_be_written_is_one_line(pair, tmp_path):
    """A file stands where the folder should be."""
    (tmp_path / "drafters").write_text("")
    with refused("cannot write"):
        save_heads(untrained_exit(pair.target, 3), heads_folder(pair) / "exit.safetensors", info(pair))
