"""`--drafter exit`, `medusa`, `eagle`, `eagle3`, `parallel`: those of the shipped target, or from `train`."""

from itertools import product

import pytest
from native_models import has_compiler
from pairs import build_pair, tiny_recipe
from safetensors.torch import load_file

from minispec.io.checkpoint import tensors_hash
from minispec.io.llama import WEIGHTS
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
