"""Damaged checkpoints from elsewhere: each is refused in one line, or has the sizes of the original.

Nothing but ValueError, and no more memory than `MEMORY` beyond what the process had, whatever a file claims.
`MINISPEC_DAMAGED=1000` makes so many copies instead of `COPIES`; every one hangs on its number alone.
"""

import os
import random
import shutil
import struct
from collections import Counter
from contextlib import contextmanager
from time import perf_counter

import psutil
import pytest
import torch
from gguf_files import byte_level, write_gguf
from junk import damage
from pairs import random_models, tiny_tokenizer
from safetensors.torch import load_file, save_file

from minispec.io.checkpoint import save_model
from minispec.io.files import read_json, write_json
from minispec.io.two_folders import load_models

COPIES = int(os.environ.get("MINISPEC_DAMAGED", 60))
MEMORY = 2**29  # a thread's stacks and arenas are most of it
SIZES = ("vocab_size", "layers", "width", "heads", "kv_heads", "ffn", "head_dim")
HOSTILE = (0, 1, 2, 5, 13, 255, 2**16, 2**21, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**60, 2**63, 2**64 - 1)
TEXTS = ("config.json", "tokenizer.json", "model.safetensors.index.json")
HEADER = 6000  # bytes: about so long is the header of the small file


def flip(dice, path):
    """Flips one to eight bits of a file, often where it says what it holds."""
    data = bytearray(path.read_bytes())
    for _ in range(dice.choice((1, 1, 2, 8))):
        data[dice.randrange(min(len(data), dice.choice((64, HEADER, len(data)))))] ^= 1 << dice.randrange(8)
    path.write_bytes(data)


def cut_or_extend(dice, path):
    """Leaves the beginning of a file, or adds bytes to its end."""
    data = path.read_bytes()
    end = dice.choice((0, 1, 4, 24, dice.randrange(len(data)), len(data) - 1))
    path.write_bytes(data[:end] if dice.random() < 0.7 else data + bytes(1000))


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
    dice.choice((flip, cut_or_extend, claim, swap_parts))(dice, dice.choice(sorted(folder.iterdir())))


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
    "gguf": (flip, flip, cut_or_extend, claim, claim, change_a_field, swap_parts),
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
    split(folder)
    tiny_tokenizer().save(folder / "tokenizer.json")
    return {"gguf": root / "model.gguf", "folder": folder}


def split(folder):
    """Spreads a model's weights over two files, with an index."""
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = {name: f"model-0000{i % 2 + 1}-of-00002.safetensors" for i, name in enumerate(weights)}
    for file in set(names.values()):
        save_file({name: weights[name] for name in names if names[name] == file}, folder / file)
    write_json(folder / "model.safetensors.index.json", {"metadata": {}, "weight_map": names})


def copied(original, path):
    """Returns a fresh copy of a file or a folder, under its name."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    copy = shutil.copytree if original.is_dir() else shutil.copyfile
    return copy(original, path / original.name)


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
    assert pair.target(torch.tensor([[1, 2, 3]])).shape == (1, 3, wanted.vocab_size)
    pair.tokenizer.decode(pair.tokenizer.encode("The cat sat"))
    return "loaded"


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_copies_are_refused_or_have_the_same_sizes(kind, originals, tmp_path):
    """One damage each, sometimes two: nothing but ValueError, no other sizes, little memory."""
    wanted = load_models(originals[kind]).target.config
    seen = Counter()
    slowest = 0.0
    for number in range(COPIES // 2):
        dice = random.Random(number)
        path = copied(originals[kind], tmp_path / "copy")
        damages = dice.sample(DAMAGE[kind], dice.choice((1, 1, 1, 2)))
        for one in damages:
            try:
                one(dice, path)
            except Exception:
                continue  # the first damage has left nothing for the second one
        started = perf_counter()
        try:
            seen[outcome(path, wanted)] += 1
        except BaseException as error:
            raise AssertionError(
                f"copy {number} ({', '.join(one.__name__ for one in damages)}): {error!r}"
            ) from error
        slowest = max(slowest, perf_counter() - started)
    print(kind, dict(seen), f"slowest: {slowest:.2f} s")
    assert seen["refused"] > COPIES // 5 and seen["loaded"] > 0
