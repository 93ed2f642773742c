"""The stop rule: a draft ends after the token that made it doubtful, and that token stays."""

from dataclasses import replace

import pytest
import torch
from tiny import PAIRS, PROMPTS, CountingRng, outcome, table_pair

from minispec import (
    ModelDrafter,
    SeededRng,
    Warp,
    generate,
    record,
    speculate,
    verify_greedy,
    verify_rejection,
)
from minispec.core.records import Draft, Round, Verdict
from minispec.drafters.costs import Costs
from minispec.drafters.stopping import FixedStop, LearnedStop, StoppingDrafter
from minispec.evidence.proof.cases import Case, learning_to_stop, stopping
from minispec.evidence.proof.models import table_pair as small_pair
from minispec.evidence.proof.models import tiny_gpt_pair
from minispec.evidence.zoo.check_state import check_invariant

COSTS = Costs(t_draft=0.1, t_target={1: 1.0, 17: 2.6}, round=0.2, place=0.0)


def run(target, drafter, prompts, how=record, **changes):
    settings = {"k": 4, "verifier": verify_rejection, "max_new_tokens": 20, "warp": Warp()}
    return how(target, drafter, prompts, **{"rng": SeededRng(0)} | settings | changes)


@pytest.mark.parametrize("name", PAIRS)
def test_each_row_stops_after_its_doubtful_token(name):
    """Before the last token all so far was likely enough; with it, it is not, or the budget was used up."""
    target, draft = PAIRS[name]
    trace = run(target, StoppingDrafter(draft, FixedStop(0.5)), PROMPTS)
    lengths, apart, early = [len(p) for p in PROMPTS], 0, 0
    for r in trace.rounds:
        for row, n in enumerate(lengths):
            budget = len(PROMPTS[row]) + 20 - n
            drafted = r.drafted(row)
            if not r.live[row]:
                assert drafted == 0
                continue
            sure = r.draft.probs[row].gather(1, r.draft.tokens[row][:, None])[:drafted, 0].cumprod(0)
            assert drafted >= min(1, budget - 1) and bool((sure[:-1] >= 0.5).all())
            if drafted < min(4, budget - 1):
                assert sure[-1] < 0.5
                early += 1
        live = {r.drafted(row) for row, on in enumerate(r.live) if on}
        apart += len(live) > 1
        assert r.draft.k >= max(live)
        lengths = [n + len(more) for n, more in zip(lengths, r.emitted, strict=True)]
    assert early > 3 and apart > 1


def test_rows_that_have_stopped_draw_nothing():
    """As many open draws as drafted tokens, tests and last tokens: none for a row that has stopped."""
    target, draft = table_pair()
    drafter, rng = StoppingDrafter(draft, FixedStop(0.3)), CountingRng(2, len(PROMPTS))
    drafter.start(PROMPTS)
    drafted = drafter.propose(torch.tensor([p[-1] for p in PROMPTS]), 6, Warp(), rng)
    assert rng.draws == drafted.lengths.tolist() and len(set(rng.draws)) > 1


def test_rows_that_are_done_draft_nothing():
    """A row at its context's end no longer goes on, so it does not prolong the others' draft."""
    target, draft = table_pair()  # the context holds 40 tokens
    drafter = StoppingDrafter(draft, FixedStop(0.5))
    rounds = run(target, drafter, [[3], [1] * 38], speculate, k=2)
    last = next(r for r in rounds if r.finish[1] is not None)
    assert last.finish[0] is None
    with torch.inference_mode():  # as within the loop
        lengths = drafter.propose(torch.tensor([0, 0]), 2, Warp(), SeededRng(0)).lengths.tolist()
    assert lengths[0] >= 1 and lengths[1] == 0


def test_never_stopping_is_the_plain_drafter():
    """A threshold of 0 drafts K wherever the budget allows it, and with one seed gives the same text."""
    target, draft = table_pair()
    one = run(target, StoppingDrafter(draft, FixedStop(0)), PROMPTS)
    other = run(target, ModelDrafter(draft), PROMPTS)
    assert [one.tokens(row) for row in range(3)] == [other.tokens(row) for row in range(3)]
    assert [r.draft.k for r in one.rounds] == [r.draft.k for r in other.rounds]


@pytest.mark.parametrize("name", PAIRS)
def test_greedy_texts_are_target_only(name):
    """At temperature 0 confidence is still the softmax's: drafts stop early, and the text is the target's."""
    target, draft = PAIRS[name]
    drafter = StoppingDrafter(draft, FixedStop(0.7))
    rounds = run(target, drafter, PROMPTS, k=5, verifier=verify_greedy, warp=Warp(0)).rounds
    steps = list(generate(target, PROMPTS, max_new_tokens=20, warp=Warp(0), rng=SeededRng(0)))
    texts, _ = outcome(rounds, 3)
    assert texts == [[s[row] for s in steps if s[row] is not None] for row in range(3)]
    # All rows have a budget of 5 in the first two rounds: who drafts fewer has stopped.
    assert any(r.drafted(row) < 5 for r in rounds[:2] for row in range(3))


@pytest.mark.parametrize("make", [small_pair, tiny_gpt_pair])
@pytest.mark.parametrize("drafter", [stopping, learning_to_stop])
def test_both_caches_hold_all_but_the_pending_token(make, drafter):
    """After every round of every branch, for rows of a ragged batch that stop apart."""
    target, draft = make(vocab_size=2)
    rows = 512 if drafter is stopping else 1
    case = Case("invariant", target, draft, ((0,), (1, 0, 1)), 3, 3, drafter=drafter, rows=rows)
    assert check_invariant(case) is None


def test_the_first_threshold_by_hand():
    """At first: 2 tokens in the 1.2 s of a plain round; a token more takes 0.1 + 0.1 s; α is 0.8."""
    rule = LearnedStop(COSTS)
    assert rule.least() == pytest.approx(2 / 1.2 * (0.1 + 0.1) / 0.8)
    assert rule.probability(0.99) == pytest.approx(0.5 + (0.97 + 1) / 4)


def test_the_rule_learns_how_far_to_trust():
    """With a draft that is always right every confidence comes to mean more, and drafts become longer."""
    target, _ = table_pair()
    rule = LearnedStop(COSTS)
    before = {sure: rule.probability(sure) for sure in (0.1, 0.3, 0.6)}
    trace = run(target, StoppingDrafter(target, rule), [[3]], k=16, max_new_tokens=39)
    assert all(rule.probability(sure) > was for sure, was in before.items())
    other = LearnedStop(COSTS)
    wrong = table_pair(seed=7)[0]
    run(target, StoppingDrafter(wrong, other), [[3]], k=16, max_new_tokens=39)
    assert all(other.probability(sure) < rule.probability(sure) for sure in (0.1, 0.3, 0.6))
    widths = [r.draft.k for r in trace.rounds]
    assert max(widths) > widths[0]


def judged(k, accepted):
    """Returns a round in which each row drafted K tokens, and so many of them were accepted."""
    rows = len(accepted)
    draft = Draft(torch.zeros(rows, k).long(), torch.ones(rows, k, 1))
    dists = torch.ones(rows, k + 1, 1)
    verdict = Verdict(torch.tensor(accepted), torch.zeros(rows).long())
    return Round(
        index=0,
        pending=draft.tokens[:, 0],
        draft=draft,
        target_probs=dists,
        target_logits=dists,
        verdict=verdict,
        emitted=(),
        live=(True,) * rows,
        finish=(None,) * rows,
        lengths=(0,) * rows,
    )


def test_what_it_learns_from_a_round_by_hand():
    """Two rows of two tokens, one accepted whole; the other's second was not tested, so it says nothing."""
    costs = Costs(t_draft=0.1, t_target={1: 1.0, 3: 1.6}, catch_up=5.0, round=0.2, place=0.05)
    rule = LearnedStop(costs, weight=5.0, memory=0.5)
    sure, before = [[0.1, 0.4], [0.3, 0.6]], rule.probability(0.6)
    rule.learn(sure, judged(2, [2, 0]))
    guess = {0.1: 0.5 + 0.2 / 4, 0.4: 0.5 + 0.85 / 4, 0.3: 0.5 + 0.55 / 4}
    for confidence, kept in ((0.1, 1), (0.4, 1), (0.3, 0)):
        assert rule.probability(confidence) == pytest.approx((kept + 5 * guess[confidence]) / 6)
    assert rule.probability(0.6) == before
    gained = 0.5 * 2.0 + (3 + 1) / 2  # tokens a row: what was taken for granted counts half now
    seconds = 0.5 * 1.2 + (2 * 0.1 + 1.6 + 5.0 + 0.2 + 2 * 0.05)  # one row is enough to catch up
    average, extra = (2 + 5 * 0.8) / (3 + 5), 0.1 + 0.05 + 0.3
    assert rule.least() == pytest.approx(gained / seconds * extra / average)


def test_old_rounds_are_forgotten():
    """Sixty rounds in which all is accepted, and a memory of about two of them: the last two decide."""
    rule = LearnedStop(COSTS, weight=0.1, memory=0.5)
    for _ in range(60):
        rule.learn([[0.4]], judged(1, [1]))
    assert rule.probability(0.4) == pytest.approx((2 + 0.1 * (0.5 + 0.85 / 4)) / 2.1)
    assert rule.least() == pytest.approx(2 / COSTS.of_round(1, 1.0) * 0.2 / ((2 + 0.1 * 0.8) / 2.1))


def test_a_row_that_is_done_drafts_nothing_even_if_nothing_stops():
    """A threshold of 0 asks for no probability; the drafter itself knows that a row that is done has none."""
    seen = []

    class Noting(StoppingDrafter):
        def propose(self, *asked):
            draft = super().propose(*asked)
            seen.append(draft.lengths.tolist())
            return draft

    target, draft = table_pair()
    trace = run(target, Noting(draft, FixedStop(0.0)), PROMPTS, eos=1)
    rounds = [(own, r.live) for own, r in zip(seen, trace.rounds, strict=False)]
    assert any(not all(live) for _, live in rounds)
    for lengths, live in rounds:
        assert [n > 0 for n in lengths] == list(live)


def test_nothing_is_drafted_where_nothing_pays_and_then_tried_again():
    """Draft steps as dear as target steps: rounds without a draft, and one token every third round."""
    target, draft = table_pair()
    rule = LearnedStop(replace(COSTS, t_draft=1.5), retry=2)
    widths = [r.draft.k for r in run(target, StoppingDrafter(draft, rule), [[3]]).rounds]
    assert widths[:6] == [0, 0, 1, 0, 0, 1]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: FixedStop(1.1), "between 0 and 1"),
        (lambda: FixedStop(-0.1), "between 0 and 1"),
        (lambda: FixedStop(float("nan")), "between 0 and 1"),
        (lambda: LearnedStop(COSTS, weight=0), "cannot be"),
        (lambda: LearnedStop(COSTS, memory=1.5), "cannot be"),
    ],
)
def test_bad_input_is_one_line(call, words):
    """What cannot be is refused in one line that says why."""
    with pytest.raises(ValueError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)
