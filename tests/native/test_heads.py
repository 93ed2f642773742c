"""Native drafters against those of torch: the same tokens and distributions."""

from functools import partial

import pytest
import tiny
import torch
from native_models import ODD, WIDE, assert_same, block, needs_compiler, trained

from minispec import KeyedRng, Request
from minispec.core.model import RopeScaling
from minispec.core.rng import DraftingRng
from minispec.drafters.entry import Parts
from minispec.drafters.medusa import Medusa
from minispec.drafters.registry import DRAFTERS
from minispec.native.backend import NATIVE, TORCH
from minispec.native.drafter import Chain, Shape
from minispec.native.eagle3 import NativeEagle3GPT
from minispec.native.heads import (
    NativeFeatureDrafter,
    NativeMedusa,
    NativeMedusaDrafter,
    NativeParallelDrafter,
)
from minispec.native.model import NativeGPT

pytestmark = needs_compiler
PROMPTS = [[3], [1, 4, 1, 0], [2, 0, 3, 1, 4, 4, 0, 2, 1], [10, 9], [5, 5, 5]]
LONG = [[1, 2] * 17, [3, 4, 5] * 12, [7] * 39, [6] * 20]  # the context ends in them
RUNS = {
    "ragged, to their caps": (PROMPTS, {"max_new_tokens": 25}),
    "one token": ([[7]], {"max_new_tokens": 25}),
    "tokens of one each": ([[3], [4], [5]], {"max_new_tokens": 12}),
    "ends": (PROMPTS, {"eos": (4, 9)}),
    "queue": (PROMPTS, {"batch_size": 2, "eos": 4}),
    "requests": ([Request(p, 3 + 4 * i, 8) for i, p in enumerate(PROMPTS)], {"batch_size": 3}),
    "the context's end": (LONG, {"max_new_tokens": 60}),
    "the context's end, queue": (LONG, {"max_new_tokens": 60, "batch_size": 2}),
}
SIZES = {
    "small": {},
    "odd": ODD,
    "biases and norms": {"qkv_bias": True, "qk_norm": True, "rope_scaling": RopeScaling(4.0, 0.5, 2.0, 32)},
    "wide": WIDE,
}
# Each begins with that of the registry; with how many layers what was trained is made.
ONE_LAYER = "model exit eagle eagle3 parallel medusa medusa-tree tree".split()
NAMES = dict.fromkeys(ONE_LAYER, 1) | {
    "exit after 2 layers": 2,
    "eagle of 2 layers": 2,
    "parallel of 2 layers": 2,
}
CHAINS = [name for name in NAMES if "tree" not in name]


def sides_of(name, sizes=None, warp=None, dtype=torch.float64):
    """Returns both sides that are compared: a backend, a target, and what makes a drafter for it."""
    entry = name.split()[0]
    gpt, draft = (tiny.gpt(tiny.config(**(sizes or {}) | {"layers": n}), seed=n, dtype=dtype) for n in (3, 1))
    sides = []
    for backend in (TORCH, NATIVE):
        target = backend.model(gpt)
        own = None if warp is None else backend.warp(**warp)
        parts = Parts(target, backend.model(draft), gpt, lambda kind: trained(gpt, kind, NAMES[name]), own)
        make = backend.makers.get(entry, DRAFTERS[entry].make)
        if entry in ("exit", "eagle3"):
            drafter = make(parts, 4)
            sides.append((backend, drafter.target, lambda drafter=drafter: drafter))
        else:
            sides.append((backend, target, partial(make, parts, 4)))
    return sides


def settings_of(name, temperature):
    """Returns what a run of a drafter needs."""
    return {"trees": DRAFTERS[name.split()[0]].proposes_trees, "temperature": temperature}


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_tokens(name, run, temperature):
    """Ragged rows, queues, ends, at the context's end: drafts, their q, verdicts and texts."""
    prompts, changes = RUNS[run]
    sides = sides_of(name)
    kept = set()
    for seed, k in ((0, 1), (2, 5)):
        given = settings_of(name, temperature) | {"seed": seed, "k": k} | changes
        rounds = assert_same(sides, prompts, **given)
        kept |= {n for r in rounds for n in r.verdict.accepted.tolist()}
    assert len(kept) > 1 or len(prompts) == 1 or temperature == 0  # random heads are seldom right there


@pytest.mark.parametrize("sizes", ["odd", "biases and norms", "wide"])
@pytest.mark.parametrize("name", NAMES)
def test_other_sizes(name, sizes):
    """Which do not fill vectors, or are more than a panel."""
    sides = sides_of(name, SIZES[sizes])
    for temperature in (0.0, 1.0):
        assert_same(sides, PROMPTS[:3], max_new_tokens=12, **settings_of(name, temperature))


@pytest.mark.parametrize(
    "own", [None, {"temperature": 1.6}, {"temperature": 0.8, "top_k": 4}, {"temperature": 0.0}]
)
@pytest.mark.parametrize("name", NAMES)
def test_other_warps(name, own):
    """Top-k and top-p of the target's, and a warp of the drafter's own."""
    sides = sides_of(name, warp=own)
    given = settings_of(name, 0.8) | {"warp": {"top_k": 6, "top_p": 0.9}}
    assert_same(sides, PROMPTS, max_new_tokens=12, **given)


@pytest.mark.parametrize("name", CHAINS)
def test_fixed_noise(name):
    """With noise that is fixed, target and draft choose the same tokens where they can."""
    sides = sides_of(name)
    assert_same(sides, PROMPTS, rng=KeyedRng, rule="coupled", max_new_tokens=12)


@torch.inference_mode()
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", CHAINS)
def test_other_types_draft_by_what_was_trained(name, dtype):
    """The first draft's distributions are torch's up to rounding; weights of 16 bits stay what they are."""
    sides = sides_of(name, dtype=dtype)
    drafts = []
    for backend, target, make in sides:
        drafter = make()
        cache = target.new_cache(2)
        text = block(target, 2, 6)
        hidden = target.hidden(text, cache)
        drafter.start([row.tolist() + [1] for row in text], hidden)
        rng = DraftingRng(backend.rng(1), tiny.round_plan([1, 1], [7, 7]))
        drafts.append(drafter.propose(torch.tensor([1, 1]), 1, backend.warp(1.0), rng).probs.float())
    close = 1e-4 if dtype == torch.float32 else 0.1  # torch rounds each product to 16 bits
    torch.testing.assert_close(*drafts, rtol=0, atol=close)


# What cannot be.


@pytest.fixture(scope="module")
def parts():
    """A GPT, the native one, and what was trained on it."""
    gpt = tiny.gpt(tiny.config(), seed=2)
    kinds = ("eagle", "eagle3", "parallel", "medusa")
    return gpt, NativeGPT(gpt), {kind: trained(gpt, kind, 1) for kind in kinds}


def test_what_was_made_for_another_target_is_refused(parts):
    """Another width, vocabulary or type, layers of another size: one line each."""
    gpt, native, of = parts
    other = tiny.gpt(tiny.config(width=20, heads=5, kv_heads=1))
    more_heads = tiny.gpt(tiny.config(kv_heads=4))
    more_ids = tiny.gpt(tiny.config(vocab_size=13))
    widths = "16 numbers, and 20 are read"
    of_type = "must be of torch.float64 on a CPU, as the target is"
    for make, says in (
        (lambda: NativeMedusa(trained(other, "medusa", 1), native), widths),
        (lambda: NativeFeatureDrafter(trained(other, "eagle", 1), gpt, native), widths),
        (lambda: NativeParallelDrafter(trained(other, "parallel", 1), gpt, native), widths),
        (lambda: NativeEagle3GPT(trained(other, "eagle3"), gpt, native), widths),
        (lambda: NativeEagle3GPT(trained(gpt, "eagle3").float(), gpt, native), of_type),
        (lambda: NativeEagle3GPT(trained(more_ids, "eagle3"), gpt, native), "ids outside 0 to 10"),
        (lambda: NativeMedusa(trained(gpt, "medusa", 1).float(), native), of_type),
        (lambda: NativeFeatureDrafter(trained(gpt, "eagle", 1).float(), gpt, native), of_type),
        (lambda: NativeParallelDrafter(trained(gpt, "parallel", 1).float(), gpt, native), of_type),
        (lambda: NativeFeatureDrafter(trained(more_heads, "eagle", 1), gpt, native), "the sizes"),
        (lambda: NativeParallelDrafter(trained(more_heads, "parallel", 1), gpt, native), "the sizes"),
        (lambda: NativeMedusaDrafter(NativeMedusa(Medusa(16, 12, 2).double(), native), native), "12 tokens"),
    ):
        with pytest.raises(ValueError, match=says):
            make()
    for name in ("exit", "medusa", "medusa-tree", "eagle", "eagle3", "parallel", "tree"):
        with pytest.raises(ValueError):
            NATIVE.makers[name](Parts(gpt, gpt, gpt, of.get), 3)


def test_before_a_run_there_is_no_draft(parts):
    """One line each."""
    gpt, native, of = parts
    pending = torch.tensor([1])
    for name in ("model", "eagle", "eagle3", "parallel", "tree"):
        drafter = NATIVE.makers[name](Parts(native, native, gpt, of.get), 3)
        with pytest.raises((ValueError, TypeError), match="start\\(prompts, hidden\\) first|states must be"):
            drafter.propose(pending, 2, NATIVE.warp(1.0), tiny.drafting(NATIVE.rng(0), 1))


@torch.inference_mode()
def test_odd_arguments_of_heads_and_chains_are_refused(parts):
    """Ids, features, states, caches and trees that cannot be: one line each, and no cache has changed."""
    gpt, native, of = parts
    feature = NativeFeatureDrafter(of["eagle"], gpt, native).model
    parallel = NativeParallelDrafter(of["parallel"], gpt, native).model
    heads = NativeMedusa(of["medusa"], native)
    cache = feature.new_cache(1)
    states = torch.zeros(1, 16, dtype=torch.float64)
    numbers = torch.rand(9, dtype=torch.float64)
    one = torch.tensor([1])
    warp = NATIVE.warp(1.0)
    tree = Shape([0, 0, 1], [3])
    outside = "a token id outside 0 to 10"
    for call, says in (
        (lambda: feature.after(11 * one[None], states[None], cache), outside),
        (lambda: feature.after(-one[None], states[None], cache), outside),
        (lambda: feature.after(one[None], states, cache), r"features must be \[1, 1, 16\]"),
        (lambda: feature.after(one[None], states[None].float(), cache), "features must be of torch.float64"),
        (lambda: feature.after(one[None], states[None], native.new_cache(1)), "another model's"),
        (lambda: feature.layers.read(one[None], cache, (0, 1)), "have no embedding"),
        (lambda: parallel.with_masks(11 * one[None], cache, 2), outside),
        (lambda: parallel.with_masks(one[None], cache, 2), "another model's"),
        (lambda: parallel.after(states, 11 * one), outside),
        (lambda: parallel.after(states[:, :8], one), r"states must be \[1, 16\]"),
        (lambda: heads(states[:, :8]), "states must be of 16 numbers"),
        (lambda: heads(states.float()), "states must be of torch.float64"),
        (lambda: native.multiply(feature.fuse, states), "states must be of 32 numbers"),
        (lambda: feature.chain.draw(one, cache, 2, warp, numbers), "states must be a tensor"),
        (lambda: feature.chain.draw(one, cache, 41, warp, numbers, None, states), "the context is full"),
        (
            lambda: feature.chain.draw(one, native.new_cache(1), 2, warp, numbers, None, states),
            "another model's",
        ),
        (lambda: feature.chain.draw(one, cache, 3, warp, numbers, None, states, tree), "draft trees"),
        (lambda: parallel.chain.draw(one, None, 2, warp, numbers), "cache of its own"),
        (lambda: heads.chain.draw(one, None, 4, warp, numbers, None, states), "3 heads draft no more"),
        (lambda: heads.chain.draw(one, None, 2, warp, numbers, None, states[:, :8]), r"must be \[1, 16\]"),
        (
            lambda: heads.chain.draw(one, None, 2, warp, numbers, None, states, tree),
            "must have 2 tokens in 1",
        ),
        (
            lambda: heads.chain.draw(one, None, 4, warp, numbers, None, states, Shape([0, 1, 2, 3], [4])),
            "3 heads",
        ),
        (
            lambda: Chain(native).draw(
                one, native.new_cache(1), 3, warp, numbers, tree=Shape([0, 0, 1], [3, 3])
            ),
            "rows",
        ),
        (lambda: Shape([0, 2], [2]), "come before their children"),
        (lambda: Shape([1], [2]), "come before their children"),
        (lambda: Shape([0, 1, 0], [2]), "must ascend"),
        (lambda: Shape([-1], [2]), "come before their children"),
    ):
        with pytest.raises((ValueError, TypeError), match=says) as error:
            call()
        assert "\n" not in str(error.value)
    assert cache.row_lengths == (0,)
    assert Chain(native).draw(one, native.new_cache(1), 3, warp, numbers, tree=tree)[0].shape == (1, 3)
