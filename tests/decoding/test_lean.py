"""The lean warp, chance and rules decide what the plain ones decide, and are lossless by enumeration."""

from dataclasses import replace

import pytest
import tiny
import torch
from drafts import random_draft, random_laws
from hypothesis import given, settings
from hypothesis import strategies as st
from minispec.decoding.lean import LeanWarp, lean_greedy, lean_rejection
from minispec.decoding.rng_lean import LeanRng

from minispec import ModelDrafter, SeededRng, Warp, check_verifier, verify_greedy, verify_rejection
from minispec.evidence.law import exact_laws, largest_error, speculative_laws, target_only_laws
from minispec.evidence.prove import LARGEST_ERROR, gpt_cases
from minispec.io.trace import record
from minispec.native.backend import KITS, LEAN, PATHS
from minispec.native.pack import LeanGPT

WARPS = [Warp(0.0), Warp(1.0), Warp(0.7), Warp(1.0, top_k=3), Warp(2.0, top_p=0.8)]


def logits(shape, seed=0, dtype=torch.float32):
    return 3 * torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.mark.parametrize("warp", WARPS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_lean_warp_gives_the_same_law_bit_for_bit(warp, dtype):
    """At every setting and in every type; the type of the result is the same too."""
    lean = LeanWarp(warp.temperature, warp.top_k, warp.top_p)
    block = logits((2, 3, 17), dtype=torch.float64).to(dtype)
    assert torch.equal(lean(block), warp(block)) and lean(block).dtype == warp(block).dtype


def test_the_lean_warp_takes_the_lowest_id_on_ties_and_refuses_damage():
    """A tie at temperature 0; NaN and infinities at 0 and 1."""
    assert LeanWarp(0.0)(torch.tensor([[1.0, 2.0, 2.0]])).tolist() == [[0.0, 1.0, 0.0]]
    for bad in ([float("nan"), 0.0], [float("inf"), 0.0], [float("-inf")] * 2):
        for temperature in (0.0, 1.0):
            with pytest.raises(ValueError, match="not finite"):
                LeanWarp(temperature)(torch.tensor([[0.0, 1.0], bad]))


@settings(max_examples=60, deadline=None)
@given(rows=st.integers(1, 4), size=st.integers(2, 9), seed=st.integers(0, 10**6), masked=st.booleans())
def test_lean_chance_makes_the_same_draws(rows, size, seed, masked):
    """Picks and yes-or-no, one after the other, with certain outcomes and masked rows among them."""
    law = random_laws((rows, size), seed)
    law[0] = torch.nn.functional.one_hot(torch.tensor(seed % size), size)  # certain: draws nothing
    chance = torch.tensor([0.0, 1.0, 0.3, 0.9])[:rows].double()
    live = torch.arange(rows) % 2 == seed % 2 if masked else None
    plain, lean = SeededRng(seed), LeanRng(seed)
    for _ in range(4):
        assert torch.equal(lean.categorical(law, live=live), plain.categorical(law, live=live))
        assert torch.equal(lean.bernoulli(chance, live=live), plain.bernoulli(chance, live=live))


@settings(max_examples=60, deadline=None)
@given(rows=st.integers(1, 4), k=st.integers(0, 4), seed=st.integers(0, 10**6), short=st.booleans())
def test_lean_rules_give_the_same_verdict(rows, k, seed, short):
    """On random laws, some drafts shorter than K, with the same seed."""
    draft, p = random_draft(rows, k, 5, seed, short)
    for plain, lean in ((verify_greedy, lean_greedy), (verify_rejection, lean_rejection)):
        one, other = plain(draft, p, SeededRng(seed)), lean(draft, p, LeanRng(seed))
        assert torch.equal(one.accepted, other.accepted) and torch.equal(one.token, other.token)


def test_the_lean_rejection_rule_passes_the_check_of_verifiers():
    """The check that readers put their own rules to, by exact enumeration."""
    report = check_verifier(lean_rejection)
    assert report.passed, report


@pytest.mark.parametrize("case", list(gpt_cases(seed=0, longer=0)), ids=lambda case: case.name)
@pytest.mark.parametrize("rule", ["greedy", "rejection"])
def test_the_lean_path_is_lossless_branch_by_branch(case, rule):
    """Every branch of the loop with lean models, warp and rule, against the readable target's exact law."""
    cold = Warp(0.0) if rule == "greedy" else case.warp
    warp = LeanWarp(cold.temperature, cold.top_k, cold.top_p)
    plain = replace(case, warp=Warp(warp.temperature, warp.top_k, warp.top_p))
    lean = replace(
        plain, target=LeanGPT(case.target), draft=LeanGPT(case.draft), warp=warp, verifier=LEAN.rules[rule]
    )
    exact = exact_laws(plain)
    for walked in (speculative_laws(lean).laws, target_only_laws(lean)):
        errors = [largest_error(one, law) for one, law in zip(walked, exact, strict=True)]
        assert max(errors) <= LARGEST_ERROR


def test_every_path_has_a_kit_and_greedy_rules_refuse_a_temperature():
    """The greedy rule of every kit is refused above temperature 0 like the plain one."""
    assert set(KITS) == set(PATHS)
    target, draft = tiny.gpt_pair()
    for kit in KITS.values():
        with pytest.raises(ValueError, match="needs temperature 0"):
            record(
                LeanGPT(target),
                ModelDrafter(LeanGPT(draft)),
                [[1, 2]],
                k=2,
                verifier=kit.rules["greedy"],
                max_new_tokens=3,
                warp=kit.warp(1.0),
                rng=kit.rng(0),
            )
