"""The section that compares with transformers: the same weights, the same texts, and settings that work."""

import importlib.util
from copy import deepcopy

import pytest
import torch
from pairs import build_pair

from minispec import SeededRng, Warp, generate, load_pair
from minispec.evidence.bench.section import BenchRun, Plan, Skipped, group
from minispec.evidence.bench.transformers import Theirs, TransformersGPT, logit_difference, measure

needs_transformers = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="needs the extra peers"
)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return load_pair(build_pair(tmp_path_factory.mktemp("pairs") / "tiny"))


def test_without_transformers_the_section_says_so(pair, monkeypatch):
    """It is skipped with the words that install it."""
    monkeypatch.setitem(__import__("sys").modules, "transformers", None)
    plan = Plan(choosing=1, reporting=1)
    with pytest.raises(Skipped, match=r"pip install -e '\.\[peers\]'"):
        measure(BenchRun(pair, plan, group(pair, plan)))


@needs_transformers
def test_transformers_reads_the_same_models_and_writes_the_same_text(pair):
    """Logits agree, plain and assisted greedy texts are ours, and its settings do what they say."""
    target, draft = (TransformersGPT(own).model for own in (pair.target, pair.draft))
    prompt = pair.info["prompts"][0]
    assert logit_difference(pair, (target, draft), [prompt]) < 1e-4
    run = generate(pair.target, [prompt], max_new_tokens=24, warp=Warp(0), rng=SeededRng(0))
    ours = tuple(step[0] for step in run)
    plain = Theirs(target).decode([prompt], 0, 24)
    assert plain.texts == (ours,) and plain.seconds > 0
    calls = {}
    for tokens in (3, 6):
        widths = calls[tokens] = []
        hook = target.register_forward_pre_hook(
            lambda module, args, kwargs, widths=widths: widths.append(kwargs["input_ids"].shape[1]),
            with_kwargs=True,
        )
        assert Theirs(target, draft, tokens, 0.0).decode([prompt], 0, 24).texts == (ours,)
        hook.remove()
    assert max(calls[3][1:]) == 4 and max(calls[6][1:]) == 7  # the drafted tokens, and one more


@needs_transformers
def test_other_weights_are_noticed(pair):
    """A model whose logits are not ours has a large difference."""
    target, draft = (TransformersGPT(deepcopy(own)).model for own in (pair.target, pair.draft))
    with torch.no_grad():
        target.lm_head.weight[0] += 1
    assert logit_difference(pair, (target, draft), [pair.info["prompts"][0]]) > 1e-2
