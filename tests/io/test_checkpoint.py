"""Checkpoints: what is written is read back, what is wrong is refused in one line, what was there stays."""

import errno
import json
import os
import re
import shutil
from pathlib import Path

import pytest
import torch
from pairs import (
    MODELS,
    build_pair,
    edit_json,
    files_below,
    random_models,
    tiny_config,
    tiny_recipe,
    tiny_tokenizer,
)
from refusals import refused
from safetensors.torch import load_file, save_file

from minispec.core.model import GPT
from minispec.io import checkpoint, files
from minispec.io.checkpoint import (
    find_pair,
    json_hash,
    known_pairs,
    load_pair,
    read_folder,
    save_model,
    weights_hash,
)
from minispec.io.files import check_folder, read_json, replace_folder
from minispec.io.source import load_model
from minispec.io.tokenizer import train_tokenizer
from minispec.train import corpus
from minispec.train.dataset import Dataset
from minispec.train.publish import failure_message, publish
from minispec.train.training import Trained


@pytest.fixture
def pair(tmp_path):
    return build_pair(tmp_path / "pair")


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_a_model_comes_back(dtype, tied, tmp_path):
    """A model read from disk has the weights that were written, rounded to the type on disk only."""
    model, _ = random_models(tied=tied)
    save_model(model, tmp_path, dtype)
    again = load_model(tmp_path, dtype=torch.float64)
    assert weights_hash(again) == weights_hash(model.to(dtype).double())
    assert again.config == model.config and not again.training
    assert not any(p.requires_grad for p in again.parameters())
    assert (again.lm_head.weight is again.embed_tokens.weight) is tied


def test_the_hash_is_of_names_and_weights(tmp_path):
    """Equal weights have equal hashes; one changed bit, one other name, or another type changes it."""
    model, _ = random_models()
    same, _ = random_models()
    assert weights_hash(model) == weights_hash(same)
    assert weights_hash(model) != weights_hash(random_models(tied=True)[0])
    assert re.fullmatch("[0-9a-f]{64}", weights_hash(model))
    with torch.no_grad():
        same.norm.weight[3] += 1e-6
    assert weights_hash(model) != weights_hash(same)


@pytest.mark.parametrize("tied", [False, True])
def test_names_and_shapes_are_those_of_llama(tied, tmp_path):
    """The file holds the tensors that Hugging Face's LlamaForCausalLM has, by name and shape, in bfloat16."""
    save_model(GPT(tiny_config(layers=1, tied=tied)), tmp_path)
    stored = load_file(tmp_path / "model.safetensors")
    expected = {"embed_tokens": (300, 16), "norm": (16,)}
    layer = {
        "input_layernorm": (16,),
        "self_attn.q_proj": (16, 16),
        "self_attn.k_proj": (8, 16),
        "self_attn.v_proj": (8, 16),
        "self_attn.o_proj": (16, 16),
        "post_attention_layernorm": (16,),
        "mlp.gate_proj": (24, 16),
        "mlp.up_proj": (24, 16),
        "mlp.down_proj": (16, 24),
    }
    expected |= {f"layers.0.{name}": shape for name, shape in layer.items()}
    expected = {f"model.{name}.weight": shape for name, shape in expected.items()}
    if not tied:
        expected["lm_head.weight"] = (300, 16)
    assert {name: tuple(t.shape) for name, t in stored.items()} == expected
    assert {t.dtype for t in stored.values()} == {torch.bfloat16}


def test_the_config_is_that_of_llama(tmp_path):
    """config.json says all that a reader of Llama checkpoints needs, in its words."""
    save_model(GPT(tiny_config(layers=2, max_length=77, tied=True)), tmp_path)
    assert read_json(tmp_path / "config.json") == {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "head_dim": 4,
        "torch_dtype": "bfloat16",
        "vocab_size": 300,
        "num_hidden_layers": 2,
        "hidden_size": 16,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 24,
        "max_position_embeddings": 77,
        "tie_word_embeddings": True,
        "rope_theta": 10_000.0,
        "rms_norm_eps": 1e-5,
    }


def test_a_pair_says_what_it_is(pair):
    """A pair knows its name, folder, record and walkthrough, and which draft was asked for."""
    edit_json(pair / "pair.json", name="mine", walkthrough="The cat")
    with torch.no_grad():
        plain = random_models()[1]
        plain.norm.weight.mul_(2)
    save_model(plain, pair / "draft-plain")
    loaded = load_pair(str(pair), dtype=torch.float64)
    assert loaded.target.dtype == loaded.draft.dtype == torch.float64
    assert (loaded.name, loaded.walkthrough, loaded.folder) == ("mine", "The cat", pair)
    assert loaded.tokenizer.vocab_size == loaded.target.vocab_size == loaded.draft.vocab_size
    assert weights_hash(load_pair(pair, draft="draft-plain").draft) != weights_hash(loaded.draft)
    edit_json(pair / "pair.json", name=..., walkthrough=...)
    assert load_pair(pair).name == "pair" and load_pair(pair).walkthrough is None


def test_a_pair_is_found_by_name(pair, minispec_home):
    """A name means a pair trained here; a folder means itself; both are listed, half-written ones are not."""
    shutil.copytree(pair, minispec_home / "mine")
    shutil.copytree(pair, minispec_home / ".mine-a1b2")
    assert find_pair("mine") == minispec_home / "mine" and find_pair(pair) == pair
    assert "mine" in known_pairs() and not any(name.startswith(".") for name in known_pairs())


def test_an_unknown_pair_is_refused_with_what_there_is(pair, minispec_home, monkeypatch):
    """The message names what was asked for, what there is, and how to get one."""
    monkeypatch.setattr(checkpoint, "SHIPPED", minispec_home / "none")
    with refused(r"no pair called 'nope'; there is none yet.*minispec train"):
        load_pair("nope")
    for name in ("beta", "alpha"):
        shutil.copytree(pair, minispec_home / name)
    with refused("no pair called 'nope'; there is alpha, beta"):
        load_pair("nope")


DRAFT = "draft/model.safetensors"
TARGET = "target/config.json"
CONFIG = "draft/config.json"


def change_file(path, change):
    """Sets fields of a JSON file, or changes weights by a function."""
    if isinstance(change, dict):
        edit_json(path, **change)
    else:
        weights = load_file(path)
        change(weights)
        save_file(weights, path)


def test_models_of_other_vocabularies_are_refused(pair):
    """Other than each other's, or than the tokenizer's; and a head that is an embedding that is not there."""
    target, draft = random_models(vocab_size=301)
    save_model(draft, pair / "draft")
    with refused("the draft has 301 tokens, the target 300"):
        load_pair(pair)
    save_model(target, pair / "target")
    load_pair(pair)  # an id that no token has is padding
    for name, model in zip(("target", "draft"), random_models(vocab_size=299), strict=True):
        save_model(model, pair / name)
    with refused("the tokenizer has 300 tokens, the models 299"):
        load_pair(pair)
    edit_json(pair / TARGET, tie_word_embeddings=True)
    change_file(pair / "target/model.safetensors", lambda w: w.pop("model.embed_tokens.weight"))
    with refused("such as embed_tokens.weight"):
        load_pair(pair)


def with_hashes(pair):
    """Writes into `pair.json` what `publish` writes."""
    models = {
        name: {
            "sha256": weights_hash(load_model(pair / name, dtype=torch.bfloat16)),
            "config_sha256": json_hash(read_json(pair / name / "config.json")),
        }
        for name in MODELS
    }
    edit_json(
        pair / "pair.json", models=models, tokenizer_sha256=json_hash(read_json(pair / "tokenizer.json"))
    )


OTHERS = {  # another file that fits all others
    TARGET: {"rope_theta": 9999.0},
    CONFIG: {"rms_norm_eps": 1e-6},
    DRAFT: lambda w: w["model.norm.weight"].neg_(),
    "target/model.safetensors": lambda w: w.update({name: weight.float() for name, weight in w.items()}),
    "tokenizer.json": {},
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_file_that_pair_json_does_not_describe_is_named(name, pair):
    """Other weights, the same in another type, another config or tokenizer. Without hashes: one's own."""
    with_hashes(pair)
    load_pair(pair), load_pair(pair, draft="draft-plain")
    if name == "tokenizer.json":
        train_tokenizer(["abc abc"] * 9 + ["q" * 9], "bpe", 300).save(pair / name)
    else:
        change_file(pair / name, OTHERS[name])
    with refused(f"^{re.escape(str(pair / name))} is not the file that pair.json describes"):
        load_pair(pair)
    edit_json(pair / "pair.json", models=..., tokenizer_sha256=...)
    if name != "tokenizer.json":
        load_pair(pair)


def test_what_a_hash_does_not_cover_can_be_edited(pair):
    """A pair's name, prompts and walkthrough, how its JSON files are laid out, and fields of no meaning."""
    with_hashes(pair)
    edit_json(pair / "pair.json", name="mine", prompts=[[1, 2]], walkthrough="The cat", note="ours")
    for name in ("tokenizer.json", "target/config.json"):
        (pair / name).write_text(json.dumps(read_json(pair / name), indent=7), encoding="utf-8")
    assert load_pair(pair).name == "mine"
    edit_json(pair / "pair.json", models=...)
    edit_json(pair / TARGET, rope_theta=10000, use_cache=True, eos_token_id=2, head_dim=None)
    assert load_pair(pair).target.config.rope_theta == 10_000


def test_other_peoples_files_are_not_replaced(tmp_path):
    """A folder that is no pair, or a file, is refused before anything is done, and stays."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work/thesis.txt").write_text("years", encoding="utf-8")
    (tmp_path / "empty").mkdir()
    with refused("it holds other files"), replace_folder(tmp_path / "work"):
        pass
    for path in (tmp_path / "work/thesis.txt", tmp_path / "work/thesis.txt/pair"):
        with refused("cannot write"), replace_folder(path):
            pass
    check_folder(tmp_path / "empty")
    check_folder(tmp_path / "new")
    assert files_below(tmp_path) == {"work/thesis.txt": b"years"}
    with replace_folder(tmp_path / "a/b") as temporary:  # folders are made
        (temporary / "x").touch()
    assert (tmp_path / "a/b/x").exists()


def trained():
    """Returns what a training would hand to `publish`, with random weights."""
    texts = ["The cat sat on the mat. " * 9], ["A dog ran to the river and saw a star. " * 9]
    dataset = Dataset(corpus.Corpus("any", *texts), tiny_tokenizer(), {}, ())
    target, draft = random_models()
    models = dict(zip(MODELS, (target, draft, draft), strict=True))
    return dataset, {name: Trained(model, 7, 1.25, 99) for name, model in models.items()}


def test_publishing_writes_a_whole_pair(tmp_path):
    """A published pair loads, and its record says what it is, what made it, and what was measured."""
    dataset, models = trained()
    recipe = tiny_recipe(name="made", corpus="any")
    info = publish(recipe, dataset, models, tmp_path / "made", "minispec train", lambda pair: {"extra": 1})
    pair = load_pair(tmp_path / "made")
    assert dict(pair.info) == json.loads(json.dumps(info))
    assert (info["name"], info["command"], info["seed"], info["extra"]) == ("made", "minispec train", 0, 1)
    assert info["corpus"]["sha256"] == dataset.corpus.sha256
    assert info["entropy_floor"] is None and info["vocab_size"] == 300
    assert info["prompts"] == [dataset.tokenizer.encode(dataset.corpus.validation[0])[:32]]
    assert info["tokenizer_sha256"] == json_hash(read_json(tmp_path / "made/tokenizer.json"))
    for name in MODELS:
        model = read_folder(tmp_path / "made" / name, dtype=torch.bfloat16, description=info["models"][name])
        assert info["models"][name]["sha256"] == weights_hash(model)
    assert "config_sha256" in info["models"]["target"]
    assert {f.name for f in (tmp_path / "made").iterdir()} == {*MODELS, "tokenizer.json", "pair.json"}


@pytest.mark.parametrize("where", [(files, "save_file"), (checkpoint, "write_json"), (os, "replace")])
def test_a_full_disk_leaves_the_old_pair(where, pair, monkeypatch):
    """A disk that is full while a pair is published is one clear line; the old pair stays, alone."""
    before = files_below(pair)

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(*where, full)
    with refused("cannot write .*No space left on device.*unchanged"):
        publish(tiny_recipe(), *trained(), pair, "minispec train")
    assert files_below(pair) == before
    assert os.listdir(pair.parent) == ["pair"]


def test_a_target_that_is_no_better_is_a_failed_training():
    """The message says so, with both losses, on equal, worse and undefined losses."""

    def info(target, draft):
        return {"models": {"target": {"validation_loss": target}, "draft": {"validation_loss": draft}}}

    assert failure_message(info(0.4, 0.5)) is None
    for target, draft in ((0.5, 0.5), (0.6, 0.5), (float("nan"), 0.5)):
        assert f"target's loss {target:.4f} is not below the draft's 0.5000" in failure_message(
            info(target, draft)
        )


def test_a_failing_swap_brings_the_old_pair_back(pair, monkeypatch):
    """If the last renaming fails, the old pair is put back where it was."""
    before = files_below(pair)
    rename = Path.rename

    def failing(path, target):
        if target == pair and path.name == "new":
            raise OSError(errno.EACCES, "Permission denied")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", failing)
    with refused("cannot write .*Permission denied.*unchanged"), replace_folder(pair):
        pass
    assert files_below(pair) == before
    assert os.listdir(pair.parent) == ["pair"]
