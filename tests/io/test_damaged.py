"""Damaged copies of every file format: each is refused in one line, or is used as it should be.

Nothing but ValueError, and no more memory than `little_memory` lets it have, whatever a file claims. Each
copy hangs on its number alone.
"""

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import pytest
import tiny
import torch
from checkpoints import chatml, sentencepiece, split, write_tokenizer
from gguf_files import byte_level, write_gguf
from junk import (
    change_bytes,
    change_tensors,
    edit,
    little_memory,
    outcomes,
    replace_by_another_thing,
    swap_files,
)
from pairs import random_models, tiny_tokenizer

from minispec import SeededRng, Warp, load_pair, load_tokenizer, speculate
from minispec.drafters.eagle3 import Eagle3Drafter, Eagle3GPT, Eagle3Layer
from minispec.drafters.tree import TreeDrafter
from minispec.io.checkpoint import SHIPPED, save_model, weights_hash
from minispec.io.files import read_json, write_json
from minispec.io.recording import LoggingRng, record_run
from minispec.io.recording_file import load_recording, save_recording
from minispec.io.source import load_models
from minispec.io.speculators import load_eagle3, save_eagle3
from minispec.io.stream import TextStream
from minispec.show.stepper import Stepper
from minispec.verifiers.tree import verify_tree

TEXT = "Rue the cat sat by the mill, \x00 née in 1984 … 猫!  <|endoftext|>"
MODELS = ("target", "draft")
SIZES = ("vocab_size", "layers", "width", "heads", "kv_heads", "ffn", "head_dim")
LAYERS = {"vocab_size": 64, "layers": 5}


# Each makes an original below a folder, and returns its path.


def shipped_pair(folder):
    return SHIPPED / "stories"


def gguf(folder):
    path = folder / "model.gguf"
    write_gguf(path, random_models()[0], tokenizer=byte_level(tiny_tokenizer()))
    return path


def checkpoint(folder):
    save_model(random_models()[0], folder)
    split(folder, 2)
    tiny_tokenizer().save(folder / "tokenizer.json")
    write_json(folder / "generation_config.json", {"eos_token_id": [0, 7], "do_sample": True})
    return folder


def head_target():
    return tiny.gpt(tiny.config(**LAYERS), seed=6, dtype=torch.float32).requires_grad_(False)


def head(folder):
    torch.manual_seed(0)
    layer = Eagle3Layer(head_target().config, (2, 3), torch.arange(0, 64, 2))
    save_eagle3(layer, folder / "head", "owner/name", 3, {"seed": 5})
    return folder / "head"


def recording(folder):
    target, draft = tiny.gpt_pair()
    trees = {"verifier": verify_tree, "rng": LoggingRng(3), "warp": Warp()}
    words = [chr(97 + token) for token in range(target.vocab_size)]
    prompts = ((1, 2), (3,), (0, 4, 1))
    made = record_run(
        target, TreeDrafter(draft, (0, 0, 1)), prompts, words, k=2, max_new_tokens=4, batch_size=2, **trees
    )
    save_recording(made, folder / "run.json")
    return folder / "run.json"


def tokenizer(folder, library=chatml):
    names = {"eos_token": library().id_to_token(2), "add_bos_token": False}
    generation = {"eos_token_id": [2, 1]}
    write_tokenizer(
        folder, library(), "{{ bos_token }}", generation_config=generation, tokenizer_config=names
    )
    return folder


# Each loads and uses a copy, and returns "loaded" where that is as it should be.


def looks(folder):
    """Returns all of a loaded pair that decides what it writes."""
    pair = load_pair(folder)
    ids = pair.tokenizer.encode(TEXT)
    pieces = [pair.tokenizer.bytes_of(token) for token in range(pair.tokenizer.vocab_size)]
    models = [(weights_hash(model), model.config) for model in (pair.target, pair.draft)]
    return models, ids, pieces, pair.tokenizer.end_of_text, pair.tokenizer.decode(ids)


of_the_original = cache(looks)


def is_the_pair(path, original):
    if looks(path) == of_the_original(original):
        return "loaded"
    found = read_json(path / "pair.json")
    models = [found.get("models", {}).get(name, {}) for name in MODELS]
    hashes = [model.get(name) for model in models for name in ("sha256", "config_sha256")]
    # Whoever removes a hash says that the file is their own.
    assert None in (*hashes, found.get("tokenizer_sha256")), "loaded in silence, and not the original"
    return "own"


def has_the_sizes(path, original):
    wanted = load_models(original).target.config
    with little_memory():
        pair = load_models(path)
    config = pair.target.config
    assert all(getattr(config, name) == getattr(wanted, name) for name in SIZES), config
    assert pair.target(torch.tensor([[1]])).shape == (1, 1, wanted.vocab_size)
    pair.tokenizer.decode(pair.tokenizer.encode("The cat sat"))
    return "loaded"


def drafts_for_its_target(path, original):
    target = head_target()
    with little_memory():
        layer, _ = load_eagle3(path, target)
    drafter = Eagle3Drafter(Eagle3GPT(layer, target))
    settings = {"k": 2, "rng": SeededRng(0), "max_new_tokens": 6, **tiny.GREEDY}
    rounds = speculate(drafter.target, drafter, [[1, 2, 3]], **settings)
    assert [token for r in rounds for token in r.emitted[0]] == tiny.greedy(target, [1, 2, 3], 6)[0]
    assert layer.ids.tolist() == [*range(0, 64, 2)] and len(layer.taps) == 2
    return "loaded"


def can_be_shown(path, original):
    found = load_recording(path)
    save_recording(found, path.with_name("again.json"))
    found.trace.statistics()
    for prompt in range(len(found.trace.prompts)):
        found.text(prompt)
        try:
            Stepper(found, prompt=prompt).page().encode()
        except ValueError as error:
            assert "tree" in str(error) or "looks past" in str(error)
    return "loaded"


def encodes(path, original):
    made = load_tokenizer(path)
    ids = made.encode("The cat, née 猫") + made.encode_rendered("<s>The<|im_start|>")
    text = TextStream(made)
    assert "".join(map(text.push, ids)) + text.flush() == made.decode(ids)
    assert all(token < made.vocab_size for token in made.ends)
    return "loaded"


class Format(NamedTuple):
    make: Callable[[Path], Path]
    use: Callable[[Path, Path], str]
    kinds: tuple
    names: bool = True  #: whether a refusal names the path


FORMATS = {
    "pair": Format(
        shipped_pair, is_the_pair, (change_bytes, change_tensors, edit, swap_files, replace_by_another_thing)
    ),
    "gguf": Format(gguf, has_the_sizes, (change_bytes,)),
    "checkpoint": Format(
        checkpoint, has_the_sizes, (change_bytes, change_tensors, edit, edit, swap_files), names=False
    ),
    "head": Format(
        head, drafts_for_its_target, (change_bytes, change_tensors, edit, edit, swap_files), names=False
    ),
    "recording": Format(recording, can_be_shown, (change_bytes, edit, edit)),
    "chatml": Format(tokenizer, encodes, (change_bytes, edit, edit), names=False),
    "sentencepiece": Format(
        partial(tokenizer, library=sentencepiece), encodes, (change_bytes, edit), names=False
    ),
}


@pytest.mark.parametrize("copies", [40, pytest.param(600, marks=pytest.mark.evidence)])
@pytest.mark.parametrize("name", FORMATS)
def test_damaged_copies_are_refused_or_used_as_they_should_be(name, copies, tmp_path):
    """One damage each, sometimes two: a line that names the file, or the original's doing."""
    form = FORMATS[name]
    (tmp_path / "original").mkdir()
    original = form.make(tmp_path / "original")

    def outcome(path):
        try:
            return form.use(path, original)
        except ValueError as error:
            message = str(error)
            assert "\n" not in message and len(message) < 1000, message
            assert not form.names or str(path) in message, message
            of_python = ("object of", "' object", "NoneType", "argument")
            assert name != "recording" or not any(words in message for words in of_python), message
            return "refused"

    seen = outcomes(copies, original, tmp_path / "copy", form.kinds, outcome)
    assert seen["refused"] > copies / 5 and seen["loaded"] > 0
