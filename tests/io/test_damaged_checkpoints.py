"""Damaged checkpoints from elsewhere: each is refused in one line, or has the sizes of the original.

Nothing but ValueError, and no more memory than `MEMORY` beyond what the process had, whatever a file claims.
`MINISPEC_DAMAGED=1000` makes so many copies instead of `COPIES`; every one hangs on its number alone.
"""

import os
import shutil
import struct
from contextlib import contextmanager
from functools import partial

import psutil
import pytest
import torch
from checkpoints import split
from gguf_files import byte_level, write_gguf
from junk import cut_or_extend, damage, flip, outcomes
from pairs import random_models, tiny_tokenizer
from safetensors.torch import load_file, save_file

from minispec.io.checkpoint import save_model
from minispec.io.files import read_json, write_json
from minispec.io.source import load_models

COPIES = int(os.environ.get("MINISPEC_DAMAGED", 60))
MEMORY = 2**29  # a thread's stacks and arenas are most of it
SIZES = ("vocab_size", "layers", "width", "heads", "kv_heads", "ffn", "head_dim")
HOSTILE = (0, 1, 2, 5, 13, 255, 2**16, 2**21, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**60, 2**63, 2**64 - 1)
BESIDE = {
    "generation_config.json": {"eos_token_id": [0, 7], "do_sample": True},
    "tokenizer_config.json": {"add_bos_token": False, "chat_template": "{{ messages[0].content }}"},
}
TEXTS = ("config.json", "tokenizer.json", "model.safetensors.index.json", *BESIDE)
HEADER = 6000  # bytes: about so long is the header of the small file


def bits(dice, path):
    """Flips bits, often in the header."""
    flip(dice, path, [64, HEADER])


def claim(dice, path):
    """Puts a hostile number in a place of the header, of four bytes or eight: a count, a length, a type."""
    data = bytearray(path.read_bytes())
    code = dice.choice("IQ")
    place = dice.choice((8, 16, dice.randrange(min(len(data) - 8, HEADER))))
    struct.pack_into(f"<{code}", data, place, dice.choice(HOSTILE) % 2 ** (32 if code == "I" else 64))
    path.write_bytes(data)


def change_a_field(dice, path):
    """Looks for the key of a field, and puts a hostile number where its type or its value stands."""
    data = bytearray(path.read_bytes())
    keys = (
        b"block_count",
        b"head_count",
        b"embedding_length",
        b"tokens",
        b"merges",
        b"token_type",
        b"bos_token_id",
    )
    key = dice.choice(keys)
    place = data.find(key)
    if place >= 0:
        struct.pack_into("<I", data, place + len(key) + dice.choice((0, 4, 8)), dice.choice(HOSTILE) % 2**32)
    path.write_bytes(data)


def swap_parts(dice, path):
    """Copies a part of the file over another."""
    data = bytearray(path.read_bytes())
    size = dice.choice((1, 8, 100))
    one, other = (dice.randrange(min(len(data) - size, HEADER)) for _ in range(2))
    data[one : one + size] = data[other : other + size]
    path.write_bytes(data)


def edit(dice, folder):
    """Changes something in a JSON file of a folder."""
    path = folder / dice.choice((*TEXTS, TEXTS[0], TEXTS[2]))
    data = read_json(path)
    damage(data, dice)
    write_json(path, data)


def bytes_of_a_file(dice, folder):
    """Damages the bytes of one file of a folder."""
    dice.choice((bits, cut_or_extend, claim, swap_parts))(dice, dice.choice(sorted(folder.iterdir())))


def change_tensors(dice, folder):
    """One tensor of another shape or type, under another name, or missing."""
    path = dice.choice(sorted(folder.glob("*.safetensors")))
    weights = load_file(path)
    name = dice.choice(sorted(weights))
    weight = weights.pop(name)
    others = (weight.flatten(), weight[:-1], weight[None], weight.to(torch.int8), torch.zeros(0))
    kind = dice.randrange(len(others) + 2)
    if kind < len(others):
        weights[name] = others[kind].contiguous()
    elif kind == len(others):
        weights[f"{name}.more"] = weight
    save_file(weights, path, metadata={"format": "pt"})


def swap_files(dice, folder):
    """One file takes the place of another."""
    one, other = dice.sample(sorted(folder.iterdir()), 2)
    shutil.copyfile(one, other)


DAMAGE = {
    "gguf": (bits, bits, cut_or_extend, claim, claim, change_a_field, swap_parts),
    "folder": (edit, edit, bytes_of_a_file, change_tensors, swap_files),
}


@contextmanager
def little_memory():
    """Lets this process have `MEMORY` more than it has, where the system can see to that."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (psutil.Process().memory_info().vms + MEMORY, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """A GGUF file and a folder of several files of weights, and what is read of them."""
    root = tmp_path_factory.mktemp("originals")
    model = random_models()[0]
    write_gguf(root / "model.gguf", model, tokenizer=byte_level(tiny_tokenizer()))
    folder = root / "folder"
    folder.mkdir()
    save_model(model, folder)
    split(folder, 2)
    tiny_tokenizer().save(folder / "tokenizer.json")
    for name, data in BESIDE.items():
        write_json(folder / name, data)
    return {"gguf": root / "model.gguf", "folder": folder}


def outcome(path, wanted):
    """Loads a damaged copy; returns `refused` or `loaded`, and asserts what either means."""
    try:
        with little_memory():
            pair = load_models(path)
    except ValueError as error:
        message = str(error)
        assert "\n" not in message and len(message) < 1000 and path.name in message, message
        return "refused"
    config = pair.target.config
    assert all(getattr(config, name) == getattr(wanted, name) for name in SIZES), config
    assert pair.target(torch.tensor([[1]])).shape == (1, 1, wanted.vocab_size)
    pair.tokenizer.decode(pair.tokenizer.encode("The cat sat"))
    return "loaded"


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_copies_are_refused_or_have_the_same_sizes(kind, originals, tmp_path):
    """One damage each, sometimes two: nothing but ValueError, no other sizes, little memory."""
    judge = partial(outcome, wanted=load_models(originals[kind]).target.config)
    seen = outcomes(COPIES // 2, originals[kind], tmp_path / "copy", DAMAGE[kind], judge)
    assert seen["refused"] > COPIES // 5 and seen["loaded"] > 0
