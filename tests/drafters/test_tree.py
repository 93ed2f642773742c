"""A tree of candidates on the draft model: what it proposes, what its cache keeps, and its shape."""

from functools import partial

import pytest
import tiny
import torch
from all_trees import most_yielded, yielded
from refusals import refused
from tiny import PROMPTS, decode, live_rows, outcome, same, targets_own_text, with_texts

from minispec import SeededRng, Warp
from minispec.drafters.medusa import Medusa, MedusaTreeDrafter, doubtful_tree
from minispec.drafters.tree import (
    TreeDrafter,
    common_tree,
    grow,
    most_probable,
    with_replacement,
    without_replacement,
)
from minispec.evidence.proof.models import with_normals
from minispec.verifiers.tree import verify_tree, verify_tree_greedy

TARGET, DRAFT = tiny.gpt_pair()
SHAPE = (0, 0, 0, 1, 1, 2, 4, 4, 7)
HEADS = MedusaTreeDrafter(
    with_normals(Medusa(TARGET.config.width, TARGET.vocab_size, 3), 3), TARGET, doubtful_tree(16, 3)
)
CHOICES = [with_replacement, without_replacement, most_probable]


def path_of(node, parents):
    """Returns the tokens from the first on that lead to a token of the tree, itself included."""
    return [] if node == 0 else [*path_of(parents[node - 1], parents), node - 1]


def runs(choice=without_replacement, **changes):
    """Yields rounds with a tree; both caches are looked at."""
    drafter = TreeDrafter(DRAFT, SHAPE, choice)
    settings = {"k": 9, "max_new_tokens": 18, "verifier": verify_tree} | changes
    for r, texts in with_texts(decode(TARGET, drafter, **settings)):
        yield r
        assert drafter.cache_lengths == r.lengths
        if all(r.live):
            after = [[*text, *emitted] for text, emitted in zip(texts, r.emitted, strict=True)]
            tiny.holds_all_but_the_pending_token(DRAFT, drafter.cache, after)


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("shape", [SHAPE, (0, 1, 2), (0, 0), tuple(common_tree(16))], ids=str)
def test_greedy_text_is_the_targets_own(choice, shape):
    """On ragged rows, with rows that end early, and with paths that are longer than the first candidate's."""
    drafter = TreeDrafter(DRAFT, shape, choice)
    assert tiny.accepted(targets_own_text(TARGET, drafter, k=9, verifier=verify_tree_greedy, eos=4))


@pytest.mark.parametrize("seed", range(3))
def test_each_candidate_is_drawn_after_its_own_ancestors(seed):
    """q of the first child is the draft's distribution after the path; p of each node is the target's."""
    compared = 0
    for r, row, text, tokens in live_rows(runs(with_replacement, rng=SeededRng(seed))):
        parents = r.draft.parents[row].tolist() if tokens else []
        for i, token in enumerate(tokens):
            before = text + [tokens[n] for n in path_of(parents[i], parents)]
            same(r.draft.probs[row, i], Warp()(DRAFT(torch.tensor([before])))[0, -1])
            same(r.target_probs[row, i + 1], Warp()(TARGET(torch.tensor([[*before, token]])))[0, -1])
            compared += 1
    assert compared > 100


def test_candidates_without_replacement_differ_and_q_lacks_the_earlier_ones():
    """Renormalised; at temperature 0 the next most probable tokens come, with certainty."""
    q = torch.tensor([[0.5, 0.3, 0.2, 0.0]], dtype=torch.float64)
    logits = torch.tensor([[3.0, 2.0, 1.0, 0.0]], dtype=torch.float64)
    chosen = torch.tensor([[True, False, False, False]])
    same(without_replacement(q, logits, chosen), torch.tensor([[0, 0.6, 0.4, 0]], dtype=torch.float64))
    same(with_replacement(q, logits, chosen), q)
    same(most_probable(q, logits, chosen), torch.tensor([[0, 1, 0, 0]], dtype=torch.float64))
    certain = torch.tensor([[1.0, 0, 0, 0]], dtype=torch.float64)
    same(without_replacement(certain, logits, chosen), torch.tensor([[0, 1, 0, 0]], dtype=torch.float64))
    for r, row, _, tokens in live_rows(runs()):
        for i, parent in enumerate(r.draft.parents[row].tolist() if tokens else ()):
            earlier = [tokens[n] for n in range(i) if r.draft.parents[row, n] == parent]
            assert i >= len(tokens) or not r.draft.probs[row, i, earlier].any()


@pytest.mark.parametrize("cap", [1, 2, 3, 5])
def test_a_tree_is_cut_where_a_row_ends(cap):
    """No token is deeper than the budget; a wide tree is drafted all the same, and the cap is met exactly."""
    rounds = list(runs(max_new_tokens=cap))
    texts, ends = outcome(rounds, len(PROMPTS))
    assert [len(text) for text in texts] == [cap] * len(PROMPTS) and set(ends) == {"cap"}
    first = rounds[0]
    deepest = max(len(path_of(i + 1, SHAPE)) for i in range(first.drafted(0))) if first.drafted(0) else 0
    assert deepest == min(cap - 1, 5)
    assert first.drafted(0) == sum(len(path_of(i + 1, SHAPE)) < cap for i in range(len(SHAPE)))


@pytest.mark.parametrize("drafter", [TreeDrafter(DRAFT, SHAPE), HEADS], ids=["model", "heads"])
@pytest.mark.parametrize("length", range(30, 40))
def test_a_tree_at_the_contexts_end(length, drafter):
    """A prompt of 30 to 39 tokens of 40, beside a short one: no more is drafted than there is space for.

    The heads know nothing of the cache: the loop cuts their tree.
    """
    prompts = [[n % 7 for n in range(length)], [1, 2]]
    for given in (prompts, prompts[:1]):
        settings = {"k": 9, "max_new_tokens": 60}
        rounds = targets_own_text(TARGET, drafter, given, verifier=verify_tree_greedy, **settings)
        assert set(rounds[-1].finish) == {"context"}
        sampled = list(decode(TARGET, drafter, given, verifier=verify_tree, **settings))
        assert [n + 1 for n in sampled[-1].lengths] == [40] * len(given)


@pytest.mark.parametrize(
    ("parents", "words"),
    [
        (common_tree(40), "a tree of 40 tokens does not fit a context of 40"),
        *(([parent], "must ascend") for parent in (1, -1)),
        ([0, 2], "must ascend"),
        ([0, 0, 1, 0], "must ascend"),
    ],
)
def test_a_tree_that_cannot_be_is_refused(parents, words):
    """Too large, a parent after its child, one that does not ascend, one that is not there."""
    for make in (partial(TreeDrafter, DRAFT), partial(MedusaTreeDrafter, HEADS.heads, TARGET)):
        with refused(words):
            make(parents)


@pytest.mark.parametrize("rates", [[(0.7, 0.2, 0.1)] * 4, [(0.5, 0.45), (0.9, 0.05), (0.3, 0.3)]], ids=str)
@pytest.mark.parametrize("nodes", [1, 2, 3, 4, 5])
def test_no_tree_of_the_same_size_is_better(rates, nodes):
    """Against all trees with so many tokens; the rates may differ from depth to depth."""
    parents, ranks = grow(rates, nodes)
    assert yielded(parents, rates) == pytest.approx(most_yielded(nodes, rates))
    assert ranks == [parents[:i].count(parent) for i, parent in enumerate(parents)]


def test_the_shape_follows_the_rates():
    """Where the first candidate is sure, a chain; where all are alike, a broad tree; beginnings ascend."""
    assert grow([(0.9, 0.05)] * 6, 5) == ([0, 1, 2, 3, 4], [0] * 5)
    assert grow([(0.3, 0.3, 0.3)] * 3, 4) == ([0, 0, 0, 1], [0, 1, 2, 0])
    assert grow([(0.6, 0.3)] * 2, 100)[0] == [0, 0, 1, 1, 2, 2]  # no more than there is
