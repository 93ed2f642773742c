"""The method on one screen: token for token what `speculate` says, and exactly the target's distribution."""

from collections import Counter

import pytest
import torch
from tiny import alone, branches, decode, gpt_pair, outcome

from minispec import ModelDrafter, SeededRng, Warp, verify_greedy, verify_rejection
from minispec.core.basic import accept_greedy, accept_rejection, generate_basic, speculate_basic
from minispec.evidence.proof.cases import Case
from minispec.evidence.proof.distributions import exact_distributions
from minispec.evidence.proof.models import table_pair, tiny_gpt_pair

EXACT = 1e-10
RULES = {
    "greedy": (accept_greedy, verify_greedy, Warp(0)),
    "rejection": (accept_rejection, verify_rejection, Warp(1.0)),
}
PAIRS = {"table": table_pair(vocab_size=3, seed=4), "gpt": tiny_gpt_pair(seed=1)}
WARPS = [Warp(), Warp(0.7, top_k=2), Warp(1.5, top_p=0.8), Warp(0)]
PROMPT = (0, 1)
NEW = 3


# The same as the loop with batches.


@torch.inference_mode()
@pytest.mark.parametrize("rule", RULES)
def test_it_says_token_for_token_what_speculate_says(rule):
    """49 seeds and prompts, every K from 0 to 6 seven times: the same tokens, the same draws.

    Prompts have one token or more; caps go down to nothing at all.
    """
    target, draft = gpt_pair()
    accept, verifier, warp = RULES[rule]
    widths = {True: set(), False: set()}  # the K of rounds in which all was accepted, and not all
    for seed in range(49):
        cap = 30 if seed % 5 else seed // 5
        settings = {"k": seed % 7, "max_new_tokens": cap, "warp": warp}
        prompt = [(seed * n) % 11 for n in range(1, 2 + seed % 4)]
        one = SeededRng(seed)
        other = SeededRng(seed)
        rounds = list(decode(target, ModelDrafter(draft), [prompt], verifier=verifier, rng=one, **settings))
        found = speculate_basic(target, draft, prompt, accept=accept, rng=other, **settings)
        assert [found] == outcome(rounds)[0], (seed, settings)
        assert len(found) == cap
        coin = torch.full((20,), 0.5)
        assert torch.equal(one.bernoulli(coin), other.bernoulli(coin))  # both have used up the same numbers
        for r in rounds:
            widths[r.accepted(0) == r.drafted(0)].add(r.drafted(0))
    assert widths == {True: set(range(7)), False: set(range(1, 7))}


@torch.inference_mode()
@pytest.mark.parametrize("warp", WARPS, ids=str)
def test_the_target_alone_says_what_generate_says(warp):
    """Ten seeds and prompts, caps from 0 to 9: the same tokens."""
    target, _ = gpt_pair()
    for seed in range(10):
        settings = {"max_new_tokens": seed, "warp": warp}
        prompt = [seed] * (1 + seed % 3)
        found = generate_basic(target, prompt, rng=SeededRng(seed), **settings)
        assert [found] == alone(target, [prompt], rng=SeededRng(seed), **settings)


# The distribution, enumerated.


@torch.inference_mode()
@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("warp", WARPS, ids=str)
@pytest.mark.parametrize("k", [0, 1, 2, 4])
def test_the_distribution_is_exactly_the_targets(k, warp, name):
    """Every outcome of every draw: three tokens, with one round's end or two between them."""
    target, draft = PAIRS[name]
    settings = {"k": k, "accept": accept_rejection, "max_new_tokens": NEW, "warp": warp}
    found = Counter()
    for tokens, weight in branches(lambda rng: speculate_basic(target, draft, PROMPT, rng=rng, **settings)):
        found[tuple(tokens)] += weight
    case = Case("basic", target, draft, (PROMPT,), 0, NEW, warp)  # from forwards without a cache
    wanted = {tokens: weight for (tokens, _), weight in exact_distributions(case)[0].items()}
    for text in found.keys() | wanted.keys():
        assert abs(found[text] - wanted.get(text, 0.0)) <= EXACT
