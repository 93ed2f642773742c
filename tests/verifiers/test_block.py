"""Block verification, which never accepts less than rejection, and sample-and-compare: both are lossless.

All of it is enumerated or seeded: nothing here fails by chance.
"""

from math import fsum
from pathlib import Path

import pytest
import tiny
import torch
from drafts import random_draft

from minispec import Draft, ModelDrafter, SeededRng, Warp, check_verifier, record, verify_rejection
from minispec.evidence.checker.instances import Instance, fractions, standard_instances
from minispec.evidence.checker.trials import enumerate_rule
from minispec.evidence.zoo.mutants import mutant_named
from minispec.evidence.zoo.mutation import planted
from minispec.verifiers.block import verify_block
from minispec.verifiers.coupled import verify_compare

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
    page = Path(__file__).parents[2] / "docs" / "walkthrough" / "more_rules.md"
    assert all(said in page.read_text(encoding="utf-8") for said in ("2/3 + 4/9 = 10/9", "11/9"))


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
    draft, p = random_draft(64, 3, 4, seed=0, short=True, dtype=torch.float64)
    rng = tiny.CountingRng(0, 64)
    found = verify_block(draft, p, rng)
    assert all(drawn <= n + 1 for drawn, n in zip(rng.draws, draft.lengths.tolist(), strict=True))
    assert bool((found.accepted <= draft.lengths).all()) and len(set(found.accepted.tolist())) == 4
    tokens = draft.tokens.where(draft.mask, 3)
    other = Draft(tokens, draft.probs * draft.mask[..., None], draft.lengths)
    same = verify_block(other, p, SeededRng(0))
    assert torch.equal(same.accepted, found.accepted) and torch.equal(same.token, found.token)


@pytest.mark.parametrize("warp", [None, Warp()])
def test_at_temperature_0_it_is_the_greedy_rule(warp):
    """Token for token, also where the draft was sampled; then nothing is drawn by the rule."""
    target, draft = tiny.gpt_pair()
    tiny.targets_own_text(target, ModelDrafter(draft, warp), verifier=verify_block, eos=4)


def test_tested_tokens_are_not_counted():
    """It looks beyond a rejection, so only accepted over drafted has a meaning."""
    target, draft = tiny.table_pair()
    counts = tiny.decode(target, ModelDrafter(draft), how=record, verifier=verify_block).statistics()
    assert counts.tested is None and counts.acceptance is None and 0 < counts.accepted_over_drafted < 1
