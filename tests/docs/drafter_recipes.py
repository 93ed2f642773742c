"""What the field guide advises on look-ups, drafters on the target, trees and refilled rows, as code."""

from functools import cache

import pytest
import tiny
import torch

from minispec import (
    KeyedRng,
    ModelDrafter,
    SeededRng,
    Warp,
    generate,
    observe,
    speculate,
    verify_coupled,
    verify_rejection,
)
from minispec.drafters.eagle import FeatureDrafter, FeatureLayer
from minispec.drafters.exit import EarlyExitGPT, Exit, ExitDrafter
from minispec.drafters.lookup import what_followed
from minispec.drafters.medusa import Medusa, MedusaDrafter
from minispec.drafters.ngram import NgramDrafter
from minispec.drafters.parallel import ParallelDrafter, ParallelLayers
from minispec.drafters.tree import TreeDrafter, without_replacement
from minispec.evidence.proof.distributions import (
    exact_distributions,
    speculative_distributions,
    total_variation,
)
from minispec.evidence.proof.models import with_normals
from minispec.evidence.zoo.cases import on_the_target, trees, waiting
from minispec.evidence.zoo.check_distributions import check_draft_distribution
from minispec.evidence.zoo.check_state import check_invariant
from minispec.rules.tree import verify_tree

TEXT = [1, 2, 3, 1]
QUEUE = ([1, 0, 1, 2], [0, 1, 1], [2], [3, 1])  # in two rows: two of them wait


@cache
def gpts():
    return tiny.gpt_pair()


def ngram():
    target = tiny.counter(4)  # 1 2 3 0 1 2 3: after 3 1 comes another token than before
    return target, NgramDrafter(4)


def exit():
    model, _ = gpts()
    target = EarlyExitGPT(model, with_normals(Exit(model.config.width, 1), 0))
    return target, ExitDrafter(target)


def medusa():
    model, _ = gpts()
    return model, MedusaDrafter(with_normals(Medusa(model.config.width, model.vocab_size, 3), 7), model)


def eagle():
    model, _ = gpts()
    return model, FeatureDrafter(with_normals(FeatureLayer(model.config), 8), model)


def parallel():
    model, _ = gpts()
    return model, ParallelDrafter(with_normals(ParallelLayers(model.config), 9), model)


def drafts_are_those_of_a_new_drafter(make):
    """After each round: of one whose prompt is the text so far, with the same noise."""
    settings = {"k": 3, "verifier": verify_coupled, "warp": Warp(), "rng": KeyedRng(0)}
    text, (target, drafter) = list(TEXT), make()
    for r in speculate(target, drafter, [text], max_new_tokens=20, **settings):
        anew = next(speculate(*make(), [text], max_new_tokens=24 - len(text), **settings))
        assert torch.equal(r.draft.tokens, anew.draft.tokens)
        tiny.same(r.draft.probs, anew.draft.probs)
        text += r.emitted[0]


def greedy_text_is_the_targets(target, drafter, **settings):
    target_only = gpts()[0]
    shared = {"max_new_tokens": 20, "warp": Warp(0), "rng": SeededRng(0)}
    rounds = list(speculate(target, drafter, [TEXT], **shared, **settings))
    steps = list(generate(target_only, [TEXT], **shared))
    assert [t for r in rounds for t in r.emitted[0]] == [step[0] for step in steps]


def exits_text_is_the_targets():
    greedy_text_is_the_targets(*exit(), k=3, verifier=verify_rejection)


def trees_text_is_the_targets():
    target, draft = gpts()
    greedy_text_is_the_targets(target, TreeDrafter(draft, [0, 0, 0, 1, 1, 2]), k=6, verifier=verify_tree)


def exit_drafts_by_its_own_norm():
    target, drafter = exit()
    settings = {"k": 1, "verifier": verify_coupled, "max_new_tokens": 4, "warp": Warp(), "rng": KeyedRng(0)}
    first = next(speculate(target, drafter, [TEXT], **settings))
    model = target.model
    stream = model.layers(model.embed_tokens(torch.tensor([TEXT])), model.view(len(TEXT), None), 0, 1)
    tiny.same(first.draft.probs[0, 0], Warp()(model.head(target.exit(stream)))[0, -1])


def look_ups_are_certain():
    """1 at the token that is proposed, 0 elsewhere."""
    drafter = NgramDrafter(4)
    drafter.start([[1, 2, 1], [3, 0, 3, 0]])
    draft = drafter.propose(torch.tensor([1, 0]), 2, Warp(), SeededRng(0))
    assert torch.equal(draft.probs, torch.nn.functional.one_hot(draft.tokens, 4).double())


def the_copy_begins_after_the_match():
    assert what_followed("abcab", 2, 2) == ["c", "a"]


def candidates_have_a_chance():
    """q(x) > 0 for each, at several seeds; and each q sums to 1."""
    target, draft = gpts()
    for seed in range(5):
        drafter = TreeDrafter(draft, [0, 0, 0])
        settings = {"k": 1, "verifier": verify_tree, "max_new_tokens": 9, "warp": Warp(top_k=4)}
        for r in observe(target, drafter, [TEXT], rng=SeededRng(seed), **settings):
            assert r.draft.probs.gather(2, r.draft.tokens[..., None]).gt(0).all()


def what_is_left_sums_to_one():
    q = torch.tensor([[0.5, 0.3, 0.2]])
    left = without_replacement(q, q.log(), torch.tensor([[True, False, False]]))
    assert float(left.sum()) == pytest.approx(1)


def trees_distribution_is_right():
    """Two candidates for one position, three tokens."""
    case = trees(0)[0]
    ((came,), (should,)) = speculative_distributions(case).distributions, exact_distributions(case)
    assert total_variation(came, should) < 1e-9


def caches_are_as_if_read_anew(case):
    """In all layers, keys and values."""
    assert check_invariant(case) is None


def each_q_is_the_drafts(case):
    assert check_draft_distribution(case) is None


def those_that_wait_say_the_same():
    """Coupled: a queue in two rows, against all prompts at once."""
    target, _ = gpts()
    shared = {"max_new_tokens": 6, "warp": Warp(), "rng": KeyedRng(0)}
    texts = [[] for _ in QUEUE]
    drafter = ModelDrafter(gpts()[1])
    for r in speculate(target, drafter, QUEUE, k=2, verifier=verify_coupled, at_once=2, **shared):
        for name, emitted in zip(r.names, r.emitted, strict=True):
            texts[name] += emitted
    steps = list(generate(target, QUEUE, **shared))
    assert texts == [[step[row] for step in steps] for row in range(len(QUEUE))]


DRAFTER_RECIPES = {
    "looked-up-not-certain": look_ups_are_certain,
    "another-token-reported": look_ups_are_certain,
    "copy-begins-too-early": the_copy_begins_after_the_match,
    "drafted-tokens-looked-up": lambda: drafts_are_those_of_a_new_drafter(ngram),
    "exit-streams-kept": exits_text_is_the_targets,
    "exit-cache-not-rolled-back": lambda: caches_are_as_if_read_anew(on_the_target(0)[0]),
    "exit-with-the-last-norm": exit_drafts_by_its_own_norm,
    "heads-after-the-last-drafted": lambda: drafts_are_those_of_a_new_drafter(medusa),
    "predicted-features-kept": lambda: drafts_are_those_of_a_new_drafter(eagle),
    "feature-of-the-token-itself": lambda: drafts_are_those_of_a_new_drafter(eagle),
    "masks-stay-in-the-cache": lambda: drafts_are_those_of_a_new_drafter(parallel),
    "positions-by-slot": trees_text_is_the_targets,
    "siblings-see-each-other": trees_text_is_the_targets,
    "drafted-siblings-see-each-other": lambda: each_q_is_the_drafts(trees(0)[1]),
    "duplicate-siblings": candidates_have_a_chance,
    "siblings-not-rescaled": what_is_left_sums_to_one,
    "sibling-tested-against-p": trees_distribution_is_right,
    "longest-path-by-coins": trees_distribution_is_right,
    "after-the-root-not-the-path": trees_text_is_the_targets,
    "a-trees-first-tokens-committed": trees_text_is_the_targets,
    "wrong-sibling-kept": lambda: caches_are_as_if_read_anew(trees(0)[1]),
    "only-keys-moved": lambda: caches_are_as_if_read_anew(trees(0)[1]),
    "drafts-path-not-moved": lambda: caches_are_as_if_read_anew(trees(0)[1]),
    "predecessors-cache-seen": those_that_wait_say_the_same,
    "predecessors-length-kept": those_that_wait_say_the_same,
    "predecessors-budget-kept": those_that_wait_say_the_same,
    "drafter-not-restarted": lambda: each_q_is_the_drafts(waiting(0)[0]),
    "row-named-by-its-place": those_that_wait_say_the_same,
}
