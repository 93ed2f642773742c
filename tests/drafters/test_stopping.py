"""The stop rule: a draft ends after the token that made it doubtful, and that token stays."""

import pytest
import torch
from refusals import refused
from tiny import PAIRS, PROMPTS, CountingRng, begin, decode, drafting, live_rows, table_pair, targets_own_text

from minispec import ModelDrafter, Warp
from minispec.drafters.stopping import StoppingDrafter


@pytest.mark.parametrize("name", PAIRS)
def test_each_row_stops_after_its_doubtful_token(name):
    """Before the last token all so far was likely enough; with it, it is not, or the budget was used up."""
    target, draft = PAIRS[name]
    early = 0
    drafts = {}
    for r, row, text, drafted in live_rows(decode(target, StoppingDrafter(draft, 0.5), k=4)):
        most = min(4, len(PROMPTS[row]) + 20 - len(text) - 1)
        sure = r.draft.probs[row].gather(1, r.draft.tokens[row][:, None])[: len(drafted), 0].cumprod(0)
        assert len(drafted) >= min(1, most) and bool((sure[:-1] >= 0.5).all())
        if len(drafted) < most:
            assert sure[-1] < 0.5
            early += 1
        drafts.setdefault(r.index, set()).add(len(drafted))
    assert early > 3 and sum(len(lengths) > 1 for lengths in drafts.values()) > 1


def test_rows_that_have_stopped_draw_nothing():
    """As many open draws as drafted tokens, tests and last tokens: none for a row that has stopped."""
    target, draft = table_pair()
    drafter = StoppingDrafter(draft, 0.3)
    rng = CountingRng(2, len(PROMPTS))
    begin(drafter, PROMPTS)
    drafted = drafter.propose(torch.tensor([p[-1] for p in PROMPTS]), 6, Warp(), drafting(rng, len(PROMPTS)))
    assert rng.draws == drafted.lengths.tolist() and len(set(rng.draws)) > 1


def test_a_drafter_serves_another_run():
    """After three rows, one of which was cut, a run of one row drafts as a new drafter does."""
    target, draft = table_pair()
    used = StoppingDrafter(draft, 0.5)
    list(decode(target, used))
    again, wanted = (
        list(decode(target, drafter, PROMPTS[:1])) for drafter in (used, StoppingDrafter(draft, 0.5))
    )
    assert [r.emitted for r in again] == [r.emitted for r in wanted]


def test_never_stopping_is_the_plain_drafter():
    """A threshold of 0 drafts K wherever the budget allows it, and with one seed gives the same text."""
    target, draft = table_pair()
    ours, wanted = (list(decode(target, each)) for each in (StoppingDrafter(draft, 0), ModelDrafter(draft)))
    assert [(r.draft.k, r.emitted) for r in ours] == [(r.draft.k, r.emitted) for r in wanted]


@pytest.mark.parametrize("name", PAIRS)
def test_greedy_texts_are_target_only(name):
    """At temperature 0 confidence is still the softmax's: drafts stop early, and the text is the target's."""
    target, draft = PAIRS[name]
    rounds = targets_own_text(target, StoppingDrafter(draft, 0.7), k=5)
    # All rows have a budget of 5 in the first two rounds: who drafts fewer has stopped.
    assert any(r.drafted(row) < 5 for r in rounds[:2] for row in range(3))


def test_a_row_that_is_done_drafts_nothing_even_if_nothing_stops():
    """A threshold of 0 asks for no probability; the drafter itself knows that a row that is done has none."""
    proposed = []

    class Noting(StoppingDrafter):
        def propose(self, *asked):
            draft = super().propose(*asked)
            proposed.append([n > 0 for n in draft.lengths.tolist()])
            return draft

    target, draft = table_pair()
    live = [list(r.live) for r in decode(target, Noting(draft, 0.0), k=4, eos=1)]
    assert [True] * 3 != live[-1]
    assert proposed == live[: len(proposed)]


@pytest.mark.parametrize("least", [1.1, -0.1, float("nan")])
def test_bad_input_is_one_line(least):
    """What is no probability is refused in one line that says why."""
    with refused("between 0 and 1"):
        StoppingDrafter(table_pair()[1], least)
