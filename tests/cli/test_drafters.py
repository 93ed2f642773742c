"""`--drafter`: what proposes, by name, in `generate`, `demo` and `prove`; some need no draft model."""

import json

import pytest
import torch
from native_models import has_compiler
from pairs import build_pair, call, random_models

from minispec.evidence.proof import prove
from minispec.io.checkpoint import load_pair
from minispec.native.backend import on_backend
from minispec.native.drafters import DRAFTERS

LOOK_UPS = ("ngram", "suffix")
BACKENDS = ["torch", "native"] if has_compiler() else ["torch"]


@pytest.fixture
def generate(pair, capsys):
    def decode(*arguments, folder=pair, prompt="The cat and the cat"):
        options = ("--json", "--max-new-tokens", 40, "--ignore-eos", "--dtype", "float64", *arguments)
        status, out, err = call(capsys, "generate", "--pair", folder, "--prompt", prompt, *options)
        assert status == 0, err
        return json.loads(out)

    return decode


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", LOOK_UPS)
def test_look_ups_give_the_targets_text(generate, name, backend):
    """With greedy and coupled that of target-only; what is drafted stood in the text before."""
    for verifier in ("greedy", "coupled"):
        settings = ("--verifier", verifier, "--seed", 5, "--backend", backend)
        found = generate("--drafter", name, *settings)
        alone = generate("--target-only", *settings)
        assert found["tokens"] == alone["tokens"]
        assert (found["drafter"], alone["drafter"]) == (name, None)
        drafted = {len(r["drafted"]) for r in found["rounds"]}
        assert len(drafted) > 1 and max(drafted) <= 4
        text = list(found["prompt_tokens"])
        for r in found["rounds"]:
            assert set(r["drafted"]) <= set(text) and (not r["drafted"] or text[-1] in text[:-1])
            text += r["emitted"]


@pytest.mark.parametrize("name", LOOK_UPS)
def test_backends_sample_the_same_text(generate, name):
    """The rejection verifier draws the same numbers on both, whatever is found."""
    texts = [generate("--drafter", name, "--seed", 2, "--backend", one)["tokens"] for one in BACKENDS]
    assert texts[0] == texts[-1] and len(texts[0]) == 40


def test_the_default_is_the_draft_model(generate):
    """With its name and without it: the same rounds, and it is named."""
    one, same = generate("--seed", 1), generate("--seed", 1, "--drafter", "model")
    assert one["rounds"] == same["rounds"] and one["drafter"] == same["drafter"] == "model"


@pytest.mark.parametrize("name", LOOK_UPS)
def test_automatic_k_counts_no_draft_model(generate, name):
    """A look-up takes no draft step, catches up on nothing, and reads nothing anew."""
    report = generate("--drafter", name, "--k", "auto", "--verifier", "greedy")
    alone = generate("--target-only", "--verifier", "greedy")
    assert report["tokens"] == alone["tokens"]
    costs = report["costs"]
    assert [costs[part] for part in ("t_draft", "catch_up", "draft_prefill", "restart")] == [0] * 4
    assert costs["t_target"]["1"] > 0


@pytest.mark.parametrize("name", LOOK_UPS)
def test_the_draft_models_context_is_no_limit(generate, tmp_path, name):
    """A prompt that the draft model could not hold is continued all the same."""
    draft = random_models(max_length=8)[1]
    folder = build_pair(tmp_path / "short", draft=draft)
    text = "The cat and the cat and the cat and the dog"
    for k in ("4", "auto"):
        report = generate("--drafter", name, "--k", k, folder=folder, prompt=text)
        assert len(report["prompt_tokens"]) > 8 and len(report["tokens"]) == 40


def test_a_k_beyond_all_bounds_is_cut_to_the_budget(generate):
    """A tree is no deeper than it has tokens, a chain no longer than the text: nothing is made for more."""
    for name in ("tree", "model"):
        options = ("--verifier", "greedy", "--drafter", name)
        assert generate(*options, "--k", 10**30)["tokens"] == generate(*options, "--k", 40)["tokens"]


def test_where_nothing_is_drafted_there_is_no_k(pair, capsys):
    """A text of one token leaves no room for a draft: the demo's table has no K for it, and not 0."""
    options = ("--no-train", "--backend", "torch", "--max-new-tokens", 1, "--drafter", "ngram", "--k", 3)
    status, out, _ = call(capsys, "demo", "--pair", pair, "--prompt", "The cat", "--json", *options)
    (found,) = json.loads(out)["pairs"]
    assert status == 0 and [one["k"] for one in found["runs"]] == [None, None]


def test_the_demo_shows_it(pair, capsys):
    """Its runs are named, the text is the target's, and nothing is said of the draft model's costs."""
    options = ("--no-train", "--prompt", "The cat", "--backend", "torch", "--max-new-tokens", 20)
    status, out, err = call(capsys, "demo", "--pair", pair, "--drafter", "suffix", "--json", *options)
    assert status == 0 and "drafter: suffix" in err
    runs = json.loads(out)["pairs"][0]["runs"]
    assert [(run["drafter"], run["advice"]) for run in runs] == [("suffix", [])] * 2
    assert runs[0]["same_as_target_only"]
    assert call(capsys, "demo", "--pair", pair, "--json", *options)[2].count("drafter:") == 0


@pytest.mark.parametrize("name", LOOK_UPS)
def test_prove_takes_the_cases_of_one_drafter(capsys, name):
    """All of its cases, no other, no samples; it passes, and only what concerns it must come up."""
    status, out, _ = call(capsys, "prove", "--drafter", name, "--json")
    document = json.loads(out)
    assert status == 0 and document["passed"] and document["sampled"] == []
    assert {name in case["name"] for case in document["cases"]} == {True}
    wanted = {case.name for case in prove.few_cases() if case.drafts_with == name}
    assert wanted <= {case["name"] for case in document["cases"]} and len(wanted) >= 6
    assert all(mark.startswith(f"{name}: ") for mark in document["coverage"])
    assert {f"{name}: drafted {n}" for n in range(4)} <= set(document["coverage"])


def test_what_is_enumerated_can_be_named():
    """The proof's drafters are those of the command line, by the same names."""
    assert {"model", *LOOK_UPS} <= set(prove.DRAFTERS) <= set(DRAFTERS)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_distributions_have_the_targets_type(pair, dtype):
    """So the native rules need not convert them: that of the target's distributions, at least float32."""
    models = load_pair(pair, dtype=getattr(torch, dtype))
    for name in LOOK_UPS:
        target, drafter = DRAFTERS[name].make(models, on_backend(models, "torch"))
        drafter.start([[1, 1]])
        draft = drafter.propose(torch.tensor([1]), 1, None, None)
        assert target is models.target
        assert draft.probs.dtype is (torch.float64 if dtype == "float64" else torch.float32)
