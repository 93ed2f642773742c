"""What the field guide advises: the "See it." lines of docs/pitfalls.md, as a few lines of code each.

A recipe asserts something of the code as it is. `test_pitfalls.py` tries each on the shipped code, and on the
bug that it is for.
"""

import pytest
import tiny
import torch
from drafter_recipes import DRAFTER_RECIPES

from minispec import (
    Draft,
    ModelDrafter,
    SeededRng,
    Warp,
    check_verifier,
    generate,
    observe,
    verify_coupled,
    verify_greedy,
    verify_rejection,
)
from minispec.core.verify import residual
from minispec.evidence.checker.instances import standard_instances
from minispec.evidence.proof.cases import Case
from minispec.evidence.proof.distributions import (
    exact_distributions,
    speculative_distributions,
    total_variation,
)
from minispec.evidence.proof.first_token import first_token
from minispec.evidence.proof.models import table_pair
from minispec.evidence.zoo.check_state import EdgeRng
from minispec.native.decisions import native_rejection
from minispec.rules.block import verify_block
from minispec.rules.coupled import KeyedRng

PLAIN = Warp()


def probs(*weights):
    mass = torch.tensor(weights, dtype=torch.float64)
    return mass / mass.sum()


def warped(warp, *weights):
    return warp(probs(*weights).log()[None])[0]


def distribution_is_kept(p, q, rule=verify_rejection):
    """The distribution of the first token is p, up to rounding."""
    assert first_token(rule, p, q).distribution == pytest.approx(p, abs=1e-9)


def native_rule_is_lossless():
    assert check_verifier(native_rejection, instances=standard_instances()[:60]).passed


def block_is_lossless():
    several = [one for one in standard_instances() if one.k > 1 and one.vocab_size < 5]
    assert check_verifier(verify_block, instances=several[::2]).passed


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


def caps_are_kept():
    """Every cap from 1 to K + 2, for every K."""
    target, draft = tiny.table_pair(5, 0, 0.1)
    for k in (1, 2, 3):
        for cap in range(1, k + 3):
            assert {len(text) for text in texts(run(target, draft, k=k, cap=cap))} == {cap}


def ends_end(cap):
    """Texts are cut at the first end, for the reason that it is one."""
    target, draft = tiny.table_pair(5, 0, 0.1)
    (whole,) = texts(run(target, draft, cap=cap, warp=Warp(0), prompts=((1,),)))
    for end in set(whole):
        rounds = run(target, draft, cap=cap, warp=Warp(0), prompts=((1,),), eos=end)
        assert texts(rounds) == [whole[: whole.index(end) + 1]] and rounds[-1].finish == ("eos",)


def distributions_are_right(*prompts):
    """Each round's first distribution in each row, against a forward pass without a cache."""
    target, draft = tiny.gpt_pair()
    texts = [list(prompt) for prompt in prompts]
    for r in run(target, draft, cap=12, prompts=prompts):
        for row, text in enumerate(texts):
            assert torch.allclose(r.target_logits[row, 0], target(torch.tensor([text]))[0, -1])
            text += r.emitted[row]


def rows_are_as_if_alone():
    """Coupled, since its noise belongs to row and position: a row alone says what it says in a batch."""
    target, draft = tiny.gpt_pair()
    prompts, rng = ((1,), (0, 2, 3, 4)), KeyedRng(0)
    together = texts(run(target, draft, cap=12, rule=verify_coupled, prompts=prompts, rng=rng))
    assert together == alone(target, prompts, 12, Warp(), rng)
    assert together[0] == alone(target, prompts[:1], 12, Warp(), rng)[0]


def coupled_is_the_targets():
    target, draft = tiny.table_pair(5, 0)
    rounds = run(target, draft, rule=verify_coupled, rng=KeyedRng(3))
    assert texts(rounds) == alone(target, ((1,), (0, 2)), 9, Warp(), KeyedRng(3))


def joint_distribution_is_right(k=2, **changes):
    target, draft = table_pair(3)
    case = Case("small", target, draft, ((0,),), k, 3, **changes)
    ((came,), (should,)) = speculative_distributions(case).distributions, exact_distributions(case)
    assert total_variation(came, should) < 1e-9


def right_wrong_right_is_one():
    target = torch.eye(4)[None]  # the target says 0, 1, 2, 3
    draft = Draft(torch.tensor([[0, 3, 2]]), torch.full((1, 3, 4), 0.25))
    verdict = verify_greedy(draft, target, SeededRng(0))
    assert verdict.accepted.tolist() == [1]


def corrections_are_others():
    for p, q in ((probs(3, 2, 1), probs(1, 1, 4)), (probs(1, 5, 2), probs(4, 1, 3))):
        assert not residual(p, q)[q >= p].any()


def draws_of_rows_differ():
    assert len(set(SeededRng(0).bernoulli(torch.full((64,), 0.5)).tolist())) == 2


def draws_of_two_positions_differ(rng, **where):
    fair = torch.full((64, 2), 0.5)
    first, second = (rng.categorical(fair, **{key: i for key in where}) for i in range(2))
    assert not torch.equal(first, second)


def empty_rounds_leave_nothing_stale():
    """A round in which no draft fits before one in which it does: the next rounds go on."""
    target, _ = tiny.table_pair(5, 0)
    drafter, prompts = ModelDrafter(target), ((1,), (0, 2))
    settings = {"verifier": verify_rejection, "warp": Warp(), "rng": SeededRng(0)}
    (only,) = observe(target, drafter, prompts, k=2, max_new_tokens=1, **settings)
    assert only.draft.k == 0 and only.draft_cache.after == only.target_cache.after


def picked(uniform, *probabilities):
    return int(EdgeRng(uniform).categorical(torch.tensor([probabilities])))


def is_equal(found, wanted):
    assert found == wanted


def keeps(dist, count):
    assert int((dist > 0).sum()) == count


def sums_to_one(dist):
    assert float(dist.sum()) == pytest.approx(1)


def residual_of_equals_is_p():
    p = probs(3, 2, 1)
    assert torch.equal(residual(p, p), p)


RECIPES = DRAFTER_RECIPES | {
    "greedy-draft-soft-q": joint_distribution_is_right,
    "unwarped-q": lambda: joint_distribution_is_right(warp=Warp(top_k=2)),
    "q-without-temperature": lambda: joint_distribution_is_right(warp=Warp(0.7)),
    "stored-q-rounded": joint_distribution_is_right,
    "unsure-tokens-dropped": lambda: joint_distribution_is_right(k=1),
    "accept-if-a-fresh-draw-agrees": lambda: distribution_is_kept(probs(3, 2, 1), probs(1, 1, 4)),
    "one-number-for-all-places": joint_distribution_is_right,
    "test-reuses-the-draw": lambda: distribution_is_kept(probs(3, 2, 1), probs(1, 1, 4)),
    "rounded-ratio": joint_distribution_is_right,
    "ratio-inverted": lambda: distribution_is_kept(probs(1, 1), probs(1, 0)),
    "typical-acceptance": lambda: distribution_is_kept(probs(1, 1), probs(1, 0)),
    "going-on-after-a-rejection": joint_distribution_is_right,
    "drafts-support-for-p": lambda: distribution_is_kept(probs(1, 1), probs(1, 0)),
    "greedy-counts-all-matches": right_wrong_right_is_one,
    "coupled-going-on": coupled_is_the_targets,
    "no-way-out-of-a-zero-residual": residual_of_equals_is_p,
    "residual-absolute": corrections_are_others,
    "residual-with-an-epsilon": corrections_are_others,
    "correction-from-p": lambda: distribution_is_kept(probs(3, 2, 1), probs(1, 1, 4)),
    "residual-of-the-last-place": joint_distribution_is_right,
    "bonus-from-the-place-before": own_draft_writes_the_greedy_text,
    "bonus-from-the-draft": own_draft_writes_the_greedy_text,
    "top-k-keeps-ties": lambda: keeps(warped(Warp(top_k=2), 1, 1, 1, 1), 2),
    "top-p-one-short": lambda: (
        keeps(warped(Warp(top_p=0.6), 6, 4), 1),
        keeps(warped(Warp(top_p=0.61), 6, 4), 2),
    ),
    "top-p-of-the-whole": lambda: keeps(warped(Warp(top_k=2, top_p=0.5), 4, 3, 2, 1), 1),
    "cut-not-rescaled": lambda: sums_to_one(warped(Warp(top_k=2), 4, 3, 2, 1)),
    "temperature-after-the-cut": lambda: keeps(warped(Warp(2.0, top_p=0.6), 6, 3, 1), 2),
    "ties-to-the-highest-id": lambda: is_equal(int(Warp(0)(torch.ones(1, 4)).argmax()), 0),
    "seed-reset": lambda: draws_of_two_positions_differ(SeededRng(0)),
    "one-number-for-all-rows": draws_of_rows_differ,
    "chance-zero-passes": lambda: is_equal(EdgeRng(0.0).bernoulli(torch.zeros(1)).tolist(), [False]),
    "probability-zero-is-picked": lambda: is_equal(picked(0.0, 0, 0.5, 0.5), 1),
    "id-beyond-the-vocabulary": lambda: is_equal(picked(1 - 2**-53, 0.9, 0.1), 1),
    "noise-starts-anew-each-round": coupled_is_the_targets,
    "noise-without-position": lambda: draws_of_two_positions_differ(KeyedRng(0), positions=0),
    "stop-inside-the-draft-ignored": lambda: ends_end(9),
    "cap-hides-a-stop": lambda: [ends_end(cap) for cap in range(2, 9)],
    "overshoot": caps_are_kept,
    "cap-counted-in-rounds": caps_are_kept,
    "rollback-one-short": lengths_are_right,
    "rollback-one-too-far": lengths_are_right,
    "rows-cut-to-the-shortest": rows_are_as_if_alone,
    "prompt-padding-stays": rows_are_as_if_alone,
    "last-prompt-token-read-twice": lambda: distributions_are_right((1, 2, 3)),
    "leftovers-seen": rows_are_as_if_alone,
    "positions-not-rolled-back": lambda: distributions_are_right((1, 2, 3)),
    "positions-of-the-longest-row": lambda: distributions_are_right((1,), (0, 2, 3, 4)),
    "token-missing-in-the-drafts-cache": own_draft_is_accepted,
    "rejected-stay-in-the-drafts-cache": lengths_are_right,
    "drafts-rollback-one-too-far": lengths_are_right,
    "pending-read-again": own_draft_is_accepted,
    "stale-after-an-empty-round": empty_rounds_leave_nothing_stale,
    "block-ends-at-the-first-no": block_is_lossless,
    "block-coin-without-the-next": block_is_lossless,
    "block-ratio-clamped-late": block_is_lossless,
    "block-residual-of-a-token": block_is_lossless,
    "native-residual-reversed": native_rule_is_lossless,
    "native-number-used-twice": native_rule_is_lossless,
}
