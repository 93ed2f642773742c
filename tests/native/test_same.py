"""Every drafter and rule, decided three ways: on torch, over native parts, and by the native loop.

Torch and native parts compute in another order, so in float64 their q may differ by rounding and nothing else
may. The native loop runs over the same parts as the core's, so nothing may differ in any bit; but trees drawn
without replacement are rescaled in another order, and by noise the core's drafters draw token by token.
"""

from functools import partial

import numpy as np
import pytest
import tiny
import torch
from native_models import ODD, WIDE, block, decided, exit_of, needs_compiler, same_round, trained

from minispec import KeyedRng, ModelDrafter, Request, Warp, load_pair
from minispec.core import loop as core
from minispec.core.model import RopeScaling
from minispec.core.rng import DraftingRng
from minispec.drafters.adaptive import AdaptiveDrafter
from minispec.drafters.entry import Parts
from minispec.drafters.exit import EarlyExitGPT, ExitDrafter
from minispec.drafters.registry import DRAFTERS
from minispec.evidence.proof.cases import COSTS
from minispec.io.heads import load_heads
from minispec.native import loop
from minispec.native.backend import NATIVE, TORCH
from minispec.native.drafter import NativeDrafter
from minispec.native.drafters import target_for
from minispec.native.exit import NativeExitGPT
from minispec.native.model import NativeGPT

pytestmark = needs_compiler
PROMPTS = [[3], [1, 4, 1, 0], [2, 0, 3, 1, 4, 4, 0, 2, 1], [10, 9], [5, 5, 5]]
LONG = [[1, 2] * 17, [3, 4, 5] * 12, [7] * 39, [6] * 20]  # the context of 40 tokens ends in them
BATCHES = {
    "ragged": (PROMPTS, {"eos": (4, 9), "max_new_tokens": 14}),
    "queue": ([Request(p, 3 + 4 * i, 8) for i, p in enumerate(PROMPTS)], {"batch_size": 3}),
    "context": (LONG, {"max_new_tokens": 60, "batch_size": 3}),
    "one row": (PROMPTS[2:3], {}),
}
EXACT = ("block", "target_hidden", "target_logits", "target_probs")
SIZES = {
    "odd": ODD,
    "biases and norms": {"qkv_bias": True, "qk_norm": True, "rope_scaling": RopeScaling(4.0, 0.5, 2.0, 32)},
    "wide": WIDE,
}
NAMES = [*DRAFTERS, "automatic", "target alone"]
OF_TWO = ["exit of 2", "eagle of 2", "parallel of 2"]  # after two layers, or with two layers of their own
OTHER = {"temperature": 0.8, "warp": {"top_k": 7, "top_p": 0.9}}
# A rule and what it is run with; the drafter's own warp.
CHAINS = [
    ({"rule": "greedy", "temperature": 0.0}, None),
    ({"rule": "rejection", "temperature": 0.0}, {"temperature": 1.3}),
    ({}, None),
    ({"rule": "block"}, {"temperature": 1.3}),
    ({"rule": "coupled"}, None),
    ({"rule": "coupled", "rng": KeyedRng}, None),
    (OTHER, {"temperature": 0.8, "top_k": 4}),
]
TREES = [CHAINS[0], CHAINS[2], CHAINS[6]]


def rarely(what):
    return pytest.param(what, marks=pytest.mark.evidence)


def is_tree(name):
    return name in DRAFTERS and DRAFTERS[name].proposes_trees


def side_of(backend, name, own=None, dtype=torch.float64, **sizes):
    """Returns a backend, a target, and what makes a drafter for it."""
    entry, _, layers = name.partition(" of ")
    gpt, draft = (tiny.gpt(tiny.config(**sizes | {"layers": n}), seed=n, dtype=dtype) for n in (3, 1))
    target = backend.model(gpt)
    warp = None if own is None else backend.warp(**own)
    if name == "target alone":
        return backend, target, lambda: None
    if name == "automatic":
        make = backend.drafter if backend is NATIVE else ModelDrafter
        model = backend.model(draft)
        return backend, target, lambda: AdaptiveDrafter(make(model, warp), COSTS, most=3, retry=1, pace=1)
    parts = Parts(target, backend.model(draft), gpt, lambda kind: trained(gpt, kind, int(layers or 1)), warp)
    make = partial(backend.makers.get(entry, DRAFTERS[entry].make), parts, 4)
    drafter = make()
    own = target_for(drafter, target)
    return (backend, target, make) if own is target else (backend, own, lambda: drafter)


def same_bits(ours, theirs, tolerance):
    """Asserts that two rounds are one, with all that the target has computed."""
    same_round(ours, theirs, tolerance)
    count = torch.tensor(ours.live)[:, None] & (torch.arange(ours.draft.k + 1) <= ours.draft.lengths[:, None])
    for name in EXACT:  # what stands after a draft means nothing
        assert torch.equal(getattr(ours, name)[count], getattr(theirs, name)[count]), name


def assert_decided_alike(name, prompts, own=None, dtype=torch.float64, sizes=None, **settings):
    """Asserts that all three ways decide alike, and use up the same numbers; returns the rounds."""

    def run(backend, **how):  # each time by a new drafter, as some of them learn
        return decided(side_of(backend, name, own, dtype, **sizes or {}), prompts, **settings, **how)

    settings = settings | {"trees": is_tree(name), "k": 0 if name == "target alone" else settings.get("k", 3)}
    parts, later = run(NATIVE)
    played, after = run(NATIVE, how=loop.observe)
    assert after == later and all(isinstance(r, loop.NativeRound) for r in played)
    by_noise = settings.get("rng") is KeyedRng
    for one, other in zip(played, parts, strict=True):
        same_bits(one, other, 1e-6 if is_tree(name) or by_noise else 0)
    if dtype == torch.float64:  # else rounding may choose another token
        wanted, next_ones = run(TORCH)
        assert next_ones == later
        for one, other in zip(parts, wanted, strict=True):
            same_round(one, other, 1e-10)
    return parts


@pytest.mark.parametrize("batch", [*list(BATCHES)[:3], rarely("one row")])
@pytest.mark.parametrize("name", [*NAMES, *map(rarely, OF_TWO)])
def test_every_drafter_and_rule_decides_alike(name, batch):
    """Ragged rows that end, queues, the context's end; rules, warps and the drafter's own."""
    prompts, changes = BATCHES[batch]
    kept = set()
    every = TREES if is_tree(name) else CHAINS
    for i, (settings, own) in enumerate(every if batch == "ragged" else every[:3:2]):
        rounds = assert_decided_alike(name, prompts, own, seed=i, k=(3, 5, 1)[i % 3], **settings | changes)
        kept |= {n for r in rounds for n in r.verdict.accepted.tolist()}
    assert len(kept) > 1 or name in ("target alone", "exit", "suffix") or batch == "one row"


@pytest.mark.parametrize("name", [*NAMES, *OF_TWO])
def test_other_types_and_sizes(name):
    """In float32 and in sizes that do not fill vectors, or are more than a panel."""
    assert_decided_alike(name, PROMPTS, dtype=torch.float32, max_new_tokens=12)
    for sizes in SIZES.values():
        assert_decided_alike(name, PROMPTS[:3], sizes=sizes, max_new_tokens=8)


@pytest.mark.parametrize("context", [1, 2, 3])
def test_contexts_of_a_few_tokens(context):
    """Texts of prompts that fill the context or nearly do; of a context of one there is no round."""
    for length in range(1, context + 1):
        sizes = {"vocab_size": 3, "max_length": context}
        rounds = assert_decided_alike("model", [[2] * length, [1]], sizes=sizes, max_new_tokens=5)
        assert bool(rounds) == (context > 1)


@torch.inference_mode()
@pytest.mark.parametrize("name", [name for name in DRAFTERS if not is_tree(name)])
def test_weights_of_16_bits_draft_what_torch_does(name):
    """The first draft's distributions, up to the rounding of each product."""
    drafts = []
    for backend in (TORCH, NATIVE):
        _, target, make = side_of(backend, name, dtype=torch.bfloat16)
        drafter = make()
        text = block(target, 2, 6)
        cache = target.new_cache(2)  # an exit looks for it
        hidden = target.hidden(text, cache)
        drafter.start([row.tolist() + [1] for row in text], hidden)
        rng = DraftingRng(backend.rng(1), tiny.round_plan([1, 1], [7, 7]))
        drafts.append(drafter.propose(torch.tensor([1, 1]), 1, backend.warp(1.0), rng).probs.float())
    torch.testing.assert_close(*drafts, rtol=0, atol=0.1)


@pytest.mark.parametrize("name", NAMES)
def test_caches_that_grow_hold_the_same(name, monkeypatch):
    """Memory is there for 16 tokens at first, then for 48; nothing is written beside it."""
    beside = 4096
    taken = []

    def zeros(shape, dtype=float):
        taken.append(np.ones(int(np.prod(shape)) + 2 * beside, dtype))
        inner = taken[-1][beside:-beside]
        inner.fill(0)
        return inner.reshape(shape)

    prompts, settings = BATCHES["context"]
    settings = settings | {"trees": is_tree(name), "k": 0 if name == "target alone" else 3}
    wanted, _ = decided(side_of(NATIVE, name), prompts, how=loop.observe, **settings)
    monkeypatch.setattr("minispec.native.cache.STEP", 1)
    monkeypatch.setattr(np, "zeros", zeros)
    found, _ = decided(side_of(NATIVE, name), prompts, how=loop.observe, **settings)
    for one, other in zip(found, wanted, strict=True):
        same_bits(one, other, 1e-6 if is_tree(name) else 0)
    assert len(taken) > 1
    assert all((memory[:beside] == 1).all() and (memory[-beside:] == 1).all() for memory in taken)


@pytest.mark.parametrize("temperature", [0.0, 0.05, 0.7, 1.5])
@pytest.mark.parametrize("rows", [1, 3, 8])
def test_rows_that_end_early_leave_the_others_as_they_are(rows, temperature):
    """Rows of one batch end at different times; at temperature 0 every text is the target's own."""
    target, draft = tiny.gpt_pair()
    live = set()
    for seed in range(3):
        prompts = [(PROMPTS + LONG[1:2] + [[0], [7, 8, 6]])[(seed + row) % 8] for row in range(rows)]
        settings = {"temperature": temperature, "seed": seed, "k": 1 + (seed + rows) % 5, "eos": [8, 6]}
        sides = [(b, b.model(target), partial(b.drafter, b.model(draft))) for b in (TORCH, NATIVE)]
        plain, native = (decided(side, prompts, max_new_tokens=24, **settings) for side in sides)
        for one, other in zip(native[0], plain[0], strict=True):
            same_round(one, other, 1e-10)
        assert plain[1] == native[1]
        if temperature == 0:
            wanted = [tiny.greedy(target, prompt, 24, (8, 6))[0] for prompt in prompts]
            assert tiny.outcome(native[0], rows)[0] == wanted
        live |= {sum(r.live) for r in plain[0]}
    assert rows == 1 or len(live) > 1


@pytest.mark.parametrize("drafter", ["model", "exit"])
def test_the_shipped_pair_and_exit_decide_alike(drafter):
    """In float64, on held-out prompts cut to different lengths, to the end of the shortest stories."""
    pair = load_pair("stories", dtype=torch.float64)
    prompts = [prompt[: 32 - 3 * row] for row, prompt in enumerate(pair.info["prompts"][:4])]
    exit, _ = load_heads(pair, "exit")
    early = {TORCH: lambda: EarlyExitGPT(pair.target, exit), NATIVE: lambda: NativeExitGPT(native, exit)}
    native = NativeGPT(pair.target)
    for temperature in (0.0, 0.7):
        runs = []
        for backend in (TORCH, NATIVE):
            target = early[backend]() if drafter == "exit" else backend.model(pair.target)
            make = ExitDrafter(target) if drafter == "exit" else backend.drafter(backend.model(pair.draft))
            settings = {"temperature": temperature, "k": 5, "eos": pair.tokenizer.end_of_text}
            runs.append(decided((backend, target, lambda make=make: make), prompts, **settings))
        for one, other in zip(runs[1][0], runs[0][0], strict=True):
            same_round(one, other, 1e-10)
        assert runs[0][1] == runs[1][1]


@pytest.mark.parametrize("temperature", [0.05, 1.0])
def test_a_draft_that_is_the_target_uses_up_no_number(temperature):
    """p/q is 1 but for rounding: on both backends that counts as certain."""
    target, _ = tiny.gpt_pair()
    laters = []
    for backend in (TORCH, NATIVE):
        model = backend.model(target)
        rounds, later = decided(
            (backend, model, partial(backend.drafter, model)), PROMPTS[:3], temperature=temperature
        )
        assert all(r.accepted(row) == r.drafted(row) for r in rounds for row in range(3))
        laters.append(later)
    assert laters[0] == laters[1]


@pytest.mark.parametrize("eps", [1e-5, 0.5])
def test_the_exits_norm_has_its_own_epsilon(eps):
    """Which need not be the model's."""
    model = tiny.gpt(tiny.config(layers=3), seed=6).requires_grad_(False)
    exit = exit_of(model, 2)
    exit.norm.eps = eps
    targets = EarlyExitGPT(model, exit), NativeExitGPT(NativeGPT(model), exit)
    plain, native = (
        decided((backend, target, partial(ExitDrafter, target)), PROMPTS)[0]
        for backend, target in zip((TORCH, NATIVE), targets, strict=True)
    )
    for one, other in zip(native, plain, strict=True):
        same_round(one, other, 1e-10)


@pytest.mark.parametrize("batch", ["ragged", "context"])
@pytest.mark.parametrize("warp", [(0.0,), (1.0,), (0.8, 7, 0.9)], ids=str)
def test_generate_emits_what_the_cores_does(warp, batch):
    """Token by token, by both generators."""
    _, target, _ = side_of(NATIVE, "target alone", dtype=torch.float32)
    prompts, settings = BATCHES[batch]
    settings = {name: value for name, value in settings.items() if name != "batch_size"}
    for rng in (NATIVE.rng, KeyedRng):
        ours, theirs = (
            list(how(target, prompts, warp=NATIVE.warp(*warp), rng=rng(2), **settings))
            for how in (loop.generate, core.generate)
        )
        assert ours == theirs


def test_what_the_library_does_not_know_goes_through_the_cores_loop():
    """A plain warp or verifier, and a model of another kind; the answer is the same."""
    gpt, draft = tiny.gpt_pair()
    given = {
        "target": NativeGPT(gpt),
        "warp": NATIVE.warp(1.0),
        "verifier": NATIVE.verifier("rejection"),
    }
    emitted = []
    for change in ({}, {"warp": Warp(1.0)}, {"verifier": given["verifier"].decide}, {"target": gpt}):
        settings = given | change
        target = settings.pop("target")
        drafter = NativeDrafter(NativeGPT(draft))
        rng = NATIVE.rng(3)
        rounds = list(loop.observe(target, drafter, PROMPTS, k=3, max_new_tokens=10, rng=rng, **settings))
        assert isinstance(rounds[0], loop.NativeRound) == (not change)
        emitted.append([r.emitted for r in rounds])
    assert all(texts == emitted[0] for texts in emitted)


def test_seconds_in_forwards_are_a_part_of_the_whole():
    """They are added up, run after run, and a round's phases sum up to what it took."""
    backend, target, make = side_of(NATIVE, "model")
    forwards = loop.Forwards()
    how = partial(loop.observe, forwards=forwards)
    rounds, _ = decided((backend, target, make), PROMPTS, how=how, temperature=0.0)
    seconds = {phase: sum(r.seconds.get(phase, 0) for r in rounds) for phase in ("draft", "verify", "other")}
    assert 0 < forwards.draft < seconds["draft"] and 0 < forwards.target < seconds["verify"]
    assert seconds["other"] > 0 and "prefill" in rounds[0].seconds
