"""The native warp, random numbers and rules decide what the core's decide, with the same numbers."""

import ctypes
import random
from dataclasses import replace
from itertools import product

import pytest
import torch
from drafts import random_dists, random_draft
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from native_models import needs_compiler
from tiny import place, round_plan

from minispec import KeyedRng, SeededRng, Warp
from minispec.core.records import Draft
from minispec.core.rng import RoundRng
from minispec.native.decisions import (
    NATIVE_CHAINS,
    NATIVE_TREES,
    NativeRng,
    NativeWarp,
    NoiseRecord,
    inputs_of,
    native_block,
    native_rejection,
    numbers_record,
)
from minispec.native.drafter import DrawnDraft
from minispec.native.library import native_functions
from minispec.native.structs import Rule, SourceRecord
from minispec.verifiers.registry import CHAINS, TREES

pytestmark = needs_compiler
CPU = torch.device("cpu")
CLOSE = {torch.float64: 1e-14, torch.float32: 1e-6, torch.bfloat16: 0}
WARPS = [Warp(0.0), Warp(1.0), Warp(0.7), Warp(1.0, top_k=3), Warp(2.0, top_p=0.8), Warp(0.7, 9, 0.6)]
# Each verifier of the core that the library has, and the library's.
PAIRS = [(CHAINS[name], ours) for name, ours in NATIVE_CHAINS.items()]
PAIRS += [(TREES[name], ours) for name, ours in NATIVE_TREES.items()]


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


@examples(150)
@given(
    vocab=st.sampled_from([1, 2, 3, 17, 400, 5000]),
    seed=st.integers(0, 10**6),
    tied=st.booleans(),
    temperature=st.sampled_from([0.3, 1.0, 2.0]),
    top_k=st.sampled_from([None, 1, 2, 40, 4999, 10**30]),
    top_p=st.sampled_from([None, 1e-12, 0.25, 0.5, 0.9, 0.99, 1.0]),
)
def test_top_k_and_top_p_keep_the_same_ids(vocab, seed, tied, temperature, top_k, top_p):
    """Also where many ids are equally probable: then the lowest ones stay; and where some are impossible."""
    logits = 2 * torch.randn(2, vocab, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    if tied:
        logits = logits.round()
        logits[0, 1::3] = float("-inf")
    wanted = Warp(temperature, top_k, top_p)(logits)
    found = NativeWarp(temperature, top_k, top_p)(logits)
    assert torch.equal(found > 0, wanted > 0)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=0)


def test_a_set_that_reaches_top_p_but_for_rounding_has_reached_it():
    """Of ten equal probabilities eight are 0.8 when they are counted, and not when they are added up."""
    for dtype, top_p in product((torch.float32, torch.float64), (0.1, 0.3, 0.6, 0.7, 0.8, 0.9)):
        kept = NativeWarp(1.0, None, top_p)(torch.zeros(1, 10, dtype=dtype))
        assert (kept > 0).nonzero()[:, 1].tolist() == list(range(round(10 * top_p)))


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


@examples(60)
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


FORMS = {  # of a draft and target_probs: as they are, or what the library cannot read as it is
    "as it is": lambda draft, p: (draft, p),
    "two types": lambda draft, p: (replace(draft, probs=draft.probs.double()), p),
    "gaps in tokens": lambda draft, p: (replace(draft, tokens=draft.tokens.t().contiguous().t()), p),
    "gaps in p": lambda draft, p: (draft, p.repeat_interleave(2, -1)[..., ::2]),
}


def random_tree(rows, k, vocab, seed, *how):
    """Returns `random_draft` with parents at random, which ascend."""
    draft, p = random_draft(rows, k, vocab, seed, *how)
    dice = random.Random(seed)
    parents = torch.tensor([sorted(dice.choices(range(4), k=k)) for _ in range(rows)]).long()
    return replace(draft, parents=parents.minimum(torch.arange(k))), p


@examples(200)
@given(
    rows=st.integers(1, 4),
    k=st.integers(0, 5),
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
    """On drafts, trees and budgets of all kinds; what comes next from the seed is the same too."""
    budgets = [(seed + row) % (k + 2) if budget == "closed" else k + 1 for row in range(rows)]
    for plain, native in PAIRS:
        make = random_tree if plain.takes_tree and seed % 3 else random_draft
        made, target_probs = make(rows, k, vocab, seed, short, (torch.float32, torch.float64)[seed % 2])
        draft, p = FORMS[form](made, target_probs)
        rngs = SeededRng(seed), generator(seed)
        one, other = (
            rule(draft, p, RoundRng(rng, round_plan(budgets, [3] * rows)) if budget else rng)
            for rule, rng in zip((plain, native), rngs, strict=True)
        )
        assert torch.equal(one.accepted, other.accepted) and torch.equal(one.token, other.token), plain.name
        assert (one.path is None) == (other.path is None) and one.kept() == other.kept()
        coin = torch.full((5,), 0.5, dtype=torch.float64)
        assert torch.equal(rngs[0].bernoulli(coin), rngs[1].bernoulli(coin)), plain.name


@examples(60)
@given(
    rows=st.integers(1, 4), k=st.integers(0, 4), vocab=st.sampled_from([2, 40]), seed=st.integers(0, 10**6)
)
def test_keyed_noise_is_that_of_the_core(rows, k, vocab, seed):
    """For prompts, positions and budgets of all kinds, and seeds of up to 63 bits."""
    draft, p = random_draft(rows, k, vocab, seed, seed % 2 == 0, (torch.float32, torch.float64)[seed % 2])
    dice = random.Random(seed)
    budgets, starts, prompts = ([dice.randrange(top) for _ in range(rows)] for top in (k + 2, 9999, 7))
    plan = round_plan(budgets, starts, prompts)
    for key in (seed, 2**63 - 1 - seed):
        for name in ("coupled", "compare"):
            one, other = (
                rules[name](draft, p, RoundRng(KeyedRng(key), plan)) for rules in (CHAINS, NATIVE_CHAINS)
            )
            assert torch.equal(one.accepted, other.accepted) and torch.equal(one.token, other.token)
    with pytest.raises(ValueError, match="shared noise decides no yes or no"):
        native_rejection(*random_draft(1, 2, 5, seed=0), KeyedRng(0))


def test_a_verifier_says_of_itself_what_the_cores_says():
    """Only how it decides differs, and that it names its rule."""
    for plain, native in PAIRS:
        own = {name: value for name, value in vars(native).items() if name not in ("decide", "rule")}
        assert own == {name: value for name, value in vars(plain).items() if name != "decide"}
    assert [rule.rule for rule in NATIVE_TREES.values()] == [Rule.TREE_GREEDY, Rule.TREE]
    draft, p = random_tree(1, 3, 5, 1)
    with pytest.raises(ValueError, match="verifies a chain, and a tree was drafted"):
        native_block(draft, p, NativeRng(0))


def test_a_source_that_cannot_decide_is_refused():
    """Numbers outside [0, 1), too few of them, and noise where a yes or no is open."""
    draft, p = random_draft(2, 3, 5, seed=1)
    plan = round_plan([4, 4])
    inputs = inputs_of(Rule.REJECTION, draft, p, plan.budgets)
    numbers = torch.full((8,), 0.5, dtype=torch.float64)
    assert inputs.decide(Rule.REJECTION, numbers_record(numbers)).accepted.tolist()
    for number in (-0.1, 1.0, float("nan"), float("inf")):
        numbers[7] = number
        for rule in (Rule.REJECTION, Rule.BLOCK, Rule.COUPLED, Rule.TREE):
            with pytest.raises(ValueError, match="must lie in"):
                inputs.decide(rule, numbers_record(numbers))
    for source in (numbers_record(numbers[:7]), NoiseRecord(KeyedRng(0), plan), SourceRecord()):
        with pytest.raises(ValueError, match="must lie in"):
            inputs.decide(Rule.REJECTION, source)
    library = native_functions(p.dtype)
    token = torch.zeros(2, dtype=torch.long)
    arguments = library.type, p.data_ptr(), 2, 5, None
    few = numbers_record(numbers[:1])
    assert library.choose(*arguments, ctypes.byref(few), token.data_ptr()) == 4 and few.used == 0
    assert library.choose(*arguments, ctypes.byref(SourceRecord()), token.data_ptr()) == 4


def test_where_nothing_is_left_of_p_the_next_token_is_from_p():
    """p = q but for what rounding does to a test: the residual is zero, and p itself is the limit."""
    p = torch.tensor([[[1.0, 0.0], [0.5, 0.5]]])
    draft = DrawnDraft(torch.tensor([[1]]), p[:, :1])  # a token that neither could have drawn
    verdict = native_rejection(draft, p, NativeRng(0))
    assert verdict.accepted.tolist() == [0] and verdict.token.tolist() == [0]
    nan = DrawnDraft(torch.tensor([[0]]), torch.full((1, 1, 2), float("nan")))
    with pytest.raises(ValueError, match="not finite"):
        native_rejection(nan, p, NativeRng(0))


@pytest.mark.parametrize("rule", [ours for _, ours in PAIRS], ids=lambda rule: rule.rule.name)
def test_a_draft_that_cannot_be_is_refused(rule):
    """A token of another vocabulary, a length beyond K: one line instead of memory that is not ours."""
    draft, p = random_draft(1, 2, 5, seed=0)
    beyond = torch.tensor([[0, 5]])
    for tokens, length in ((beyond, 2), (-1 - beyond, 2), (0 * beyond, 3), (0 * beyond, -1)):
        bad = DrawnDraft(tokens, draft.probs, torch.tensor([length]))  # what `Draft` refuses itself
        with pytest.raises(ValueError, match="a token id outside 0 to 4, a length outside 0 to 2"):
            rule(bad, p, NativeRng(0))
    with pytest.raises(TypeError, match="needs a Draft"):
        rule("draft", p, NativeRng(0))
    padded = Draft(beyond, draft.probs, torch.tensor([1]))  # what lies after the length is not looked at
    assert int(rule(padded, p, NativeRng(0)).accepted) <= 1
    for bad in (float("nan"), float("inf"), -0.5):
        wrong = p.clone()
        wrong[0, 2, 1] = bad
        with pytest.raises(ValueError, match="not finite"):
            rule(draft, wrong, NativeRng(0))
        assert rule(padded, wrong, NativeRng(0))


@pytest.mark.parametrize("parents", [[0, -1], [1, 1], [0, 2], [1, 0], [0, 2**62]])
def test_parents_of_no_tree_are_refused(parents):
    """They ascend, and come before their children."""
    draft, p = random_draft(1, 2, 5, seed=0)
    bad = DrawnDraft(draft.tokens, draft.probs, draft.lengths, torch.tensor([parents]))
    for rule in NATIVE_TREES.values():
        with pytest.raises(ValueError, match="the draft has"):
            rule(bad, p, NativeRng(0))
