"""What the field guide advises for any implementation: its list of six, as a few lines of code each.

A recipe asserts something of the code as it is. `test_pitfalls.py` tries each on the shipped code, and on
bugs that it finds.
"""

import pytest
import tiny
import torch

from minispec import (
    ModelDrafter,
    SeededRng,
    Warp,
    check_verifier,
    generate,
    observe,
    verify_coupled,
    verify_rejection,
)
from minispec.evidence.checker.instances import standard_instances
from minispec.evidence.proof.cases import Case
from minispec.evidence.proof.distributions import (
    exact_distributions,
    speculative_distributions,
    total_variation,
)
from minispec.evidence.proof.first_token import first_token
from minispec.evidence.proof.models import table_pair
from minispec.rules.block import verify_block
from minispec.rules.coupled import KeyedRng

PLAIN = Warp()


def probs(*weights):
    mass = torch.tensor(weights, dtype=torch.float64)
    return mass / mass.sum()


def distribution_is_kept(p, q, rule=verify_rejection):
    """The distribution of the first token is p, up to rounding."""
    assert first_token(rule, p, q).distribution == pytest.approx(p, abs=1e-9)


def run(
    target, draft, k=3, cap=9, rule=verify_rejection, warp=PLAIN, prompts=((1,), (0, 2)), rng=None, **more
):
    """Plays a run, of two rows unless told otherwise."""
    settings = {"k": k, "verifier": rule, "max_new_tokens": cap, "warp": warp, "rng": rng or SeededRng(0)}
    return list(observe(target, ModelDrafter(draft), prompts, **settings, **more))


def texts(rounds):
    return [[t for r in rounds for t in r.emitted[row]] for row in range(len(rounds[0].emitted))]


def alone(target, prompts, cap, warp, rng):
    steps = list(generate(target, prompts, max_new_tokens=cap, warp=warp, rng=rng))
    return [[step[row] for step in steps if step[row] is not None] for row in range(len(prompts))]


def own_draft_is_accepted():
    """The target as its own draft: every token is accepted, also in round 2."""
    target, _ = tiny.table_pair(5, 0)
    rounds = run(target, target, cap=30, prompts=((1,),))
    assert all(r.accepted(0) == r.drafted(0) for r in rounds) and len(rounds) > 1


def own_draft_writes_the_greedy_text():
    target, _ = tiny.table_pair(5, 0)
    rounds = run(target, target, warp=Warp(0))
    assert texts(rounds) == alone(target, ((1,), (0, 2)), 9, Warp(0), SeededRng(0))


def lengths_are_right():
    """Committed minus 1, in both caches, after each round."""
    target, draft = tiny.table_pair(5, 0, 0.4)
    lengths = [1, 2]
    for r in run(target, draft, cap=20):
        lengths = [n + len(emitted) for n, emitted in zip(lengths, r.emitted, strict=True)]
        assert list(r.target_cache.after) == list(r.draft_cache.after) == [n - 1 for n in lengths]


def ends_end(cap):
    """Texts are cut at the first end, for the reason that it is one."""
    target, draft = tiny.table_pair(5, 0, 0.1)
    (whole,) = texts(run(target, draft, cap=cap, warp=Warp(0), prompts=((1,),)))
    for end in set(whole):
        rounds = run(target, draft, cap=cap, warp=Warp(0), prompts=((1,),), eos=end)
        assert texts(rounds) == [whole[: whole.index(end) + 1]] and rounds[-1].finish == ("eos",)


def rows_are_as_if_alone():
    """Coupled, since its noise belongs to row and position: a row alone says what it says in a batch."""
    target, draft = tiny.gpt_pair()
    prompts = ((1,), (0, 2, 3, 4))
    rng = KeyedRng(0)
    together = texts(run(target, draft, cap=12, rule=verify_coupled, prompts=prompts, rng=rng))
    assert together == alone(target, prompts, 12, Warp(), rng)
    assert together[0] == alone(target, prompts[:1], 12, Warp(), rng)[0]


def joint_distribution_is_right(k=2, **changes):
    target, draft = table_pair(3)
    case = Case("small", target, draft, ((0,),), k, 3, **changes)
    ((came,), (should,)) = speculative_distributions(case).distributions, exact_distributions(case)
    assert total_variation(came, should) < 1e-9


def rule_is_lossless():
    several = [one for one in standard_instances() if one.k > 1 and one.vocab_size < 5]
    assert check_verifier(verify_block, instances=several[::2]).passed


RECIPES = {
    rule_is_lossless: ("block-ends-at-the-first-no", "block-residual-of-a-token"),
    lambda: distribution_is_kept(probs(3, 2, 1), probs(1, 1, 4)): (
        *("accept-if-a-fresh-draw-agrees", "test-reuses-the-draw", "correction-from-p"),
    ),
    lambda: distribution_is_kept(probs(1, 1), probs(1, 0)): ("ratio-inverted", "drafts-support-for-p"),
    joint_distribution_is_right: (
        *("greedy-draft-soft-q", "stored-q-rounded", "one-number-for-all-places", "rounded-ratio"),
        *("going-on-after-a-rejection", "residual-of-the-last-place"),
    ),
    lambda: joint_distribution_is_right(warp=Warp(top_k=2)): ("unwarped-q",),
    lambda: joint_distribution_is_right(warp=Warp(0.7)): ("q-without-temperature",),
    own_draft_is_accepted: ("token-missing-in-the-drafts-cache", "pending-read-again"),
    own_draft_writes_the_greedy_text: ("bonus-from-the-place-before", "bonus-from-the-draft"),
    lengths_are_right: (
        "rollback-one-short",
        "rejected-stay-in-the-drafts-cache",
        "drafts-rollback-one-too-far",
    ),
    lambda: [ends_end(cap) for cap in range(2, 10)]: ("stop-inside-the-draft-ignored", "cap-hides-a-stop"),
    rows_are_as_if_alone: ("rows-cut-to-the-shortest", "prompt-padding-stays", "leftovers-seen"),
}
