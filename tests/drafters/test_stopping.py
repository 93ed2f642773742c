"""The stop rule: a draft ends after the token that made it doubtful, and that token stays."""

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
from minispec.drafters.stopping import StoppingDrafter
from minispec.evidence.proof.cases import DRAFTERS, Case
from minispec.evidence.proof.models import table_pair as small_pair
from minispec.evidence.proof.models import tiny_gpt_pair
from minispec.evidence.zoo.check_state import check_invariant


def run(target, drafter, prompts, how=record, **changes):
    settings = {"k": 4, "verifier": verify_rejection, "max_new_tokens": 20, "warp": Warp()}
    return how(target, drafter, prompts, **{"rng": SeededRng(0)} | settings | changes)


@pytest.mark.parametrize("name", PAIRS)
def test_each_row_stops_after_its_doubtful_token(name):
    """Before the last token all so far was likely enough; with it, it is not, or the budget was used up."""
    target, draft = PAIRS[name]
    trace = run(target, StoppingDrafter(draft, 0.5), PROMPTS)
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
    drafter, rng = StoppingDrafter(draft, 0.3), CountingRng(2, len(PROMPTS))
    drafter.start(PROMPTS)
    drafted = drafter.propose(torch.tensor([p[-1] for p in PROMPTS]), 6, Warp(), rng)
    assert rng.draws == drafted.lengths.tolist() and len(set(rng.draws)) > 1


def test_rows_that_are_done_draft_nothing():
    """A row at its context's end no longer goes on, so it does not prolong the others' draft."""
    target, draft = table_pair()  # the context holds 40 tokens
    drafter = StoppingDrafter(draft, 0.5)
    rounds = run(target, drafter, [[3], [1] * 38], speculate, k=2)
    last = next(r for r in rounds if r.finish[1] is not None)
    assert last.finish[0] is None
    with torch.inference_mode():  # as within the loop
        lengths = drafter.propose(torch.tensor([0, 0]), 2, Warp(), SeededRng(0)).lengths.tolist()
    assert lengths[0] >= 1 and lengths[1] == 0


def test_a_drafter_serves_another_run():
    """After three rows, one of which was cut, a run of one row drafts as a new drafter does."""
    target, draft = table_pair()
    drafter = StoppingDrafter(draft, 0.5)
    run(target, drafter, PROMPTS)
    again, new = (run(target, one, PROMPTS[:1]) for one in (drafter, StoppingDrafter(draft, 0.5)))
    assert again.tokens(0) == new.tokens(0)


def test_never_stopping_is_the_plain_drafter():
    """A threshold of 0 drafts K wherever the budget allows it, and with one seed gives the same text."""
    target, draft = table_pair()
    one = run(target, StoppingDrafter(draft, 0), PROMPTS)
    other = run(target, ModelDrafter(draft), PROMPTS)
    assert [one.tokens(row) for row in range(3)] == [other.tokens(row) for row in range(3)]
    assert [r.draft.k for r in one.rounds] == [r.draft.k for r in other.rounds]


@pytest.mark.parametrize("name", PAIRS)
def test_greedy_texts_are_target_only(name):
    """At temperature 0 confidence is still the softmax's: drafts stop early, and the text is the target's."""
    target, draft = PAIRS[name]
    drafter = StoppingDrafter(draft, 0.7)
    rounds = run(target, drafter, PROMPTS, k=5, verifier=verify_greedy, warp=Warp(0)).rounds
    steps = list(generate(target, PROMPTS, max_new_tokens=20, warp=Warp(0), rng=SeededRng(0)))
    texts, _ = outcome(rounds, 3)
    assert texts == [[s[row] for s in steps if s[row] is not None] for row in range(3)]
    # All rows have a budget of 5 in the first two rounds: who drafts fewer has stopped.
    assert any(r.drafted(row) < 5 for r in rounds[:2] for row in range(3))


@pytest.mark.parametrize("make", [small_pair, tiny_gpt_pair])
def test_both_caches_hold_all_but_the_pending_token(make):
    """After every round of every branch, for rows of a ragged batch that stop apart."""
    target, draft = make(vocab_size=2)
    case = Case("invariant", target, draft, ((0,), (1, 0, 1)), 3, 3, drafter=DRAFTERS["stopping"])
    assert check_invariant(case) is None


def test_a_row_that_is_done_drafts_nothing_even_if_nothing_stops():
    """A threshold of 0 asks for no probability; the drafter itself knows that a row that is done has none."""
    seen = []

    class Noting(StoppingDrafter):
        def propose(self, *asked):
            draft = super().propose(*asked)
            seen.append(draft.lengths.tolist())
            return draft

    target, draft = table_pair()
    trace = run(target, Noting(draft, 0.0), PROMPTS, eos=1)
    rounds = [(own, r.live) for own, r in zip(seen, trace.rounds, strict=False)]
    assert any(not all(live) for _, live in rounds)
    for lengths, live in rounds:
        assert [n > 0 for n in lengths] == list(live)


@pytest.mark.parametrize("least", [1.1, -0.1, float("nan")])
def test_bad_input_is_one_line(least):
    """What is no probability is refused in one line that says why."""
    with pytest.raises(ValueError, match="between 0 and 1") as caught:
        StoppingDrafter(table_pair()[1], least)
    assert "\n" not in str(caught.value)
