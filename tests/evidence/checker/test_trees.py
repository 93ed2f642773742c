"""Rules for trees of candidates under `check_verifier`: every way to choose candidates, and wrong rules.

A right rule that is enumerated has no false alarm.
"""

from dataclasses import replace

import pytest
import torch
from tiny import round_plan

from minispec import Verdict, check_verifier, verify_rejection
from minispec.core.rng import RoundRng
from minispec.drafters.chain import draw_tree
from minispec.evidence.checker.instance import CHOICES, Instance
from minispec.evidence.checker.instances import (
    fractions,
    tree_instances,
)
from minispec.evidence.proof.enumeration import enumerate_branches
from minispec.verifiers.tree import accept_tree, verify_tree, verify_tree_greedy

TREES = tree_instances()
SURE = fractions(1, 0)
HALF = fractions(1, 1)


@pytest.mark.parametrize("choice", CHOICES)
def test_the_rule_for_trees_passes(choice):
    """However candidates are chosen, with every branch enumerated."""
    report = check_verifier(verify_tree, instances=tree_instances(choice))
    assert report.passed and report.method == "exact" and report.notes == () and report.samples == 0
    assert report.instances == 35 and report.branches > 150 and report.largest_error < 1e-14


def test_the_greedy_rule_for_trees_passes_at_temperature_0_only():
    report = check_verifier(verify_tree_greedy, instances=tree_instances(certain=True))
    assert report.passed and report.method == "exact" and report.instances > 90
    assert check_verifier(verify_tree_greedy, instances=TREES[:20]).counterexample.p[0] != (SURE,)


def test_a_rule_for_chains_is_told_so():
    report = check_verifier(verify_rejection, instances=TREES)
    assert "no path in a tree, as a rule for chains" in report.reason and report.damage is None


def with_path(path):
    """Returns the rule for trees, with another path."""

    def rule(draft, target_probs, rng):
        verdict = accept_tree(draft, target_probs, rng)
        return Verdict(verdict.accepted, verdict.token, path(verdict.path))

    return rule


@pytest.mark.parametrize(
    ("path", "says"),
    [
        (lambda path: path.long(), "path of shape"),
        (lambda path: path[:, :1], "path of shape"),
        (lambda path: path.flip(1), "the path [1, 3]"),
        (lambda path: torch.zeros_like(path), "the path []"),
    ],
)
def test_what_is_no_path_is_refused(path, says):
    """Of another type, of another shape, through a child of another, too short."""
    certain = Instance(((SURE,),) * 3, ((SURE,),) * 2, (), (0, 0, 1, 1))
    assert says in check_verifier(with_path(path), instances=[certain]).reason


# The instances.


def test_the_trees_have_everything():
    """Sizes, shapes, ragged rows, duplicates, supports smaller than the candidates are many, p = q."""
    sizes = [instance.size for instance in TREES]
    assert sizes == sorted(sizes) and len(TREES) == len(set(TREES)) == 140
    assert {instance.vocab_size for instance in TREES} == {2, 3, 4} and {
        len(instance.q) for instance in TREES
    } == {1, 2, 3}
    assert all(not instance.is_chain for instance in TREES) and {
        instance.choice for instance in TREES
    } == set(CHOICES)
    assert any(len(instance.lengths) > 2 and len(instance.q) > 1 for instance in TREES)
    assert any(len(set(table)) > 1 for instance in TREES for table in instance.p)
    assert any(
        instance.q[0][0].count(0) > instance.vocab_size - instance.parents.count(0) for instance in TREES
    )
    assert any(instance.p[0][0] == instance.q[0][0] and 0 < max(instance.p[0][0]) < 1 for instance in TREES)
    drawn_again = [
        instance
        for instance in TREES
        if instance.choice == "with replacement" and instance.lengths == (instance.k,)
    ]
    assert any(bool((instance.drafts().draft.tokens.diff() == 0).any()) for instance in drawn_again)


# Of two candidates of q = (3, 2, 1)/6, in 36ths.
BY_HAND = {
    "with replacement": {(0, 0): 9, (0, 1): 6},
    "without replacement": {(0, 1): 12, (0, 2): 6, (1, 0): 9, (1, 2): 3, (2, 0): 3.6, (2, 1): 2.4},
    "most probable": {(0, 1): 36},
    "greedy drafting": {(1, 0): 24, (2, 0): 12},
}


@pytest.mark.parametrize("choice", CHOICES)
def test_chosen_candidates_by_hand(choice):
    """The drafts and their probabilities; with replacement only two of nine."""
    q = fractions(3, 2, 1)
    drafts = Instance(((q,), (q,)), ((q,),), (), (0, 0), choice).drafts()
    pairs = map(tuple, drafts.draft.tokens.tolist())
    weights = dict(zip(pairs, (36 * drafts.weights).tolist(), strict=True))
    assert sum(weights.values()) == pytest.approx(36, abs=36e-15)
    assert {pair: weights[pair] for pair in BY_HAND[choice]} == pytest.approx(BY_HAND[choice])
    assert choice == "with replacement" or len(weights) == len(BY_HAND[choice])


@pytest.mark.parametrize("choice", CHOICES)
def test_drafts_come_as_drafters_draw_them(choice):
    """Every draft of a tree, its probability and its q are those of `draw_tree`, branch by branch."""
    two_deep = next(
        instance for instance in reversed(TREES) if instance.choice == choice and len(instance.q) == 2
    )
    instance = replace(two_deep, parents=(0, 0, 1, 1, 2, 2), lengths=(6,))
    size = instance.vocab_size
    parents = instance.parents
    tables = [
        torch.tensor([[*map(float, dist)] for dist in table], dtype=torch.float64) for table in instance.q
    ]

    def run(rng, keys):
        def read(tokens, at):
            numbers = [torch.zeros(len(keys), dtype=torch.long)]
            for i, parent in enumerate(parents):
                numbers.append(numbers[parent] * size + tokens[:, i + 1])
            after = [(tables[instance.depths[i]], numbers[i]) for i in at]
            return torch.stack([table[number % len(table)] for table, number in after], 1)

        pending = torch.zeros(len(keys), dtype=torch.long)
        space = torch.full((len(keys),), instance.k)
        round_rng = RoundRng(rng, round_plan([99] * len(keys)))
        draft = draw_tree(read, pending, parents, space, CHOICES[choice](2), lambda probs: probs, round_rng)
        return list(zip(draft.tokens.tolist(), draft.probs, strict=True))

    drawn = {tuple(tokens): (q, weight) for _, (tokens, q), weight in enumerate_branches(run, [0])}
    drafts = instance.drafts()
    assert len(drafts) == len(drawn)
    for row, tokens in enumerate(drafts.draft.tokens.tolist()):
        probs, weight = drawn[tuple(tokens)]
        assert float(drafts.weights[row]) == pytest.approx(weight, abs=1e-15)
        assert (drafts.draft.probs[row] - probs).abs().max() < 1e-15
