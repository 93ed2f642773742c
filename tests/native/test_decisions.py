"""The native warp, random numbers and rules decide what the core's decide, with the same numbers."""

from dataclasses import replace
from itertools import product

import pytest
import torch
from drafts import random_dists, random_draft
from hypothesis import given, settings
from hypothesis import strategies as st
from native_models import needs_compiler
from tiny import place, round_plan

from minispec import SeededRng, Warp, verify_greedy, verify_rejection
from minispec.core.records import Draft
from minispec.core.rng import RoundRng
from minispec.native.decisions import NativeRng, NativeWarp, native_greedy, native_rejection
from minispec.native.drafter import DrawnDraft

pytestmark = needs_compiler
CPU = torch.device("cpu")
CLOSE = {torch.float64: 1e-14, torch.float32: 1e-6, torch.bfloat16: 0}
WARPS = [Warp(0.0), Warp(1.0), Warp(0.7), Warp(1.0, top_k=3), Warp(2.0, top_p=0.8)]


@pytest.mark.parametrize("warp", WARPS, ids=str)
@pytest.mark.parametrize("dtype", CLOSE, ids=str)
@pytest.mark.parametrize("vocab", [1, 3, 16, 37, 512])
def test_the_native_warp_gives_the_same_distribution(warp, dtype, vocab):
    """In every type and in vocabularies that fill vectors or do not; a token of probability 0 keeps it."""
    block = 3 * torch.randn(2, 3, vocab, generator=torch.Generator().manual_seed(vocab), dtype=torch.float64)
    block[0, :, vocab // 2 :] = float("-inf") if vocab > 1 else 0
    native = NativeWarp(warp.temperature, warp.top_k, warp.top_p)
    for logits in (block.to(dtype), block.to(dtype).repeat_interleave(2, -1)[..., ::2]):
        found = native(logits)
        wanted = warp(logits)
        assert found.dtype == wanted.dtype and torch.equal(found == 0, wanted == 0)
        torch.testing.assert_close(found, wanted, rtol=0, atol=CLOSE[dtype])


@pytest.mark.parametrize("vocab", [2, 16, 37])
@pytest.mark.parametrize("temperature", [0.0, 0.5, 1.0])
def test_it_takes_the_lowest_id_on_ties_and_refuses_damage(vocab, temperature):
    """NaN and plus infinity at any id, and nothing but minus infinity; in the last row of a block."""
    for first in range(vocab - 1):
        tied = torch.zeros(1, vocab)
        tied[0, first:] = 2
        assert int(NativeWarp(0.0)(tied).argmax()) == first and NativeWarp(0.0)(tied).sum() == 1
    for position, bad in product(range(vocab), (float("nan"), float("inf"))):
        logits = torch.zeros(2, vocab)
        logits[1, position] = bad
        with pytest.raises(ValueError, match="not finite"):
            NativeWarp(temperature)(logits)
    with pytest.raises(ValueError, match="not finite"):
        NativeWarp(temperature)(torch.full((1, vocab), float("-inf")))


@settings(max_examples=60, deadline=None)
@given(rows=st.integers(1, 4), size=st.integers(2, 40), seed=st.integers(0, 10**6), masked=st.booleans())
def test_the_native_generator_makes_the_same_draws(rows, size, seed, masked):
    """Draws and tests one after the other, with certain outcomes and masked rows among them; both types."""
    dists = random_dists((rows, size), seed, (torch.float32, torch.float64)[seed % 2])
    dists[0] = torch.nn.functional.one_hot(torch.tensor(seed % size), size)  # certain: draws nothing
    each = torch.arange(rows)
    where = place(each, live=each % 2 == seed % 2 if masked else None)
    probs = torch.tensor([0.0, 1.0, 0.3, 0.9])[:rows].double()
    plain = SeededRng(seed)
    native = NativeRng(seed)
    for _ in range(4):
        assert torch.equal(native.categorical(dists, where), plain.categorical(dists, where))
        assert torch.equal(native.bernoulli(probs, where), plain.bernoulli(probs, where))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rest", [1e-9, 1e-17, 1e-25])
def test_a_token_that_is_all_but_certain_is_drawn_whatever_else_is_possible(rest, dtype):
    """At a low temperature the others keep a probability that rounds away next to 1, also before it."""
    dists = torch.tensor([[rest, 1.0, rest], [rest, rest, 1.0]], dtype=dtype)
    for seed in range(50):
        assert NativeRng(seed).categorical(dists).tolist() == [1, 2]


FORMS = {  # of a draft and target_probs: as they are, or what the library cannot read as it is
    "as it is": lambda draft, p: (draft, p),
    "two types": lambda draft, p: (replace(draft, probs=draft.probs.double()), p),
    "gaps in tokens": lambda draft, p: (replace(draft, tokens=draft.tokens.t().contiguous().t()), p),
    "gaps in p": lambda draft, p: (draft, p.repeat_interleave(2, -1)[..., ::2]),
}


@settings(max_examples=200, deadline=None)
@given(
    rows=st.integers(1, 4),
    k=st.integers(0, 4),
    vocab=st.sampled_from([2, 5, 40]),
    seed=st.integers(0, 10**6),
    short=st.booleans(),
    budget=st.sampled_from(["open", "closed", None]),
    form=st.sampled_from(sorted(FORMS)),
    generator=st.sampled_from([NativeRng, NativeRng, SeededRng]),
)
def test_native_rules_give_the_same_verdict_and_use_the_same_numbers(
    rows, k, vocab, seed, short, budget, form, generator
):
    """On drafts and budgets of all lengths; what comes next from the seed is the same too."""
    made, target_probs = random_draft(rows, k, vocab, seed, short, (torch.float32, torch.float64)[seed % 2])
    draft, p = FORMS[form](made, target_probs)
    budgets = [(seed + row) % (k + 2) if budget == "closed" else k + 1 for row in range(rows)]
    for plain, native in ((verify_greedy, native_greedy), (verify_rejection, native_rejection)):
        rngs = SeededRng(seed), generator(seed)
        one, other = (
            rule(draft, p, RoundRng(rng, round_plan(budgets, [3] * rows)) if budget else rng)
            for rule, rng in zip((plain, native), rngs, strict=True)
        )
        assert torch.equal(one.accepted, other.accepted) and torch.equal(one.token, other.token)
        coin = torch.full((5,), 0.5, dtype=torch.float64)
        assert torch.equal(rngs[0].bernoulli(coin), rngs[1].bernoulli(coin))


def test_where_nothing_is_left_of_p_the_next_token_is_from_p():
    """p = q but for what rounding does to a test: the residual is zero, and p itself is the limit."""
    p = torch.tensor([[[1.0, 0.0], [0.5, 0.5]]])
    draft = DrawnDraft(torch.tensor([[1]]), p[:, :1])  # a token that neither could have drawn
    verdict = native_rejection(draft, p, NativeRng(0))
    assert verdict.accepted.tolist() == [0] and verdict.token.tolist() == [0]
    nan = DrawnDraft(torch.tensor([[0]]), torch.full((1, 1, 2), float("nan")))
    with pytest.raises(ValueError, match="not finite"):
        native_rejection(nan, p, NativeRng(0))


@pytest.mark.parametrize("rule", [native_greedy, native_rejection])
def test_a_draft_that_cannot_be_is_refused(rule):
    """A token of another vocabulary, a length beyond K: one line instead of memory that is not ours."""
    draft, p = random_draft(1, 2, 5, seed=0)
    beyond = torch.tensor([[0, 5]])
    for tokens, length in ((beyond, 2), (-1 - beyond, 2), (0 * beyond, 3)):
        bad = DrawnDraft(tokens, draft.probs, torch.tensor([length]))  # what `Draft` refuses itself
        with pytest.raises(ValueError, match="a token id outside 0 to 4, or a length outside 0 to 2"):
            rule(bad, p, NativeRng(0))
    with pytest.raises(TypeError, match="needs a Draft"):
        rule("draft", p, NativeRng(0))
    padded = Draft(beyond, draft.probs, torch.tensor([1]))  # what lies after the length is not looked at
    assert int(rule(padded, p, NativeRng(0)).accepted) <= 1
