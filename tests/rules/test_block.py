"""Block verification, which never accepts less than rejection, and sample-and-compare: both are lossless.

All of it is enumerated or seeded: nothing here fails by chance.
"""

from math import fsum
from pathlib import Path

import pytest
import tiny
import torch

from minispec import (
    Draft,
    ModelDrafter,
    SeededRng,
    Warp,
    check_verifier,
    record,
    speculate,
    verify_greedy,
    verify_rejection,
)
from minispec.evidence.checker.instances import Instance, fractions, standard_instances
from minispec.evidence.checker.trials import enumerate_rule
from minispec.evidence.zoo.mutants import mutant_named
from minispec.evidence.zoo.mutation import planted
from minispec.rules.block import verify_block
from minispec.rules.coupled import verify_compare

FAMILY = standard_instances()


def accepted(rule, instance):
    """Returns the expected number of accepted tokens."""
    return fsum(leaf.last * leaf.weight for leaf in enumerate_rule(rule, instance.drafts()).values())


@pytest.mark.parametrize(("rule", "family"), [(verify_block, FAMILY), (verify_compare, FAMILY[::4])])
def test_the_distribution_is_the_targets(rule, family):
    """On all instances, ragged ones too; sample-and-compare is the coupled rule, so a quarter will do."""
    report = check_verifier(rule, instances=family)
    assert report.passed and report.method == "exact" and len(report.results) == len(family) > 70
    assert max(one.error for one in report.results) < 1e-14


def test_two_tokens_by_hand():
    """p = (1/3, 2/3), q = (2/3, 1/3): one by one 2/3 + (2/3)² = 10/9 are accepted, as a block 11/9.

    As a block, w after 00, 01, 10, 11 is 1/4, 1, 1/2, 1. So both are kept with (4·1/4 + 2·1 + 2·1/2 + 1)/9 =
    5/9. The first coin says no after 0 and yes after 1, so the first alone is kept with 2/9·1/2.
    """
    instance = Instance(((fractions(1, 2),),) * 3, ((fractions(2, 1),),) * 2)
    assert accepted(verify_rejection, instance) == pytest.approx(10 / 9, abs=1e-15)
    assert accepted(verify_block, instance) == pytest.approx(11 / 9, abs=1e-15)
    page = Path(__file__).parents[2] / "docs" / "explanation" / "field.md"
    assert all(said in page.read_text(encoding="utf-8") for said in ("= 10/9$", "$11/9$"))


def test_it_never_accepts_fewer_tokens():
    """Theorem 2, on every third instance; as many with one token, and more on some with several."""
    more = 0
    for instance in FAMILY[::3]:
        gain = accepted(verify_block, instance) - accepted(verify_rejection, instance)
        assert gain > -1e-12 and (instance.k > 1 or gain < 1e-12)
        more += gain > 1e-3
    assert more > 10


@pytest.mark.parametrize(
    ("bug", "damage", "size"),
    [
        ("block-ends-at-the-first-no", 0.75, (2, 2)),
        ("block-coin-without-the-next", 0.375, (3, 2)),
        ("block-ratio-clamped-late", 0.167163, (4, 3)),
        ("block-residual-of-a-token", 0.046875, (3, 3)),
    ],
)
def test_each_bug_is_found_with_its_damage(bug, damage, size):
    """The largest total variation of the whole family is among the instances of this K and V."""
    some = [one for one in FAMILY if (one.k, one.vocab_size) == size]
    with planted(mutant_named(bug)):
        report = check_verifier(verify_block, instances=some)
    assert not report.passed and report.damage.largest == pytest.approx(damage, abs=1e-6)


def test_a_rows_end_is_its_own():
    """A row of n tokens draws n coins at most and one token, and padding says nothing."""
    generator = torch.Generator().manual_seed(0)
    q, p = (torch.rand(64, n, 4, generator=generator).double().softmax(-1) for n in (3, 4))
    tokens = torch.multinomial(q.flatten(0, 1), 1, generator=generator).view(64, 3)
    lengths = torch.arange(64) % 4
    rng = tiny.CountingRng(0, 64)
    found = verify_block(Draft(tokens, q, lengths), p, rng)
    assert all(drawn <= n + 1 for drawn, n in zip(rng.draws, lengths.tolist(), strict=True))
    assert bool((found.accepted <= lengths).all()) and len(set(found.accepted.tolist())) == 4
    outside = torch.arange(3) >= lengths[:, None]
    other = Draft(tokens.masked_fill(outside, 3), q.masked_fill(outside[..., None], 0), lengths)
    same = verify_block(other, p, SeededRng(0))
    assert torch.equal(same.accepted, found.accepted) and torch.equal(same.token, found.token)


def test_at_temperature_0_it_is_the_greedy_rule():
    """Token for token, also where the draft was sampled; then nothing is drawn by the rule."""
    target, draft = tiny.gpt_pair()
    settings = {"k": 3, "max_new_tokens": 15, "warp": Warp(temperature=0), "eos": 4}

    def run(rule, own):
        drafter, rng = ModelDrafter(draft, own), SeededRng(0)
        return speculate(target, drafter, tiny.PROMPTS, verifier=rule, rng=rng, **settings)

    for own in (None, Warp()):
        one, other = (
            [(r.emitted, r.verdict.accepted.tolist()) for r in run(rule, own)]
            for rule in (verify_block, verify_greedy)
        )
        assert one == other


def test_tested_tokens_are_not_counted():
    """It looks beyond a rejection, so only accepted over drafted has a meaning."""
    target, draft = tiny.table_pair()
    settings = {"k": 3, "max_new_tokens": 20, "warp": Warp(), "rng": SeededRng(0)}
    counts = record(target, ModelDrafter(draft), tiny.PROMPTS, verifier=verify_block, **settings).statistics()
    assert counts.tested is None and counts.acceptance is None and 0 < counts.accepted_over_drafted < 1
