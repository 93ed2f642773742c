"""`--drafter`: what proposes, by name, in `generate` and `prove`; some need no draft model."""

import pytest
import torch
from native_models import has_compiler
from pairs import build_pair, random_models

from minispec.evidence.proof import prove
from minispec.io.checkpoint import load_pair
from minispec.native.backend import on_backend
from minispec.native.drafters import DRAFTERS

LOOK_UPS = ("ngram", "suffix")
BACKENDS = ["torch", "native"] if has_compiler() else ["torch"]
USUAL = "--max-new-tokens 40 --ignore-eos --dtype float64"
REPEATING = "The cat and the cat and the cat and the dog"


@pytest.mark.parametrize("name", LOOK_UPS)
def test_look_ups_give_the_targets_text(generate, name):
    """With greedy and coupled that of target-only; what is drafted stood in the text before."""
    for backend in BACKENDS:
        for verifier in ("greedy", "coupled"):
            settings = f"{USUAL} --verifier {verifier} --seed 5 --backend {backend}"
            found = generate(f"{settings} --drafter {name}", prompt=REPEATING)
            alone = generate(f"{settings} --target-only", prompt=REPEATING)
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
    line = f"{USUAL} --drafter {name} --seed 2 --backend"
    texts = [generate(f"{line} {backend}")["tokens"] for backend in BACKENDS]
    assert texts[0] == texts[-1] and len(texts[0]) == 40


def test_the_default_is_the_draft_model(generate):
    """With its name and without it: the same rounds, and it is named."""
    default = generate("--seed 1")
    named = generate("--seed 1 --drafter model")
    assert default["rounds"] == named["rounds"] and default["drafter"] == named["drafter"] == "model"


@pytest.mark.parametrize("name", LOOK_UPS)
def test_a_look_up_needs_no_draft_model(generate, tmp_path, name):
    """An automatic K counts no draft step; a prompt that the draft model could not hold is continued."""
    folder = build_pair(tmp_path / "short", draft=random_models(max_length=8)[1])
    line = f"{USUAL} --verifier greedy --drafter {name} --k"
    auto, fixed = (generate(f"{line} {k}", folder=folder, prompt=REPEATING) for k in ("auto", 4))
    assert len(auto["prompt_tokens"]) > 8 and len(auto["tokens"]) == 40
    assert auto["tokens"] == fixed["tokens"]
    costs = auto["costs"]
    assert [costs[part] for part in ("t_draft", "catch_up", "draft_prefill", "restart")] == [0] * 4
    assert costs["t_target"]["1"] > 0


def test_a_k_beyond_all_bounds_is_cut_to_the_budget(generate):
    """A tree is no deeper than it has tokens, a chain no longer than the text: nothing is made for more."""
    for name in ("tree", "model"):
        line = f"--max-new-tokens 40 --verifier greedy --drafter {name} --k"
        assert generate(f"{line} {10**30}")["tokens"] == generate(f"{line} 40")["tokens"]


@pytest.mark.parametrize("name", LOOK_UPS)
def test_prove_takes_the_cases_of_one_drafter(document, name):
    """All of its cases, no other, no samples; it passes, and only what concerns it must come up."""
    found, _ = document(f"prove --drafter {name}")
    assert found["passed"] and found["sampled"] == []
    assert {name in case["name"] for case in found["cases"]} == {True}
    wanted = {case.name for case in prove.few_cases() if case.drafts_with == name}
    assert wanted <= {case["name"] for case in found["cases"]} and len(wanted) >= 6
    assert all(mark.startswith(f"{name}: ") for mark in found["coverage"])
    assert {f"{name}: drafted {n}" for n in range(4)} <= set(found["coverage"])


def test_what_is_enumerated_can_be_named():
    """The proof's drafters are those of the command line, by the same names."""
    assert {"model", *LOOK_UPS} <= set(prove.DRAFTERS) <= set(DRAFTERS)


@pytest.mark.parametrize("name", LOOK_UPS)
def test_distributions_have_the_targets_type(pair, name):
    """So the native rules need not convert them: that of the target's distributions, at least float32."""
    for dtype, wanted in ((torch.float64, torch.float64), (torch.bfloat16, torch.float32)):
        models = load_pair(pair, dtype=dtype)
        target, drafter = DRAFTERS[name].make(models, on_backend(models, "torch"))
        drafter.start([[1, 1]])
        assert target is models.target
        assert drafter.propose(torch.tensor([1]), 1, None, None).probs.dtype is wanted
