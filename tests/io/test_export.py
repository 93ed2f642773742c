"""An exported pair is the same pair: to our loader, to transformers, and whenever its export is killed."""

import errno
import os
import signal
from pathlib import Path

import pytest
import torch
from checkpoints import chatml, write_tokenizer
from interruptions import forks, in_a_child, interrupt_at
from pairs import build_pair, edit_json, files_below, tiny_config
from refusals import refused

from minispec import SeededRng, Warp, generate, load_model, load_pair
from minispec.core.model import GPT, RopeScaling
from minispec.io import files
from minispec.io.checkpoint import weights_hash
from minispec.io.export import export_pair
from minispec.io.files import read_json
from minispec.io.source import load_models

TEXTS = ("Once there were two friends.", "The cat sat", " two  spaces,\n\nnaïve 猫", "")
SHAPES = {  # what a model of heads of size 4 has besides, and the size that is written
    "plain": ({}, 32),
    "tied": ({"tied": True}, 32),
    "biases": ({"qkv_bias": True}, 32),
    "scaled positions": ({"rope_scaling": RopeScaling(8.0, 1.0, 4.0, 32)}, 32),
    "of an odd multiple": ({"head_size": 48}, 96),
    "known": ({"head_size": 80}, 80),
    "no multiple": ({"head_size": 36}, 36),
    "normed": ({"qk_norm": True}, 4),
}


def random_model(**changes):
    """A model that pays much attention: what its heads compute shifts its logits."""
    torch.manual_seed(3)
    model = GPT(tiny_config(2, 96, **changes))
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(std=0.5)
    return model.eval()


@pytest.fixture
def pair(tmp_path):
    """A pair of small random models."""
    return load_pair(build_pair(tmp_path / "pair"), dtype=None)


@pytest.fixture(scope="module")
def stories(tmp_path_factory):
    """The shipped pair, and the folder of its export."""
    pair = load_pair("stories")
    folder = tmp_path_factory.mktemp("exported") / "stories"
    export_pair(load_pair("stories", dtype=None), folder)
    return pair, folder


@torch.inference_mode()
@pytest.mark.parametrize("shape", SHAPES)
def test_our_loader_reads_the_same_model(shape, tmp_path):
    """In float64 logits are equal but for float32's rounding; a model without zeros is the same file."""
    changes, size = SHAPES[shape]
    model = random_model(**changes)
    pair = load_pair(build_pair(tmp_path / "pair", model, model), dtype=None)
    report = export_pair(pair, tmp_path / "out")
    tokens = torch.randint(300, (2, 90), generator=torch.Generator().manual_seed(0))
    for name in ("target", "draft"):
        before = load_model(tmp_path / "pair" / name, dtype=torch.float64)
        after = load_model(tmp_path / "out" / name, dtype=torch.float64)
        assert after.config.head_dim == size == report["head_dim"][name]["written"]
        torch.testing.assert_close(after(tokens), before(tokens), rtol=0, atol=1e-5)
        if size == before.config.head_dim:
            stored = load_model(tmp_path / "out" / name, dtype=None)
            assert weights_hash(stored) == weights_hash(pair.target)


def test_our_loader_reads_the_same_tokenizer(stories):
    """Ids, and what ends a text, which the configs name: without that, transformers takes id 2 for it."""
    pair, folder = stories
    loaded = load_models(folder / "target", folder / "draft")
    for text in TEXTS:
        assert loaded.tokenizer.encode(text) == pair.tokenizer.encode(text)
    assert (loaded.tokenizer.ends, loaded.tokenizer.begin) == (pair.tokenizer.ends, ())
    for name in ("config.json", "generation_config.json"):
        assert read_json(folder / "draft" / name)["eos_token_id"] == pair.tokenizer.end_of_text


def test_what_stands_beside_a_tokenizer_is_kept(tmp_path):
    """Of a pair made by hand: several ends, the name of its end, its chat template."""
    folder = build_pair(tmp_path / "pair", *[random_model(vocab_size=344)] * 2)
    named = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    generation = {"eos_token_id": [2, 0]}
    write_tokenizer(folder, chatml(), "{{ x }}", tokenizer_config=named, generation_config=generation)
    export_pair(load_pair(folder, dtype=None), tmp_path / "out")
    loaded = load_models(tmp_path / "out" / "target").tokenizer
    assert loaded.ends == (2, 0) and loaded.config.chat_template == "{{ x }}"
    assert dict(loaded.config.special_tokens) == named


@pytest.mark.evidence
def test_transformers_reads_both_folders(stories):
    """Logits, ids, texts; greedy and assisted generation end where ours does."""
    transformers = pytest.importorskip("transformers", reason="needs the extra `peers`")
    pair, folder = stories
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "target")
    for text in TEXTS:
        assert tokenizer(text)["input_ids"] == pair.tokenizer.encode(text)
        assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    assert tokenizer.eos_token_id == pair.tokenizer.end_of_text and tokenizer.model_max_length == 256
    prompt = tokenizer(pair.walkthrough, return_tensors="pt")
    ids = prompt["input_ids"]
    theirs = {}
    for name, ours in (("target", pair.target), ("draft", pair.draft)):
        theirs[name] = transformers.LlamaForCausalLM.from_pretrained(folder / name, dtype=torch.float32)
        with torch.inference_mode():
            torch.testing.assert_close(theirs[name](**prompt).logits, ours(ids), rtol=0, atol=1e-3)
    settings = {"max_new_tokens": 100, "warp": Warp(temperature=0), "rng": SeededRng(0)}
    steps = generate(pair.target, ids.tolist(), eos=pair.tokenizer.ends, **settings)
    wanted = [token for (token,) in steps]
    assert wanted[-1] == pair.tokenizer.end_of_text
    for assistant in (None, theirs["draft"]):
        written = theirs["target"].generate(
            **prompt, assistant_model=assistant, max_new_tokens=100, do_sample=False
        )
        assert written[0, ids.shape[1] :].tolist() == wanted


@pytest.mark.parametrize("junk", [None, {"name": ["y"]}, float("nan")], ids=range(3))
def test_a_card_of_a_pair_made_by_hand(junk, pair, tmp_path):
    """What `pair.json` lacks, or has of a wrong kind, is unknown; the licence is never guessed."""
    models = {"target": {"steps": "2\n"}}
    edit_json(pair.folder / "pair.json", corpus=junk, acceptance=junk, seed=junk, models=models)
    export_pair(load_pair(pair.folder, dtype=None), tmp_path / "out")
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "license: unknown" in card and "| draft | unknown | unknown | unknown |" in card


@pytest.mark.parametrize("where", [(files, "save_file"), (os, "replace"), (Path, "rename")])
def test_a_full_disk_leaves_nothing(where, pair, tmp_path, monkeypatch):
    """One line, and neither the folder nor a part of it."""

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(*where, full)
    with refused("cannot write .*No space left on device", tmp_path / "to" / "out"):
        export_pair(pair, tmp_path / "to" / "out")
    monkeypatch.undo()
    assert list((tmp_path / "to").iterdir()) == []


@pytest.mark.parametrize("there", ["pair.json", "letter.txt", "target/config.json"])
def test_what_is_in_the_folder_stays(there, pair, tmp_path):
    """A pair, other files, an earlier export: the folder is refused."""
    path = tmp_path / "out" / there
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    with refused("choose a new folder", tmp_path / "out"):
        export_pair(pair, tmp_path / "out")
    assert files_below(tmp_path / "out") == {there: b"mine"}


@forks
@pytest.mark.evidence
def test_a_killed_export_leaves_all_or_nothing(pair, tmp_path):
    """SIGKILL before or after changes of a folder; an empty folder that was there may be gone."""
    export_pair(pair, tmp_path / "whole")
    wanted = files_below(tmp_path / "whole")
    folder = tmp_path / "out"
    for step in range(1, 1000):
        if step % 3:
            folder.mkdir(exist_ok=True)

        def work(step=step):
            interrupt_at(step, lambda: os.kill(os.getpid(), signal.SIGKILL))
            export_pair(pair, folder)

        status = os.waitpid(in_a_child(work), 0)[1]
        if folder.exists() and any(folder.iterdir()):
            break
        assert status == signal.SIGKILL
    assert step > 20 and files_below(folder) == wanted


def test_configs_are_for_transformers_4_and_vllm(stories):
    """4.57 reads neither `rope_parameters` nor `dtype`, in silence; heads of 16 are none for vLLM."""
    for name, model in (("target", stories[0].target), ("draft", stories[0].draft)):
        config = read_json(stories[1] / name / "config.json")
        assert config["rope_theta"] == model.config.rope_theta and config["torch_dtype"] == "float32"
        assert not {"rope_parameters", "dtype"} & config.keys()
        assert (model.config.head_dim, config["head_dim"]) == (16, 32)
