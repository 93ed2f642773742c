"""The native loop plays the rounds of the core's loop: the same draws, tokens and distributions.

Both run over the same native parts, so nothing may differ in any bit. Only q may, by rounding, in two cases:
trees drawn without replacement are rescaled in another order, and by noise the core's drafters draw token by
token.
"""

from functools import cache
from itertools import product
from math import prod

import numpy as np
import pytest
import tiny
import torch
from native_models import needs_compiler, same_round

from minispec import KeyedRng, Request, speculate
from minispec.core import loop as core
from minispec.drafters.adaptive import AdaptiveDrafter
from minispec.drafters.entry import Parts
from minispec.drafters.registry import DRAFTERS
from minispec.evidence.proof.cases import COSTS, TRAINED
from minispec.evidence.proof.models import early_exit
from minispec.native import loop
from minispec.native.backend import NATIVE
from minispec.native.drafter import NativeDrafter
from minispec.native.drafters import target_for
from minispec.native.model import NativeGPT

EXACT = ("block", "target_hidden", "target_logits", "target_probs")
PROMPTS = [[3], [1, 4, 1, 0, 7], [2, 0, 3, 1, 4, 4, 0, 2, 1], [5, 6]]
BESIDE = 4096  # numbers before and after the memory of a cache
LONG = [[1, 2] * 17, [3, 4, 5] * 12]  # the context ends in them
BATCHES = {
    "one row": (PROMPTS[1:2], {}),
    "ragged": (PROMPTS, {"eos": (4, 9)}),
    "queue": ([Request(p, 3 + 4 * i, 8) for i, p in enumerate(PROMPTS)], {"batch_size": 2}),
    "context": (LONG, {}),
}
WARPS = {"T 0": (0.0,), "T 1": (1.0,), "T 0.8, top-k, top-p": (0.8, 7, 0.9)}
CHAINS = {
    "T 0": ("greedy", "rejection"),
    "T 1": ("rejection", "block", "coupled"),
    "T 0.8, top-k, top-p": ("rejection",),
}
TREES = {"T 0": ("greedy",), "T 1": ("rejection",), "T 0.8, top-k, top-p": ("rejection",)}


@cache
def models(dtype):
    """Returns a target and a draft model of one context, in torch and native."""
    target, draft = tiny.gpt_pair(dtype=dtype)
    return target, NativeGPT(target), NativeGPT(draft)


def drafter_of(name, warp, dtype):
    """Returns a native target and a drafter for it."""
    gpt, target, draft = models(dtype)
    if name == "automatic":
        return target, AdaptiveDrafter(NativeDrafter(draft, warp), COSTS, most=3, retry=1, pace=1)
    if name == "target alone":
        return target, None
    heads = {"exit": lambda model: early_exit(model, 0).exit} | TRAINED
    parts = Parts(target, draft, gpt, lambda kind: heads[kind](gpt).to(dtype), warp)
    drafter = NATIVE.makers.get(name, DRAFTERS[name].make)(parts, 3)
    return target_for(drafter, target), drafter


def by_noise(rule, batch):
    """Whether a run draws by noise."""
    return rule == "coupled" and batch == "ragged"


def run(how, name, warp_name, rule, batch, dtype, own_warp=None):
    """Returns all rounds of a run."""
    warp = NATIVE.warp(*WARPS[warp_name])
    target, drafter = drafter_of(name, own_warp, dtype)
    trees = name in DRAFTERS and DRAFTERS[name].proposes_trees
    prompts, settings = BATCHES[batch]
    k = 0 if name == "target alone" else 3
    rng = KeyedRng(5) if by_noise(rule, batch) else NATIVE.rng(5)
    verifier = NATIVE.verifier(rule, trees)
    return list(
        how(
            target,
            drafter,
            prompts,
            k=k,
            verifier=verifier,
            max_new_tokens=14,
            warp=warp,
            rng=rng,
            **settings,
        )
    )


def check_same(ours, theirs, tolerance):
    """Asserts that two rounds are one."""
    same_round(ours, theirs, tolerance)
    count = torch.tensor(ours.live)[:, None] & (torch.arange(ours.draft.k + 1) <= ours.draft.lengths[:, None])
    for name in EXACT:  # what stands after a draft means nothing
        assert torch.equal(getattr(ours, name)[count], getattr(theirs, name)[count]), name


@needs_compiler
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("name", [*DRAFTERS, "automatic", "target alone"])
def test_rounds_are_those_of_the_core(name, batch):
    """Every drafter, rule and warp, in both types, and with a warp of the draft's own."""
    played = 0
    trees = name in DRAFTERS and DRAFTERS[name].proposes_trees
    for dtype, warp_name in product((torch.float32, torch.float64), WARPS):
        for rule, own in product((TREES if trees else CHAINS)[warp_name], (None, NATIVE.warp(1.3))):
            setting = name, warp_name, rule, batch, dtype, own
            ours, theirs = run(loop.observe, *setting), run(speculate, *setting)
            assert len(ours) == len(theirs)
            for one, other in zip(ours, theirs, strict=True):
                check_same(one, other, 1e-6 if trees or by_noise(rule, batch) else 0)
            played += isinstance(ours[-1], loop.NativeRound)
    assert played == 12 if trees else played == 24


@needs_compiler
@pytest.mark.parametrize("name", [*DRAFTERS, "automatic", "target alone"])
def test_rounds_in_caches_that_grow_are_the_same(name, monkeypatch):
    """Memory is there for 16 tokens at first, then for 48; nothing is written beside it."""
    trees = name in DRAFTERS and DRAFTERS[name].proposes_trees
    settings = [(name, "T 1", "rejection", batch, torch.float32) for batch in BATCHES]
    wanted = [run(loop.observe, *setting) for setting in settings]
    taken = []

    def zeros(shape, dtype=float):
        taken.append(np.ones(prod(shape) + 2 * BESIDE, dtype))
        inner = taken[-1][BESIDE:-BESIDE]
        inner.fill(0)
        return inner.reshape(shape)

    monkeypatch.setattr("minispec.native.cache.STEP", 1)
    monkeypatch.setattr(np, "zeros", zeros)
    for setting, rounds in zip(settings, wanted, strict=True):
        for one, other in zip(run(loop.observe, *setting), rounds, strict=True):
            check_same(one, other, 1e-6 if trees else 0)
    assert len(taken) > 4
    assert all((memory[:BESIDE] == 1).all() and (memory[-BESIDE:] == 1).all() for memory in taken)


@needs_compiler
@pytest.mark.parametrize("batch", ["one row", "ragged", "context"])
@pytest.mark.parametrize("warp_name", WARPS)
def test_the_target_alone_emits_what_the_core_does(warp_name, batch):
    """Token by token, by both generators."""
    target = models(torch.float32)[1]
    prompts, settings = BATCHES[batch]
    warp = NATIVE.warp(*WARPS[warp_name])
    for rng in (NATIVE.rng, KeyedRng):
        ours, theirs = (
            list(how(target, prompts, max_new_tokens=14, warp=warp, rng=rng(2), **settings))
            for how in (loop.generate, core.generate)
        )
        assert ours == theirs


@needs_compiler
def test_what_the_library_does_not_know_goes_through_the_cores_loop():
    """A plain warp, generator or verifier, and a model of another kind; the answer is the same."""
    gpt, target, draft = models(torch.float64)
    settings = {"k": 3, "max_new_tokens": 10}
    given = NATIVE.warp(1.0), NATIVE.rng, NATIVE.verifier("rejection")
    expected = None
    for change in (
        {},
        {"warp": core.Warp(1.0)},
        {"verifier": NATIVE.verifier("rejection").decide},
        {"target": gpt},
    ):
        chosen = dict(zip(("warp", "rng", "verifier"), given, strict=True)) | {"target": target} | change
        rng = chosen.pop("rng")(3)
        rounds = list(
            loop.observe(chosen.pop("target"), NativeDrafter(draft), PROMPTS, rng=rng, **chosen, **settings)
        )
        assert isinstance(rounds[0], loop.NativeRound) == (not change)
        emitted = [r.emitted for r in rounds]
        assert expected is None or emitted == expected
        expected = emitted


@needs_compiler
def test_seconds_in_forwards_are_a_part_of_the_whole():
    """They are added up, run after run, and a round's phases sum up to what it took."""
    target, drafter = drafter_of("model", None, torch.float32)
    forwards = loop.Forwards()
    settings = {"verifier": NATIVE.verifier("greedy"), "warp": NATIVE.warp(0.0), "rng": NATIVE.rng(0)}
    rounds = list(
        loop.observe(target, drafter, PROMPTS, k=3, max_new_tokens=9, forwards=forwards, **settings)
    )
    seconds = {phase: sum(r.seconds.get(phase, 0) for r in rounds) for phase in ("draft", "verify", "other")}
    assert 0 < forwards.draft < seconds["draft"] and 0 < forwards.target < seconds["verify"]
    assert seconds["other"] > 0 and "prefill" in rounds[0].seconds
