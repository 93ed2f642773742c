"""Native models, caches, runs and threads side by side, and contexts, numbers and logits at their ends."""

import copy
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import tiny
import torch
from native_models import decided, drawn, needs_compiler, small_pair

from minispec.native.backend import NATIVE
from minispec.native.decisions import NativeRng
from minispec.native.model import NativeGPT

pytestmark = needs_compiler


def test_a_cache_belongs_to_its_model_also_when_that_is_gone():
    """Another model gets the memory, at the same address: the cache is refused, a copy of it as well."""
    plain, _ = small_pair()
    text = torch.tensor([[1, 2]])
    caches = {}
    other = NativeGPT(plain)
    while other.packed.address not in caches:
        assert len(caches) < 300, "no model was made where another was"
        cache = other.new_cache(1)
        other(text, cache)
        caches[other.packed.address] = cache
        del other
        other = NativeGPT(plain)  # with the same weights, even
    cache = caches[other.packed.address]
    for held in (cache, copy.deepcopy(cache)):
        for call in (
            lambda held=held: other(text, held),
            lambda held=held: drawn(other, text[:, 0], held, 1, 0.0, torch.rand(0).double()),
            lambda held=held: other.new_cache(1).place(0, held, 0),
            lambda held=held: held.place(0, other.new_cache(1), 0),
            lambda held=held: held.gather([[1]]),
        ):
            with pytest.raises(ValueError, match="another model's|same native model only|model that is gone"):
                call()
    assert cache.row_lengths == (2,)


@torch.inference_mode()
def test_every_drafted_token_has_a_probability():
    """At both ends of the interval of numbers and between, where many ids have the probability 0."""
    most = 1 - 2**-53
    numbers = torch.tensor([0.0, 5e-324, 1e-17, 0.5, 1 - 1e-9, most] * 37, dtype=torch.float64)
    tokens = torch.arange(37).repeat_interleave(2)
    zeros = 0
    for dtype in (torch.float32, torch.float64):
        ours = NativeGPT(tiny.gpt(tiny.config(vocab_size=37), seed=1, dtype=dtype))
        for temperature in (0.0, 1e-3, 0.02, 0.2, 1.0):
            ids, probs, _ = drawn(ours, tokens, ours.new_cache(74), 3, temperature, numbers)
            assert bool((probs.gather(2, ids[..., None]) > 0).all())
            zeros += int((probs == 0).sum())
            rng = NativeRng(0)
            rng._stream = numbers
            # The first ids and the last have none either.
            dists = torch.nn.functional.pad(probs[:, 0], (9, 9))
            assert bool((dists.gather(1, rng.categorical(dists)[:, None]) > 0).all())
    assert zeros > 10_000


def test_a_draft_from_what_is_no_distribution_is_refused_and_changes_nothing():
    """NaN in one row of two, plus infinity, nothing but minus infinity: the warp's line, no number used."""
    model = tiny.gpt(tiny.config(), seed=2)
    with torch.inference_mode():
        signs = model.hidden(torch.arange(11)[:, None])[:, 0, 0].sign().tolist()
        model.embed_tokens.weight[4] = float("nan")
        some = NativeGPT(model)
        model.embed_tokens.weight[4] = 0
        model.lm_head.weight[:, 0] = float("-inf")  # times the first number of the hidden state
        every = NativeGPT(model)
    cases = ((some, [1, 4]), (every, [signs.index(1.0)]), (every, [signs.index(-1.0)]))
    for ours, pending in cases:
        drafter = NATIVE.drafter(ours)
        rng = NATIVE.rng(3)
        tiny.begin(drafter, [[token] for token in pending])
        for temperature in (0.0, 1.0):
            with pytest.raises(ValueError, match="logits are not finite"):
                drafter.propose(
                    torch.tensor(pending), 2, NATIVE.warp(temperature), tiny.drafting(rng, len(pending))
                )
        assert drafter.cache_lengths == (0,) * len(pending)
        assert torch.equal(rng.lend(8), NATIVE.rng(3).lend(8))
    drafter = NATIVE.drafter(some)
    tiny.begin(drafter, [[1], [2]])
    assert (
        drafter.propose(torch.tensor([1, 2]), 2, NATIVE.warp(0.0), tiny.drafting(rng, 2)).k == 2
    )  # the model goes on


def texts_of(pair, seed):
    """Returns what a run of two ragged rows, one of one row and a queue emit, round by round."""
    side = NATIVE, pair[0], partial(NATIVE.drafter, pair[1])
    queues = ([[3], [1, 4, 1, 0]], None), ([[2, 0, 3, 1, 4]], None), ([[5], [6, 7], [8], [9, 10, 1]], 2)
    return [
        [
            (r.emitted, r.draft.tokens.tolist(), r.finish)
            for r in decided(side, prompts, seed=seed, batch_size=n)[0]
        ]
        for prompts, n in queues
    ]


@pytest.mark.parametrize("threads", [1, 2])
def test_runs_in_several_threads_over_one_pair_are_what_each_is_alone(threads, two_threads):
    """Four threads of Python share a target and a draft; forwards of one thread, or shared by two."""
    torch.set_num_threads(threads)
    pair = [NativeGPT(model, threads=threads) for model in tiny.gpt_pair(max_length=48)]
    alone = [texts_of(pair, seed) for seed in range(4)]
    assert alone[0] != alone[1]
    for _ in range(3):
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(partial(texts_of, pair), range(4))) == alone


def test_another_default_device_changes_nothing():
    """Where tensors are made elsewhere unless something else is asked for, the library gets its own."""
    plain, _ = small_pair()
    text = torch.tensor([[1, 2]])
    numbers = torch.rand(2, dtype=torch.float64)

    def results():
        ours = NativeGPT(plain)
        dists = NATIVE.warp(1.0)(ours(text))[0]
        ids, probs, _ = drawn(ours, text[:, 1], ours.new_cache(1), 2, 1.0, numbers)
        return [dists, ids, probs, NATIVE.rng(1).categorical(dists)]

    here = results()
    with torch.device("meta"):
        there = results()
    assert all(map(torch.equal, here, there))
