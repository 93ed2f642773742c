"""Damaged checkpoints from elsewhere: each is refused in one line, or has the sizes of the original.

Nothing but ValueError, and no more memory than `little_memory` lets it have, whatever a file claims.
`MINISPEC_DAMAGED=1000` makes so many copies instead of `COPIES`; every one hangs on its number alone.
"""

import os
import struct
from functools import partial

import pytest
import torch
from checkpoints import split
from gguf_files import byte_level, write_gguf
from junk import (
    HOSTILE,
    bits,
    bytes_of_a_file,
    change_tensors,
    claim,
    cut_or_extend,
    damage,
    little_memory,
    outcomes,
    swap_files,
    swap_parts,
)
from pairs import random_models, tiny_tokenizer

from minispec.io.checkpoint import save_model
from minispec.io.files import read_json, write_json
from minispec.io.source import load_models

COPIES = int(os.environ.get("MINISPEC_DAMAGED", 60))
SIZES = ("vocab_size", "layers", "width", "heads", "kv_heads", "ffn", "head_dim")
BESIDE = {
    "generation_config.json": {"eos_token_id": [0, 7], "do_sample": True},
    "tokenizer_config.json": {"add_bos_token": False, "chat_template": "{{ messages[0].content }}"},
}
TEXTS = ("config.json", "tokenizer.json", "model.safetensors.index.json", *BESIDE)


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


def edit(dice, folder):
    """Changes something in a JSON file of a folder."""
    path = folder / dice.choice((*TEXTS, TEXTS[0], TEXTS[2]))
    data = read_json(path)
    damage(data, dice)
    write_json(path, data)


DAMAGE = {
    "gguf": (bits, bits, cut_or_extend, claim, claim, change_a_field, swap_parts),
    "folder": (edit, edit, bytes_of_a_file, change_tensors, swap_files),
}


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
