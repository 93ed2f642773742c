"""`--drafter`: what proposes, by name, in `generate`; some need no draft model."""

from dataclasses import replace

import pytest
from native_models import has_compiler
from pairs import build_pair, random_models

from minispec import Request, Warp
from minispec.cli.decoding import Decoding
from minispec.drafters.registry import DRAFTERS
from minispec.io.checkpoint import load_pair
from minispec.native.backend import on_backend

LOOK_UPS = ("ngram", "suffix")
BACKENDS = ["torch", "native"] if has_compiler() else ["torch"]
USUAL = "--max-new-tokens 40 --ignore-eos --dtype float64"
REPEATING = "The cat and the cat and the cat and the dog"


@pytest.mark.parametrize("name", LOOK_UPS)
def test_look_ups_give_the_targets_text(generate, name):
    """Greedily that of target-only; what is drafted stood in the text before."""
    result = generate(f"{USUAL} --verifier greedy --drafter {name}", prompt=REPEATING)
    alone = generate(f"{USUAL} --verifier greedy --target-only", prompt=REPEATING)
    assert result["tokens"] == alone["tokens"]
    assert (result["drafter"], alone["drafter"]) == (name, None)
    assert len({len(r["drafted"]) for r in result["rounds"]}) > 1
    text = list(result["prompt_tokens"])
    for r in result["rounds"]:
        assert set(r["drafted"]) <= set(text) and len(r["drafted"]) <= 4
        text += r["emitted"]


def test_the_default_is_the_draft_model(generate):
    """With its name and without it: the same rounds, and it is named."""
    default = generate("--seed 1")
    named = generate("--seed 1 --drafter model")
    assert default["rounds"] == named["rounds"] and default["drafter"] == named["drafter"] == "model"


def test_a_look_up_needs_no_draft_model(generate, tmp_path):
    """An automatic K counts no draft step; a prompt that the draft model could not hold is continued."""
    folder = build_pair(tmp_path / "short", draft=random_models(max_length=8)[1])
    line = f"{USUAL} --verifier greedy --drafter ngram --k"
    auto, fixed = (generate(f"{line} {k}", folder=folder, prompt=REPEATING) for k in ("auto", 4))
    assert len(auto["prompt_tokens"]) > 8 and len(auto["tokens"]) == 40
    assert auto["tokens"] == fixed["tokens"]
    costs = auto["costs"]
    assert [costs[part] for part in ("t_draft", "catch_up", "draft_prefill", "restart")] == [0] * 4
    assert costs["t_target"]["1"] > 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_drafter_by_automatic_choice(generate, backend):
    """It measures costs, chooses K up to 16, or less if so told, and gives the target's text."""
    line = f"{USUAL} --verifier greedy --backend {backend}"
    alone = generate(f"{line} --target-only", prompt=REPEATING)
    for k, most in (("", 16), ("--k auto", 16), ("--k 2", 2), ("--k 0", 0)):
        result = generate(f"{line} --drafter auto {k}", prompt=REPEATING)
        assert result["tokens"] == alone["tokens"] and ("costs" in result) == (most > 0)
        assert max(len(r["drafted"]) for r in result["rounds"]) <= most
    assert generate(f"{line} --drafter auto --target-only", prompt=REPEATING)["tokens"] == alone["tokens"]


def test_without_a_draft_model_the_choice_is_between_look_ups(pair):
    """The target stands in the draft's place: its forwards are measured, for each K."""
    models = on_backend(load_pair(pair), "torch")
    models = replace(models, draft=models.target)
    decoding = Decoding(None, models, "greedy", Warp(0), 16, 0, DRAFTERS["auto"])
    costs = decoding.measured_costs(Request([1, 2, 3], 9), 1)
    assert list(costs.t_target) == [*range(1, 18)] and costs.t_draft == 0


@pytest.mark.parametrize("name", ["tree", "model"])
def test_a_k_beyond_all_bounds_is_cut_to_the_budget(generate, name):
    """A tree is no deeper than it has tokens, a chain no longer than the text: nothing is made for more."""
    line = f"--max-new-tokens 20 --verifier greedy --drafter {name} --k"
    assert generate(f"{line} {10**30}")["tokens"] == generate(f"{line} 20")["tokens"]
