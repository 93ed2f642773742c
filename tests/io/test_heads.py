"""Heads on disk: what was written comes back; what does not fit is refused in one line."""

import json

import pytest
import torch
from refusals import refused
from safetensors.torch import load_file, save_file

from minispec import load_pair
from minispec.drafters.exit import Exit, untrained_exit
from minispec.drafters.medusa import Medusa
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


# Changes of what an exit's file says, or all that its header says; and what the message says.
WRONG = [
    ({"kind": "medusa"}, "it says kind .medusa"),
    ({"number": 0}, "number 0"),
    ({"number": 3.5}, "number 3.5"),
    ({"number": 65}, "number 65"),
    ({"target_sha256": "0" * 64}, "another target, of the same sizes"),
    (None, "cannot be read as a drafter"),
    ("[" * 100_000, "cannot be read as a drafter: maximum recursion"),
    ("[1]", "cannot be read as a drafter"),
]


def is_refused(pair, says):
    """Asserts that the exit of a pair is refused in one line that names the file."""
    with refused(says, "exit.safetensors"):
        load_heads(pair, "exit")


@pytest.fixture
def path(pair):
    """The file of an exit that is right."""
    path = heads_folder(pair) / "exit.safetensors"
    save_heads(untrained_exit(pair.target, 3), path, info(pair))
    return path


@pytest.mark.parametrize(("header", "says"), WRONG, ids=range(len(WRONG)))
def test_what_its_header_says_wrong_is_refused(pair, path, header, says):
    """Another kind, number or target; no header, and one that is none."""
    if isinstance(header, dict):
        header = json.dumps(info(pair, **header))
    save_file(load_file(path), path, None if header is None else {"minispec": header})
    is_refused(pair, says)


def test_what_does_not_fit_is_refused(pair, path):
    """Of another width, other weights, integers, half a file."""
    for module, says in (
        (Exit(64, 3), r"another target: .*64.* and should be .*128"),
        (Medusa(128, 494, 1), "another target: 2 weights are missing"),
    ):
        save_heads(module, path, info(pair))
        is_refused(pair, says)
    whole = {name: weight.to(torch.int8) for name, weight in load_file(path).items()}
    save_file(whole, path, {"minispec": json.dumps(info(pair))})
    is_refused(pair, "has type torch.int8; minispec reads torch.float16")
    path.write_bytes(path.read_bytes()[:200])
    is_refused(pair, "cannot be read as a drafter")


def test_a_pair_without_heads_says_how_to_get_them(pair, tmp_path):
    """The line names the command."""
    (tmp_path / "own").mkdir()
    alone = type(pair)(pair.target, pair.draft, pair.tokenizer, tmp_path / "own")
    with refused("minispec train --drafter medusa --pair"):
        load_heads(alone, "medusa")


def test_a_folder_that_cannot_be_written_is_one_line(pair, tmp_path):
    """A file stands where the folder should be."""
    (tmp_path / "drafters").write_text("")
    with refused("cannot write"):
        save_heads(untrained_exit(pair.target, 3), heads_folder(pair) / "exit.safetensors", info(pair))
