"""`--drafter exit`, `medusa`, `eagle`, `eagle3`, `parallel`: those of the shipped target, or from `train`."""

import os
from dataclasses import replace
from itertools import product

import pytest
import torch
from native_models import has_compiler
from pairs import build_pair, edit_json, tiny_recipe
from safetensors.torch import load_file, save_file

from minispec import load_pair
from minispec.drafters.eagle3 import Eagle3Layer
from minispec.io.checkpoint import tensors_hash
from minispec.io.llama import WEIGHTS
from minispec.io.speculators import save_eagle3
from minispec.train import corpus

TRAINED = {"exit": 2.0, "medusa": 1.8, "eagle": 3.0, "parallel": 3.0}  # tokens a target call, at the least
PROMPT = "Once there were two friends. Rue the cat had a kite. She lived by the hill and slept on the mat."
BACKENDS = ["torch", "native"] if has_compiler() else ["torch"]
GREEDY = "--verifier greedy --max-new-tokens 40"


@pytest.fixture
def shipped(document, minispec_home, libraries):
    """Returns what `generate` says of the shipped pair, in float64: there greedy texts are equal.

    Nothing that was trained on this machine is found.
    """
    (minispec_home / "native").symlink_to(libraries)  # the library is built once, for all tests

    def run(line):
        return document(f"generate --ignore-eos --dtype float64 {line} --prompt", PROMPT)[0]

    return run


@pytest.mark.parametrize("name", TRAINED)
def test_it_gives_the_targets_text_in_fewer_calls(shipped, name):
    """Greedy: token for token, on each backend; and drafts of any width are kept."""
    alone = shipped(f"{GREEDY} --target-only")
    for backend, k in [*((backend, 4) for backend in BACKENDS), (BACKENDS[-1], 1), (BACKENDS[-1], 9)]:
        result = shipped(f"{GREEDY} --drafter {name} --backend {backend} --k {k}")
        assert result["tokens"] == alone["tokens"] and result["drafter"] == name
        assert k != 4 or result["tokens_per_target_call"] >= TRAINED[name]


@pytest.mark.parametrize("name", TRAINED)
def test_it_samples_in_fewer_calls(shipped, name):
    """At temperature 1 as well."""
    seeds = range(3)
    reports = [shipped(f"--drafter {name} --seed {seed} --max-new-tokens 60") for seed in seeds]
    assert sum(report["tokens_per_target_call"] for report in reports) / len(seeds) >= TRAINED[name]


def test_one_is_trained_and_used(document, generate, tmp_path, monkeypatch):
    """`train --drafter` writes a file beside the pair, reports it, and `generate` drafts with it."""
    monkeypatch.setattr(corpus, "VALIDATION_STORIES", 6)
    trained = build_pair(tmp_path / "pair", recipe=tiny_recipe().to_json())
    report, _ = document("train --drafter exit --scale 0.01 --pair", trained)
    path = trained / "drafters" / "exit.safetensors"
    assert report["file"] == str(path) and path.is_file()
    assert {"parameters", "seconds", "loss", "number"} <= report.keys()
    assert 1 <= report["tokens_per_target_call"] <= 5
    assert (report["steps"], report["drafter"], report["pair"]) == (8, "exit", "tiny")
    alone = generate(f"{GREEDY} --dtype float64 --target-only", folder=trained)
    result = generate(f"{GREEDY} --dtype float64 --drafter exit", folder=trained)
    assert result["tokens"] == alone["tokens"] and result["drafter"] == "exit"


def test_a_head_is_trained_and_drafts(document, generate, refused, pair, tmp_path, minispec_home, libraries):
    """The greedy text is the target's; a choice of drafters has it, too. A head may replace only a head."""
    (minispec_home / "native").symlink_to(libraries)
    line = "train --drafter eagle3 --scale 0.002"
    assert "holds other files" in refused(line, "--pair", pair, "--out", pair / "target")
    head = tmp_path / "head"
    hashes = set()
    for seed in (0, 1):
        report, _ = document(f"{line} --seed {seed}", "--pair", pair, "--out", head)
        assert (report["file"], report["steps"], report["ids"]) == (str(head), 2, 300)
        hashes.add(tensors_hash(load_file(head / WEIGHTS)))
    assert len(hashes) == 2
    alone = generate(f"{GREEDY} --dtype float64 --target-only")
    for name, backend in (*product(["eagle3"], BACKENDS), ("eagle3-auto", BACKENDS[-1])):
        settings = f"{GREEDY} --dtype float64 --drafter {name} --backend {backend}"
        assert generate(settings, "--heads", head)["tokens"] == alone["tokens"]


def test_a_head_that_does_not_fit_is_one_line(refused, pair, tmp_path):
    """Of another target, on layers that are not there, with ids that are none; damaged files."""
    target = load_pair(pair).target
    head = tmp_path / "head"

    def says(words):
        line = "generate --backend torch --prompt a --k 2 --drafter eagle3"
        return words in refused(line, "--pair", pair, "--heads", head)

    def write(config=target.config, **info):
        save_eagle3(Eagle3Layer(config, (1, 2), torch.arange(0, 300, 2)), head, "owner/name", 3, info)

    write(target_sha256="0" * 64)
    assert says("was made for another target, of the same sizes")
    write(replace(target.config, width=32))
    assert says("was made for another target")
    write()
    whole = load_file(head / WEIGHTS)
    for name, weight, words in (
        ("d2t", whole["d2t"] + 2, "should lead to ascending ids of the target, from 0 to 299"),
        ("norm.weight", whole["norm.weight"] * float("nan"), "not finite"),
    ):
        save_file(whole | {name: weight}, head / WEIGHTS)
        assert says(words)
    (head / WEIGHTS).write_bytes((head / WEIGHTS).read_bytes()[:1000])
    assert says("cannot be read as a drafter")
    (head / WEIGHTS).unlink()
    if hasattr(os, "mkfifo"):
        os.mkfifo(head / WEIGHTS)
        assert says("cannot be read as a drafter")
    edit_json(head / "config.json", eagle_aux_hidden_state_layer_ids=[1, 3])
    assert says("taps after layers [1, 3]; they should ascend, from 1 to 2")


def test_the_demo_shows_one(document):
    """Both runs are named, and the greedy text is the target's."""
    shown, _ = document("demo --no-train --backend torch --max-new-tokens 12 --k 3 --drafter medusa")
    runs = shown["pairs"][0]["runs"]
    assert [run["drafter"] for run in runs] == ["medusa"] * 2 and runs[0]["same_as_target_only"]
