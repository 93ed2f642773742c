"""Files that are not ours, or not whole: one line that names the file, and the field or tensor."""

import json
import os

import pytest
import tiny
import torch
from checkpoints import chatml, split, write_tokenizer
from pairs import build_pair, edit_json, random_models
from refusals import refused
from safetensors.torch import load_file, save_file

from minispec import ModelDrafter, Warp, load_pair, load_tokenizer, verify_rejection
from minispec.drafters.eagle3 import Eagle3Layer
from minispec.drafters.exit import Exit, untrained_exit
from minispec.drafters.medusa import Medusa
from minispec.io import files
from minispec.io.checkpoint import save_model
from minispec.io.files import read_json, write_json
from minispec.io.heads import heads_folder, load_heads, save_heads, target_hash
from minispec.io.recording import LoggingRng, record_run
from minispec.io.recording_file import load_recording, save_recording
from minispec.io.source import load_model
from minispec.io.speculators import load_eagle3, save_eagle3

UP = "model.layers.0.mlp.up_proj.weight"
DRAFT = "draft/model.safetensors"
CONFIG = "draft/config.json"
NO_JSON = "cannot be read as JSON"


def change(path, how):
    """Changes a file.

    None: it goes; bytes are written; of JSON, fields are set, or removed by ...; a function changes tensors.
    """
    if how is None:
        path.unlink()
    elif isinstance(how, bytes):
        path.write_bytes(how)
    elif isinstance(how, dict):
        edit_json(path, **how)
    else:
        weights = load_file(path)
        how(weights)
        save_file(weights, path, {"minispec": "{}"})


def tensors(**changes):
    """Returns a change of tensors; a dot in a name is written as two underscores."""
    return lambda weights: weights.update({name.replace("__", "."): w for name, w in changes.items()})


# A file of a pair, what happens to it, and what the line says.
PAIRS = [
    (CONFIG, None, f"config.json {NO_JSON}"),
    (DRAFT, None, "draft has no model.safetensors"),
    (DRAFT, b"", "safetensors"),
    (CONFIG, b'{"model_type": "ll', NO_JSON),
    (CONFIG, b'{"model_type": "\xff"}', NO_JSON),
    (CONFIG, b"[" * 100_000, NO_JSON),
    (CONFIG, b"[1]", "JSON object"),
    ("pair.json", {"name": "a\nb"}, "name"),
    ("pair.json", {"prompts": ["The cat"]}, "prompts"),
    ("pair.json", {"prompts": [[1, 300]]}, "prompts .* 0 to 299"),
    ("pair.json", {"walkthrough": 5}, "walkthrough"),
    ("pair.json", {"models": {"target": []}}, "models"),
    ("tokenizer.json", None, "tokenizer"),
    ("tokenizer.json", b"", "tokenizer"),
    ("tokenizer.json", b"\xff\xfe\x00", "tokenizer"),
    ("tokenizer.json", b'{"model": 1}', "tokenizer"),
    (DRAFT, lambda w: w.pop(UP), "missing, such as layers.0.mlp.up_proj.weight"),
    (DRAFT, tensors(model__bias=torch.ones(2)), "unknown, such as bias"),
    (DRAFT, tensors(model__norm__weight=torch.ones(17)), r"norm.weight is \[17\] and should be \[16\]"),
    (DRAFT, tensors(norm__weight=torch.ones(16)), "norm.weight is stored twice"),
    (DRAFT, lambda w: w.update({UP: w[UP].to(torch.int8)}), "int8"),
    (DRAFT, lambda w: w.update({UP: w[UP].to(torch.float8_e4m3fn)}), "float8"),
    (CONFIG, {"model_type": "gpt2"}, "'gpt2'; minispec reads llama, "),
    (CONFIG, {"model_type": "g" * 5000}, "ggg'; minispec reads llama, "),
    (CONFIG, {"head_dim": 8}, "q_proj.weight"),
    (CONFIG, {"head_dim": 3}, "head_size 3"),
    (CONFIG, {"num_attention_heads": 3, "head_dim": None}, "heads 3"),
    (CONFIG, {"num_key_value_heads": 3}, "kv_heads 3"),
    (CONFIG, {"num_hidden_layers": 0}, "num_hidden_layers 0"),
    (CONFIG, {"hidden_size": ...}, "lacks hidden_size"),
    (CONFIG, {"hidden_size": 16.0}, "hidden_size 16.0"),
    (CONFIG, {"tie_word_embeddings": "no"}, "tie_word_embeddings"),
    (CONFIG, {"rms_norm_eps": float("nan")}, "rms_norm_eps nan"),
    (CONFIG, {"max_position_embeddings": 2**20 + 1}, "at most 1,048,576"),
    (CONFIG, {"rope_theta": 10**400}, "rope_theta|a number above 0"),
]


@pytest.mark.parametrize(("name", "how", "says"), PAIRS, ids=range(len(PAIRS)))
def test_pairs(name, how, says, tmp_path):
    pair = build_pair(tmp_path / "pair")
    change(pair / name, how)
    with refused(says, pair) as caught:
        load_pair(pair)
    assert len(str(caught.value)) < 400 + len(str(pair))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes in folders are POSIX")
@pytest.mark.parametrize("name", ["tokenizer.json", "target/config.json", DRAFT])
def test_pipes_and_huge_files_are_not_read(name, tmp_path, monkeypatch):
    """What may never end is no file of a pair."""
    pair = build_pair(tmp_path / "pair")
    with monkeypatch.context() as patch:
        patch.setattr(files, "MAX_BYTES", 100)
        with refused("it is larger than"):
            load_pair(pair)
    (pair / name).unlink()
    os.mkfifo(pair / name)
    with refused("it is no file"):
        load_pair(pair)


INDICES = [
    (None, "weight_map"),
    ({}, "weight_map"),
    ({"a": "../other.safetensors"}, "of this folder"),
    ({"a": "weights.bin"}, "safetensors"),
    ({str(i): f"{i}.safetensors" for i in range(1001)}, "1,000 at most"),
    ({"a": "gone.safetensors"}, "gone.safetensors"),
]


def test_checkpoints_of_several_files(tmp_path):
    """An index that leads nowhere; what the files do not hold together; weights that would be unpickled."""
    save_model(random_models()[0], tmp_path)
    split(tmp_path)
    names = [f"model-0000{i}-of-00003.safetensors" for i in (1, 2, 3)]
    edit_json(tmp_path / "config.json", intermediate_size=41)
    with refused("index.json does not fit its config.json", tmp_path):
        load_model(tmp_path)
    for name in names[::2]:
        change(tmp_path / name, tensors(model__norm__weight=torch.ones(16)))
    with refused("norm.weight' stands in another file, too", tmp_path):
        load_model(tmp_path)
    (tmp_path / names[1]).unlink()
    with refused(f"{names[1]} cannot be read", tmp_path):
        load_model(tmp_path)
    for index, says in INDICES:
        write_json(tmp_path / "model.safetensors.index.json", {"weight_map": index})
        with refused(says, tmp_path):
            load_model(tmp_path)
    (tmp_path / "model.safetensors.index.json").unlink()
    (tmp_path / names[0]).rename(tmp_path / "pytorch_model.bin")
    with refused("unpickles nothing", tmp_path):
        load_model(tmp_path)


# What an exit's header says wrong, or the header itself.
HEADERS = [
    ({"kind": "medusa"}, "kind .medusa"),
    ({"number": 0}, "number 0"),
    ({"number": 3.5}, "number 3.5"),
    ({"target_sha256": "0" * 64}, "another target, of the same sizes"),
    (None, "drafter"),
    ("[" * 100_000, "recursion"),
    ("[1]", "drafter"),
]


def test_heads(tmp_path, monkeypatch):
    """Of another kind, number, target, width or type; half a file; and where there are none."""
    monkeypatch.setenv("MINISPEC_HOME", str(tmp_path))
    pair = load_pair("stories")
    path = heads_folder(pair) / "exit.safetensors"
    info = {"kind": "exit", "number": 3, "target_sha256": target_hash(pair)}

    def is_refused(says):
        with refused(says, path.name):
            load_heads(pair, "exit")

    save_heads(untrained_exit(pair.target, 3), path, info)
    weights = load_file(path)
    for header, says in HEADERS:
        text = json.dumps(info | header) if isinstance(header, dict) else header
        save_file(weights, path, None if text is None else {"minispec": text})
        is_refused(says)
    for module, says in ((Exit(64, 3), "64.* and should be .*128"), (Medusa(128, 494, 1), "missing")):
        save_heads(module, path, info)
        is_refused(says)
    eights = {name: weight.to(torch.int8) for name, weight in weights.items()}
    save_file(eights, path, {"minispec": json.dumps(info)})
    is_refused("int8")
    path.write_bytes(path.read_bytes()[:200])
    is_refused("drafter")
    (tmp_path / "own").mkdir()
    with refused("minispec train --drafter medusa --pair"):
        load_heads(type(pair)(pair.target, pair.draft, pair.tokenizer, tmp_path / "own"), "medusa")


TAPS = "eagle_aux_hidden_state_layer_ids"
EAGLE3 = [
    ("config.json", {"speculators_model_type": "dflash"}, "eagle3"),
    ("config.json", {"norm_before_fc": True}, "norm_before_fc"),
    ("config.json", {"transformer_layer_config": 3}, "transformer_layer_config"),
    ("config.json", {TAPS: [0, 9]}, "taps"),
    ("config.json", {TAPS: "abc"}, "taps"),
    ("config.json", {TAPS: [2, 2]}, "ascend"),
    ("config.json", {TAPS: [1, 2, 3]}, "made for another target"),
    ("config.json", {"norm_before_residual": "x"}, "norm_before_residual"),
    ("config.json", {"draft_vocab_size": 7}, "draft_vocab_size 7"),
    ("model.safetensors", tensors(d2t=torch.full((6,), 60)), "ascending ids"),
    ("model.safetensors", tensors(d2t=torch.full((6,), -3)), "ascending ids"),
    ("model.safetensors", tensors(d2t=torch.tensor([2, -1, 1, 4, 5, 35])), "ascending ids"),
    ("model.safetensors", tensors(d2t=torch.zeros(6, 1)), "row of integers"),
    ("model.safetensors", tensors(d2t=torch.zeros(6, dtype=torch.bool)), "row of integers"),
    ("model.safetensors", tensors(t2d=torch.ones(64, dtype=torch.bool)), "d2t and t2d"),
    ("model.safetensors", tensors(fc__weight=torch.zeros(16, 16)), "made for another target"),
]


def test_eagle3_heads(tmp_path):
    """Another kind or shape; ids that are none; and another target."""
    sizes = {"vocab_size": 64, "layers": 5}
    target = tiny.gpt(tiny.config(**sizes), dtype=torch.float32)
    layer = Eagle3Layer(target.config, (2, 3), torch.tensor([0, 2, 3, 7, 9, 40]))
    for number, (name, how, says) in enumerate(EAGLE3):
        folder = tmp_path / str(number)
        save_eagle3(layer, folder, "owner/name", 3, {})
        change(folder / name, how)
        with refused(says):
            load_eagle3(folder, target)
    save_eagle3(layer, tmp_path / "head", "owner/name", 3, {})
    for changes in ({"width": 32}, {"kv_heads": 4}, {"rope_theta": 5e5}, {"vocab_size": 65}):
        other = tiny.gpt(tiny.config(**sizes | changes), dtype=torch.float32)
        with refused("made for another target"):
            load_eagle3(tmp_path / "head", other)


# Beside a tokenizer: a file, its fields, and what the line says.
BESIDE = [
    ("generation_config", {"eos_token_id": "2"}, "eos_token_id"),
    ("config", {"eos_token_id": [1, -1]}, "eos_token_id"),
    ("config", {"eos_token_id": True}, "eos_token_id"),
    ("config", {"eos_token_id": [1, 5000]}, "id 5000 ends texts"),
    ("tokenizer_config", {"eos_token": "<none>"}, "eos_token is '<none>'"),
    ("tokenizer_config", {"bos_token": "<none>", "add_bos_token": True}, "bos_token is '<none>'"),
    ("tokenizer_config", {"add_bos_token": "yes"}, "add_bos_token"),
    ("tokenizer_config", {"chat_template": 7}, "chat_template"),
    ("tokenizer_config", {"chat_template": [{"name": "rag", "template": ""}, 3]}, "one named default"),
    ("generation_config", [], "JSON object"),
]


@pytest.mark.parametrize(("name", "fields", "says"), BESIDE, ids=range(len(BESIDE)))
def test_what_stands_beside_a_tokenizer(name, fields, says, tmp_path):
    write_tokenizer(tmp_path, chatml(), **{name: fields})
    with refused(says, tmp_path):
        load_tokenizer(tmp_path)


# In a recording: where a value is put, or taken out (...), which one, and what the line says.
RECORDINGS = [
    ("format", "minispec pair", "no recording"),
    ("version", 1, "another version"),
    ("version", ..., "another version"),
    ("words 0", "\ud800", "surrogates"),
    ("prompts", 7, "damaged"),
    ("prompts 0", [], "no prompt"),
    ("config temperature", None, "temperature"),
    ("rounds 0 q", ..., "q is missing"),
    ("rounds 0 pending 0", 5, "out of range"),
    ("rounds 0 draft_lengths 0", 3, "draft_lengths"),
    ("rounds 0 accepted 0", 3, "accepted"),
    ("rounds 0 p 0 0 1 0", 3.0, "sums to"),
    ("rounds 0 finish 0", "boredom", "boredom"),
    ("rounds 0 draws 0", [1, 2], "draws"),
    ("rounds 0 target_cache", [[1], [2], [3]], "target_cache"),
    ("rounds 1 index", 5, "counted"),
    ("rounds 1 names 0", 1, "two rows"),
    ("rounds 0 names 0", 2, "pending token"),
    ("rounds 0 emitted 0", [0, 0, 0], "not what was accepted"),
    ("rounds 1 finish 0", None, "a text that goes on"),
    ("rounds 0 lengths 0", 0, "length"),
    ("rounds 0 draft_cache 0 0", 99, "caches"),
    ("rounds 0 seconds", {"draft": "x"}, "seconds"),
]


def test_recordings(tmp_path):
    """What does not fit is told; what is no recording at all is one line."""
    path = tmp_path / "run.json"
    target, draft = tiny.table_pair()
    words = [chr(97 + token) for token in range(target.vocab_size)]
    settings = {"k": 2, "verifier": verify_rejection, "max_new_tokens": 4, "warp": Warp(1), "batch_size": 2}
    prompts = ((1, 2), (3,), (0, 4, 1))
    made = record_run(target, ModelDrafter(draft), prompts, words, rng=LoggingRng(3), **settings)
    for keys, value, says in RECORDINGS:
        save_recording(made, path)
        data = holder = read_json(path)
        *way, last = [int(key) if key.isdigit() else key for key in keys.split()]
        for key in way:
            holder = holder[key]
        holder[last] = value
        if value is ...:
            del holder[last]
        path.write_text(json.dumps(data), encoding="utf-8")
        with refused(says, path):
            load_recording(path)
    for content in (b"", b"{", b"\xff\xfe", b"[1]", b"null", b"[" * 100_000):
        path.write_bytes(content)
        with refused("", path):
            load_recording(path)
    path.unlink()
    with refused("", path):
        load_recording(path)
