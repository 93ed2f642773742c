"""The exit on the native backend: its proof, its bits, what it refuses; `test_heads.py` has its texts."""

import copy
from functools import partial

import pytest
import tiny
import torch
from native_models import assert_same, block, exit_of, needs_compiler

from minispec import Warp, generate, load_pair
from minispec.core.rng import DraftingRng
from minispec.drafters.exit import EarlyExitGPT, Exit, ExitDrafter
from minispec.evidence.proof.distributions import (
    exact_distributions,
    largest_error,
    speculative_distributions,
)
from minispec.evidence.proof.families import family_cases
from minispec.io.heads import load_heads
from minispec.native.backend import NATIVE, TORCH
from minispec.native.drafter import Chain
from minispec.native.exit import NativeExitGPT
from minispec.native.model import NativeGPT

pytestmark = needs_compiler
CPU = torch.device("cpu")
TEXT = [[3], [1, 4, 1, 0], [2, 0, 3, 1, 4, 4, 0, 2, 1], [10, 9], [5, 5, 5]]
PROVED = [case for family in ("self_drafting", "waiting") for case in family_cases(family, 0, 0)]
PROVED = [case for case in PROVED if case.drafts_with == "exit"]


def gpt(dtype=torch.float64, **sizes):
    """Returns a GPT of three layers."""
    return tiny.gpt(tiny.config(layers=3, **sizes), seed=6, dtype=dtype).requires_grad_(False)


@pytest.fixture(scope="module")
def model():
    """Such a GPT in float64."""
    return gpt()


def sides_of(model, exit):
    """Returns the two sides that are compared: a backend, an early target, and what makes a drafter."""
    sides = (TORCH, EarlyExitGPT(model, exit)), (NATIVE, NativeExitGPT(NativeGPT(model), exit))
    return [(backend, target, partial(ExitDrafter, target)) for backend, target in sides]


# The same as on the torch backend.


@pytest.mark.parametrize("case", PROVED, ids=lambda case: case.name)
def test_it_is_lossless_branch_by_branch(case, monkeypatch):
    """Each branch at both ends of its numbers, with drafts in C++, against the chain rule."""
    drawn = []
    real = Chain.draw
    monkeypatch.setattr(Chain, "draw", lambda *a: (drawn.append(a), real(*a))[1])
    moved = case.on(NATIVE)
    assert isinstance(moved.target, NativeExitGPT) and moved.draft is moved.target
    found = speculative_distributions(moved).distributions
    assert max(map(largest_error, found, exact_distributions(case))) < 1e-12
    assert len(drawn) > 2


@pytest.mark.parametrize("rule", ["greedy", "rejection"])
def test_the_shipped_exit_gives_the_same_tokens(rule):
    """In float64, side by side; greedy texts are those of the target alone."""
    pair = load_pair("stories", dtype=torch.float64)
    exit, _ = load_heads(pair, "exit")
    prompts = [prompt[: 32 - 3 * row] for row, prompt in enumerate(pair.info["prompts"][:2])]
    temperature = float(rule != "greedy")
    rounds = assert_same(sides_of(pair.target, exit), prompts, rule=rule, temperature=temperature, k=6)
    if rule == "greedy":
        steps = generate(pair.target, prompts, max_new_tokens=30, warp=Warp(0.0), rng=TORCH.rng(0))
        assert tiny.outcome(rounds, 2)[0] == [list(text) for text in zip(*steps, strict=True)]


# The same bits.


@torch.inference_mode()
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_what_was_read_ahead_gives_the_same_bits(dtype, two_threads):
    """Logits by way of the streams, and all that is read later, are those of a model that read it at once.

    So are drafts by one thread and by two.
    """
    model = gpt(dtype, vocab_size=300, width=160, ffn=200)
    plain = NativeGPT(model, threads=1)
    text = block(model, 3, 8)
    drafts = []
    for threads in (1, 2):
        early = NativeExitGPT(NativeGPT(model, threads=threads), exit_of(model, 2))
        drafter = ExitDrafter(early)
        caches = early.new_cache(3), plain.new_cache(3)
        tiny.begin(drafter, [[0]])
        for target, cache in zip((early, plain), caches, strict=True):
            target.hidden(text, cache)
            cache.truncate([8, 2, 4])
        for seed in range(8):
            drafting = DraftingRng(NATIVE.rng(seed), tiny.round_plan([4, 4, 2], [9, 3, 5]))
            draft = drafter.propose(text[:, seed], 4, NATIVE.warp(1.0), drafting)
            drafts += [draft.tokens, draft.probs]
            tokens = torch.cat([text[:, seed, None], draft.tokens], dim=1)
            found, wanted = (
                target.hidden(tokens, cache) for target, cache in zip((early, plain), caches, strict=True)
            )
            assert torch.equal(found, wanted) and caches[0].row_lengths == caches[1].row_lengths
            for cache in caches:
                cache.truncate([n - 2 for n in cache.row_lengths])
    half = len(drafts) // 2
    assert all(map(torch.equal, drafts[:half], drafts[half:]))


@torch.inference_mode()
@pytest.mark.parametrize("eps", [1e-5, 0.5])
def test_the_exits_norm_has_its_own_epsilon(model, eps):
    """Which need not be the model's."""
    exit = exit_of(model, 2)
    exit.norm.eps = eps
    assert_same(sides_of(model, exit), TEXT)


# What cannot be.


def test_exits_that_do_not_fit_are_refused(model):
    """Another width, no layer left, another type or size: one line each; and it cannot be copied."""
    ours = NativeGPT(model)
    other = exit_of(model, 2)
    other.norm.weight = torch.nn.Parameter(torch.ones(15).double())
    for exit, says in (
        (Exit(20, 1).double(), "16 numbers, and 20 are read"),
        (Exit(16, 3).double(), "it must be from 1 to 2"),
        (Exit(16, 1), "must be of torch.float64 on a CPU, as the target is"),
        (other, "the sizes that the target's config says"),
    ):
        with pytest.raises(ValueError, match=says):
            NativeExitGPT(ours, exit)
    early = NativeExitGPT(ours, exit_of(model, 1))
    with pytest.raises(TypeError, match="cannot be copied"):
        copy.copy(early)


def test_a_draft_needs_a_run_and_space(model):
    """Before a run, in another's cache, at the end of the context: one line, and the cache is as before."""
    early = NativeExitGPT(NativeGPT(model), exit_of(model, 1))
    drafter = ExitDrafter(early)
    pending = torch.tensor([1])
    with pytest.raises(ValueError, match="start\\(prompts\\) follows"):
        drafter.propose(pending, 2, NATIVE.warp(1.0), tiny.drafting(NATIVE.rng(0), 1))
    with pytest.raises(ValueError, match="the target reads the prompts first"):
        early.read_ahead(early.new_cache(1), pending)
    cache = early.new_cache(1)
    tiny.begin(drafter, [[1]])
    early.hidden(block(model, 1, 36), cache)
    numbers = torch.rand(9, dtype=torch.float64)
    streams = torch.zeros(1, 5, 16, dtype=torch.float64)
    warp = NATIVE.warp(1.0)
    for held, k, given, says in (
        (cache.first, 5, streams, "the context is full"),
        (cache.first, 10**30, streams, "the context is full"),
        (cache.later, 4, streams, "for other layers"),
        (cache, 4, streams, "cache of its own"),
        (None, 4, streams, "cache of its own"),
        (cache.first, 3, streams, r"states must be \[1, 4, 16\]"),
        (cache.first, 4, None, "states must be a tensor"),
        (cache.first, 4, streams.float(), "states must be of torch.float64"),
        (cache.first, 4, streams.transpose(1, 2).contiguous().transpose(1, 2), "without gaps"),
    ):
        with pytest.raises((ValueError, TypeError), match=says):
            early.chain.draw(pending, held, k, warp, numbers, None, given)
    for k in (5, 10**30, 0, -1):
        with pytest.raises(ValueError, match="the context is full|K of at least 1"):
            drafter.propose(pending, k, warp, tiny.drafting(NATIVE.rng(0), 1))
    assert cache.row_lengths == cache.first.row_lengths == (36,) and not cache.streams
    draft = drafter.propose(pending, 3, warp, tiny.drafting(NATIVE.rng(0), 1))
    assert early.hidden(torch.cat([pending[:, None], draft.tokens], 1), cache).shape == (1, 4, 16)
    assert cache.row_lengths == (40,)


def test_a_run_that_was_given_up_leaves_nothing(model):
    """A draft that was never verified: another is refused, as in torch, and another run begins anew."""
    early = NativeExitGPT(NativeGPT(model), exit_of(model, 2))
    drafter = ExitDrafter(early)
    text = block(model, 1, 9)
    cache = early.new_cache(1)
    tiny.begin(drafter, [[1]])
    early.hidden(text, cache)
    drafter.propose(text[:, 0], 3, NATIVE.warp(1.0), tiny.drafting(NATIVE.rng(1), 1))
    with pytest.raises(ValueError, match="the last draft was never verified"):
        drafter.propose(text[:, 0], 3, NATIVE.warp(1.0), tiny.drafting(NATIVE.rng(2), 1))
    cache = early.new_cache(1)
    tiny.begin(drafter, [[1]])
    torch.testing.assert_close(early.head(early.hidden(text, cache)), model(text), rtol=0, atol=1e-11)
