"""What the library must not get is refused in one line that names it, and no cache has changed."""

import copy
import pickle

import pytest
import tiny
import torch
from native_models import block, drawn, exit_of, needs_compiler, trained

from minispec.core.model import Tree
from minispec.drafters.entry import Parts
from minispec.drafters.exit import Exit, ExitDrafter
from minispec.drafters.medusa import Medusa
from minispec.native.backend import NATIVE
from minispec.native.drafter import Chain, Shape
from minispec.native.eagle3 import NativeEagle3GPT
from minispec.native.exit import NativeExitGPT
from minispec.native.heads import (
    NativeFeatureDrafter,
    NativeMedusa,
    NativeMedusaDrafter,
    NativeParallelDrafter,
)
from minispec.native.model import NativeGPT

pytestmark = needs_compiler
REAL = torch.float64
ONE = torch.tensor([1])
OUTSIDE = "a token id outside 0 to 10"
FULL = "the context is full"


def refused_each(calls):
    """Asserts that each call raises ValueError or TypeError in one line that names the thing."""
    for number, (call, says) in enumerate(calls):
        with pytest.raises((ValueError, TypeError), match=says or None) as error:
            call()
        assert "\n" not in str(error.value), number


def misshapen(name):
    """Returns a GPT one of whose matrices has another size than its config says."""
    model = tiny.gpt(tiny.config())
    model.get_submodule(name).weight = torch.nn.Parameter(torch.zeros(1, 1).double())
    return model


def test_what_is_no_gpt_of_its_config():
    """Another type, device or class, or weights of other sizes; threads; and native models are not copied."""
    model = tiny.gpt(tiny.config())
    refused_each(
        [
            (lambda: NativeGPT(tiny.gpt(tiny.config()).half()), "float32, float64, bfloat16 or int8"),
            (lambda: NativeGPT(tiny.gpt(tiny.config()).to("meta")), "on a CPU"),
            (lambda: NativeGPT(model, kept=torch.int16), "int16"),
            (lambda: NativeGPT(NativeGPT(model)), "not a NativeGPT"),
            (lambda: NativeGPT(None), "not a NoneType"),
            (lambda: NativeGPT(misshapen("lm_head")), "config"),
            (lambda: NativeGPT(misshapen("layers.0.mlp.up_proj")), "config"),
            (lambda: copy.deepcopy(NativeGPT(model)), "cannot be copied"),
            (lambda: pickle.dumps(NativeGPT(model)), "cannot be copied"),
            (lambda: NativeGPT(model, threads=0), "at least 1 thread, not 0"),
            (lambda: NativeGPT(model, threads=-1), "thread"),
            (lambda: NativeGPT(model, threads=1.5), ""),
        ]
    )


def lying(cache):
    """Returns a copy of a cache that says that it has two rows more."""
    lies = copy.copy(cache)
    lies.rows += 2
    return lies


def test_other_caches_strange_ids_and_a_full_context():
    """Of forwards, of draws and of single layers."""
    model = tiny.gpt(tiny.config(max_length=8))
    ours = NativeGPT(model)
    cache = ours.new_cache(1)
    other = model.new_cache(1)
    ours(block(model, 1, 7), cache)
    number = torch.rand(1, dtype=REAL)
    refused_each(
        [
            (lambda: ours(block(model, 1, 2), other), "cache of its own"),
            (lambda: ours(11 * ONE[None], cache), OUTSIDE),
            (lambda: ours(-ONE[None], cache), OUTSIDE),
            (lambda: drawn(ours, 11 * ONE, cache, 1, 1.0, number), OUTSIDE),
            (lambda: drawn(ours, -ONE, cache, 1, 1.0, number), OUTSIDE),
            (lambda: ours(block(model, 2, 1), cache), "1 rows, the tokens 2"),
            (lambda: ours(block(model, 1, 2), cache), FULL),
            (lambda: drawn(ours, ONE, other, 1, 1.0, number), "cache of its own"),
            (lambda: drawn(ours, ONE, cache, 2, 1.0, number.repeat(2)), FULL),
            (lambda: drawn(ours, ONE, cache, 10**30, 1.0, number), FULL),
            (lambda: drawn(ours, ONE, cache, 1, 1.0, number[:0]), "numbers are needed"),
            (lambda: drawn(ours, ONE, cache, 1, 1.0, number.float()), "torch.float64"),
            (lambda: drawn(ours, ONE, cache, 1, 1.0, number - 1), r"must lie in \[0, 1\)"),
            (lambda: ours(block(model, 3, 1), lying(cache)), "for other layers"),
            (lambda: drawn(ours, ONE, None, 1, 1.0, number), "cache of its own"),
            (lambda: drawn(ours, ONE, ours.cache_of(1, 1), 1, 1.0, number), "for other layers"),
            (lambda: ours.read(ONE[None], ours.cache_of(3, 1), (-1, 2)), "no layers from -1 to 2"),
            (lambda: ours.read(ONE[None], ours.cache_of(1, 1), (2, 3)), "no layers from 2 to 3"),
            (lambda: ours.head(torch.zeros(1, 1, 15).double()), "hidden"),
            (lambda: cache.begin(2), "new_cache"),
            (lambda: cache.place(2, other, 0), "no row|same native model"),
            (lambda: cache.place(0, ours.cache_of(1, 1), 0), "same native model"),
        ]
    )
    assert cache.row_lengths == (7,)


def test_trees_and_slots_that_cannot_be():
    """Positions and masks of another shape or type; slots to keep that do not ascend, or are none."""
    model = tiny.gpt(tiny.config(max_length=12))
    ours = NativeGPT(model)
    cache = ours.new_cache(2)
    ours(block(model, 2, 5), cache)
    positions, mask = Tree.after(torch.tensor([5, 5]), torch.tensor([[0, 0]] * 2))
    tokens = block(model, 2, 3)
    trees = [
        (Tree(positions[:1], mask), "positions"),
        (Tree(positions.int(), mask), "positions"),
        (Tree(positions, mask[:, :2]), "mask"),
        (Tree(positions, mask.long()), "mask"),
        (Tree(positions, mask[:, :, 1:]), "mask"),
        (Tree(positions - 9, mask), "positions"),
    ]
    slots = [[0], [5]], [[1, 0], [0]], [[0, 0], [0]], [[-1], [0]], [[0]], [[0], [0], [0]], [[0.5], [0]]
    refused_each(
        [
            *((lambda tree=tree: ours.hidden(tokens, cache, tree), says) for tree, says in trees),
            (lambda: ours.hidden(tokens, tree=Tree(positions, mask)), "a tree needs a cache"),
            *((lambda kept=kept: cache.gather(kept), "ascend|zip|integer") for kept in slots),
            (lambda: Shape([0, 2], [2]), "come before their children"),
            (lambda: Shape([1], [2]), "come before their children"),
            (lambda: Shape([0, 1, 0], [2]), "must ascend"),
            (lambda: Shape([-1], [2]), "come before their children"),
        ]
    )
    assert cache.row_lengths == (5, 5)


KINDS = {
    "exit": lambda module, gpt, native: NativeExitGPT(native, module),
    "medusa": lambda module, gpt, native: NativeMedusa(module, native),
    "eagle": NativeFeatureDrafter,
    "eagle3": NativeEagle3GPT,
    "parallel": NativeParallelDrafter,
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_made_for_another_target(kind):
    """Another width, or another type."""
    gpt = tiny.gpt(tiny.config(), seed=2)
    native = NativeGPT(gpt)
    wider = tiny.gpt(tiny.config(width=20, heads=5, kv_heads=1))
    make = KINDS[kind]
    refused_each(
        [
            (lambda: make(trained(wider, kind), gpt, native), "16 numbers, and 20 are read"),
            (lambda: make(trained(gpt, kind).float(), gpt, native), "torch.float64"),
        ]
    )


@torch.inference_mode()
def test_odd_arguments_of_heads_and_chains():
    """Ids, features, states, caches and trees that cannot be."""
    gpt = tiny.gpt(tiny.config(), seed=2)
    native = NativeGPT(gpt)
    more_heads = tiny.gpt(tiny.config(kv_heads=4))
    feature = NativeFeatureDrafter(trained(gpt, "eagle"), gpt, native).model
    parallel = NativeParallelDrafter(trained(gpt, "parallel"), gpt, native).model
    heads = NativeMedusa(trained(gpt, "medusa"), native)
    cache = feature.new_cache(1)
    states = torch.zeros(1, 16, dtype=REAL)
    rest = (NATIVE.warp(1.0), torch.rand(9, dtype=REAL), None, states)
    tree = Shape([0, 0, 1], [3])
    twelve = NativeMedusa(Medusa(16, 12, 2).double(), native)
    strange = trained(tiny.gpt(tiny.config(vocab_size=13)), "eagle3")
    refused_each(
        [
            (lambda: NativeFeatureDrafter(trained(more_heads, "eagle"), gpt, native), "the sizes"),
            (lambda: NativeParallelDrafter(trained(more_heads, "parallel"), gpt, native), "the sizes"),
            (lambda: NativeMedusaDrafter(twelve, native), "12 tokens"),
            (lambda: NativeEagle3GPT(strange, gpt, native), "ids outside 0 to 10"),
            (lambda: NativeExitGPT(native, Exit(16, 2).double()), "from 1 to 1"),
            (lambda: feature.after(11 * ONE[None], states[None], cache), OUTSIDE),
            (lambda: feature.after(ONE[None], states, cache), "features"),
            (lambda: feature.after(ONE[None], states[None].float(), cache), "features"),
            (lambda: feature.after(ONE[None], states[None], native.new_cache(1)), "another model's"),
            (lambda: feature.layers.read(ONE[None], cache, (0, 1)), "no embedding"),
            (lambda: parallel.with_masks(11 * ONE[None], cache, 2), OUTSIDE),
            (lambda: parallel.with_masks(ONE[None], cache, 2), "another model's"),
            (lambda: parallel.after(states, 11 * ONE), OUTSIDE),
            (lambda: parallel.after(states[:, :8], ONE), "states"),
            (lambda: heads(states[:, :8]), "states"),
            (lambda: heads(states.float()), "states"),
            (lambda: feature.chain.draw(ONE, cache, 2, *rest[:2]), "states"),
            (lambda: feature.chain.draw(ONE, cache, 41, *rest), FULL),
            (lambda: feature.chain.draw(ONE, native.new_cache(1), 2, *rest), "another model's"),
            (lambda: feature.chain.draw(ONE, cache, 3, *rest, tree), "trees"),
            (lambda: parallel.chain.draw(ONE, None, 2, *rest[:2]), "cache of its own"),
            (lambda: heads.chain.draw(ONE, None, 4, *rest), "3 heads"),
            (lambda: heads.chain.draw(ONE, None, 2, *rest[:3], states[:, :8]), "must be"),
            (lambda: heads.chain.draw(ONE, None, 2, *rest, tree), "2 tokens in 1"),
            (
                lambda: Chain(native).draw(
                    ONE, native.new_cache(1), 3, *rest[:2], tree=Shape([0, 0, 1], [3, 3])
                ),
                "rows",
            ),
        ]
    )
    assert cache.row_lengths == (0,)


def test_before_a_run_there_is_no_draft():
    """Nor after a draft that was never verified; an exit's cache is the target's, which begins anew."""
    gpt = tiny.gpt(tiny.config(layers=3), seed=2)
    native = NativeGPT(gpt)
    parts = Parts(native, native, gpt, lambda kind: trained(gpt, kind))
    drafters = [NATIVE.makers[name](parts, 3) for name in ("model", "eagle", "eagle3", "parallel", "tree")]

    def propose(drafter, k=2):
        return drafter.propose(ONE, k, NATIVE.warp(1.0), tiny.drafting(NATIVE.rng(0), 1))

    early = NativeExitGPT(native, exit_of(gpt, 2))
    exit = ExitDrafter(early)
    first = r"start\(prompts|states must be"
    refused_each((lambda drafter=drafter: propose(drafter), first) for drafter in (*drafters, exit))
    text = block(gpt, 1, 36)
    cache = early.new_cache(1)
    tiny.begin(exit, [[1]])
    early.hidden(text, cache)
    refused_each([(lambda: propose(exit, 5), FULL), (lambda: propose(exit, 0), "K of at least 1")])
    propose(exit, 3)
    refused_each([(lambda: propose(exit, 3), "never verified")])
    cache = early.new_cache(1)
    tiny.begin(exit, [[1]])
    again = early.head(early.hidden(text, cache))
    torch.testing.assert_close(again, gpt(text), rtol=0, atol=1e-11)
