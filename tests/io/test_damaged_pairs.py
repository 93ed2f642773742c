"""Damaged copies of the shipped pair: each is refused in one line, or what is loaded is the original.

`MINISPEC_DAMAGED=2000` makes so many copies instead of `COPIES`; every one hangs on its number alone.
"""

import os
from functools import partial
from pathlib import Path

import pytest
import torch
from junk import cut_or_extend, damage, flip, outcomes
from safetensors.torch import load_file, save_file

from minispec import load_pair
from minispec.io.checkpoint import SHIPPED, weights_hash
from minispec.io.files import read_json, write_json

COPIES = int(os.environ.get("MINISPEC_DAMAGED", 100))
MODELS = ("target", "draft")
WEIGHTS = tuple(f"{name}/model.safetensors" for name in MODELS)
CONFIGS = tuple(f"{name}/config.json" for name in MODELS)
TEXTS = (*CONFIGS, "tokenizer.json", "pair.json")
FILES = (*WEIGHTS, *TEXTS)
TEXT = "Rue the cat sat by the mill, \x00 née in 1984 … 猫!  <|endoftext|>"


def bytes_of_a_file(dice, folder):
    """Damages the bytes of one file of a folder."""
    path = folder / dice.choice(FILES)
    if dice.random() < 2 / 3:
        flip(dice, path, [3000])
    else:
        cut_or_extend(dice, path)


def change_tensors(dice, folder):
    """Swaps or turns over tensors, writes one as another type, or changes a single number by one bit."""
    path = folder / dice.choice(WEIGHTS)
    weights = load_file(path)
    name = dice.choice(sorted(weights))
    alike = dice.choice([other for other in sorted(weights) if weights[other].shape == weights[name].shape])
    given = weights[name]
    kind = dice.randrange(6)
    if kind == 0:
        weights[name] = weights[alike].clone()
        weights[alike] = given.clone()
    elif kind == 1:
        given.view(torch.int16).view(-1)[dice.randrange(given.numel())] ^= 1
    elif kind == 2:
        weights[dice.choice(("lm_head.weight", "model.more.weight"))] = weights.pop(name)
    else:
        types = (torch.float32, torch.float16, torch.int8, torch.bool, torch.float64)
        same_bits = given.view(torch.float16)
        weights[name] = (given.flip(0), same_bits, given.to(dice.choice(types)))[kind - 3]
    save_file(weights, path, metadata={"format": "pt"})


def edit(dice, folder):
    """Changes something in a config, in the tokenizer, or in `pair.json`."""
    path = folder / dice.choice((*CONFIGS, *TEXTS))
    data = read_json(path)
    damage(dice.choice((data, data.get("models", data))), dice)
    write_json(path, data)


def swap_files(dice, folder):
    """Two files, or two models' folders, change places; or one is a copy of the other."""
    one, other = dice.sample((*FILES, "draft-plain/model.safetensors", "draft-plain/config.json"), 2)
    if dice.random() < 0.3:
        one, other = dice.sample(("target", "draft", "draft-plain"), 2)
        (folder / one).rename(folder / "aside")
        (folder / other).rename(folder / one)
        (folder / "aside").rename(folder / other)
    else:
        data = (folder / one).read_bytes(), (folder / other).read_bytes()
        (folder / other).write_bytes(data[0])
        if dice.random() < 0.5:
            (folder / one).write_bytes(data[1])


def replace_by_another_thing(dice, folder):
    """A link, a folder, a pipe or nothing stands where a file was."""
    path = folder / dice.choice(FILES)
    kind = dice.randrange(6)
    original = folder / "kept"
    path.rename(original)
    if kind == 0:
        path.symlink_to(dice.choice((path, folder, original, folder / dice.choice(FILES), Path("/dev/zero"))))
    elif kind == 1:
        path.mkdir()
    elif kind == 2 and hasattr(os, "mkfifo"):
        os.mkfifo(path)
    elif kind == 3:
        path.write_bytes(b"\xef\xbb\xbf" + original.read_bytes())
    elif kind == 4:
        path.write_bytes(original.read_bytes().replace(b"\n", b"\r\n"))


DAMAGE = (
    bytes_of_a_file,
    bytes_of_a_file,
    bytes_of_a_file,
    change_tensors,
    edit,
    edit,
    edit,
    edit,
    swap_files,
    replace_by_another_thing,
)


def looks(pair):
    """Returns all of a loaded pair that decides what it writes."""
    ids = pair.tokenizer.encode(TEXT)
    pieces = [pair.tokenizer.bytes_of(token) for token in range(pair.tokenizer.vocab_size)]
    models = [(weights_hash(model), model.config) for model in (pair.target, pair.draft)]
    return models, ids, pieces, pair.tokenizer.end_of_text, pair.tokenizer.decode(ids)


def outcome(folder, original):
    """Loads a damaged copy; returns `refused` or `loaded`, and asserts what either means."""
    try:
        pair = load_pair(folder)
    except ValueError as error:
        message = str(error)
        assert "\n" not in message and len(message) < 1000 and str(folder) in message, message
        return "refused"
    if looks(pair) == original:
        return "loaded"
    found = read_json(folder / "pair.json")
    models = [found.get("models", {}).get(name, {}) for name in MODELS]
    hashes = [model.get(name) for model in models for name in ("sha256", "config_sha256")]
    # Whoever removes a hash says that the file is their own.
    assert None in (*hashes, found.get("tokenizer_sha256")), "loaded in silence, and not the original"
    return "own"


@pytest.fixture(scope="module")
def stories():
    """What the shipped pair is."""
    return looks(load_pair("stories"))


def test_damaged_copies_are_refused_or_unchanged(tmp_path, stories):
    """One damage, sometimes two: nothing but ValueError, and never other weights, config or tokenizer."""
    last = replace_by_another_thing  # a pipe would block what reads it after
    judge = partial(outcome, original=stories)
    seen = outcomes(COPIES, SHIPPED / "stories", tmp_path / "copy", DAMAGE, judge, last)
    assert seen["refused"] > 0.7 * COPIES and seen["loaded"] > 0
