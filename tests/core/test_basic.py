"""The method on one screen: token for token what `speculate` says, and exactly the target's distribution."""

from functools import cache

import pytest
import torch
from tiny import alone, branches, decode, outcome

from minispec import ModelDrafter, SeededRng, Warp, load_pair, verify_greedy, verify_rejection
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
PROMPT = (0, 1)
NEW = 3


@cache
def shipped():
    """The shipped pair in float64, and prompts of 20 to 32 tokens."""
    pair = load_pair("stories", dtype=torch.float64)
    prompts = [prompt[: 32 - 2 * (row % 7)] for row, prompt in enumerate(pair.info["prompts"])]
    return pair.target, pair.draft, prompts


# The same as the loop with batches.


@torch.inference_mode()
@pytest.mark.parametrize("rule", RULES)
def test_it_says_token_for_token_what_speculate_says(rule):
    """Fifty seeds and prompts, every K from 0 to 6 seven times or more: the same tokens, the same draws."""
    target, draft, prompts = shipped()
    accept, verifier, warp = RULES[rule]
    widths = {True: set(), False: set()}  # the K of rounds in which all was accepted, and not all
    for seed in range(50):
        settings = {"k": seed % 7, "max_new_tokens": 30, "warp": warp}
        prompt = prompts[seed % len(prompts)]
        one, other = SeededRng(seed), SeededRng(seed)
        rounds = list(decode(target, ModelDrafter(draft), [prompt], verifier=verifier, rng=one, **settings))
        found = speculate_basic(target, draft, prompt, accept=accept, rng=other, **settings)
        assert [found] == outcome(rounds)[0], (seed, settings)
        assert len(found) == 30
        coin = torch.full((20,), 0.5)
        assert torch.equal(one.bernoulli(coin), other.bernoulli(coin))  # both have used up the same numbers
        for r in rounds:
            widths[r.accepted(0) == r.drafted(0)].add(r.drafted(0))
    assert widths == {True: set(range(7)), False: set(range(1, 7))}


@torch.inference_mode()
@pytest.mark.parametrize("warp", [Warp(0), Warp(1.0), Warp(0.8, top_k=5)], ids=str)
def test_the_target_alone_says_what_generate_says(warp):
    """Ten seeds and prompts: the same tokens."""
    target, _, prompts = shipped()
    for seed, prompt in enumerate(prompts[:10]):
        found = generate_basic(target, prompt, max_new_tokens=20, warp=warp, rng=SeededRng(seed))
        assert [found] == alone(target, [prompt], warp=warp, rng=SeededRng(seed))


@torch.inference_mode()
@pytest.mark.parametrize("prompt", [[2], [1, 0, 2, 2]])
@pytest.mark.parametrize("new", [0, 1, 2])
def test_short_texts_end_where_they_should(new, prompt):
    """Down to nothing at all, from a prompt of a single token too; never a token too many."""
    target, draft = PAIRS["gpt"]
    settings = {"max_new_tokens": new, "warp": Warp(), "rng": SeededRng(0)}
    assert len(speculate_basic(target, draft, prompt, k=4, accept=accept_rejection, **settings)) == new
    assert len(generate_basic(target, prompt, **settings)) == new


# The distribution, enumerated.


def exact(target, draft, warp):
    """Returns {tokens: probability} of the target alone, from forwards without a cache."""
    case = Case("basic", target, draft, (PROMPT,), 0, NEW, warp)
    return {tokens: weight for (tokens, _), weight in exact_distributions(case)[0].items()}


def enumerated(run):
    """Returns {tokens: probability} of `run(rng)`, over every outcome of every draw."""
    found = {}
    with torch.inference_mode():
        for tokens, weight in branches(lambda rng: tuple(run(rng))):
            found[tokens] = found.get(tokens, 0.0) + weight
    return found


def error(found, wanted):
    """Returns the largest difference of two probabilities."""
    return max(abs(found.get(text, 0.0) - wanted.get(text, 0.0)) for text in found.keys() | wanted.keys())


def speculative(name, warp, k, accept=accept_rejection):
    """Returns the distribution of three tokens of `speculate_basic`."""
    target, draft = PAIRS[name]
    settings = {"k": k, "accept": accept, "max_new_tokens": NEW, "warp": warp}
    return enumerated(lambda rng: speculate_basic(target, draft, PROMPT, rng=rng, **settings))


WARPS = [Warp(), Warp(0.7, top_k=2), Warp(1.5, top_p=0.8), Warp(0)]


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("warp", WARPS, ids=str)
@pytest.mark.parametrize("k", [0, 1, 2, 4])
def test_the_distribution_is_exactly_the_targets(k, warp, name):
    """Every outcome of every draw: three tokens, with one round's end or two between them."""
    assert error(speculative(name, warp, k), exact(*PAIRS[name], warp)) <= EXACT


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("k", [0, 1, 3])
def test_greedy_acceptance_is_exact_at_temperature_0(k, name):
    """One text has all the probability, and it is the target's."""
    found = speculative(name, Warp(0), k, accept_greedy)
    assert len(found) == 1 and error(found, exact(*PAIRS[name], Warp(0))) == 0


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("warp", WARPS, ids=str)
def test_the_target_alone_has_its_own_distribution(warp, name):
    """Every outcome of every draw of `generate_basic`."""
    target, draft = PAIRS[name]
    settings = {"max_new_tokens": NEW, "warp": warp}
    found = enumerated(lambda rng: generate_basic(target, PROMPT, rng=rng, **settings))
    assert error(found, exact(target, draft, warp)) <= EXACT
