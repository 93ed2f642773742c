"""An EAGLE-3 head in the proof: what it drafts from is worked out by hand, and planted faults are seen."""

from dataclasses import replace

import pytest

from minispec.drafters.eagle3 import Eagle3Drafter, Eagle3GPT
from minispec.evidence.proof.distributions import branches
from minispec.evidence.proof.families import family_cases
from minispec.evidence.zoo.check_distributions import (
    check_acceptance,
    check_distribution,
    check_draft_distribution,
)

CASES = {case.name: case for case in family_cases("self_drafting", 0, 0) if "eagle3" in case.name}
HEADS = [replace(case, max_new_tokens=3) for case in CASES.values() if case.drafter_name == "eagle3"]
PLAIN = HEADS[0]


@pytest.mark.parametrize("case", HEADS, ids=lambda case: case.name)
def test_a_head_drafts_from_what_was_worked_out_by_hand(case):
    """Without a cache, after all texts, those of one token too; and it is accepted as p and q overlap."""
    assert check_draft_distribution(case) is None and check_acceptance(case) is None


def test_ids_that_are_shifted_are_seen(monkeypatch):
    """Still lossless, for q is what was drawn from; but not what the head predicts."""
    head = Eagle3GPT.head
    monkeypatch.setattr(Eagle3GPT, "head", lambda *given: head(*given).roll(1, -1))
    assert check_distribution(PLAIN) is None
    assert "it reports" in check_draft_distribution(PLAIN)


def test_a_q_of_other_ids_than_were_drawn_is_seen(monkeypatch):
    """The head's own places are taken for ids where q is reported: the output is another one."""
    propose = Eagle3Drafter.propose

    def reported(*given):
        draft = propose(*given)
        q = draft.probs.roll(1, -1)
        return replace(draft, probs=q.lerp(draft.probs, 1e-9))  # what was drawn keeps some probability

    monkeypatch.setattr(Eagle3Drafter, "propose", reported)
    assert "off by" in check_distribution(PLAIN)


def test_a_choice_looks_up_where_the_text_repeats_itself_and_asks_the_head_elsewhere():
    """In the cases of the proof both come up, and both are accepted and rejected."""
    seen = set()
    for branch in branches(CASES["GPT 0, 6 layers, eagle3-auto"]):
        for step in branch.steps:
            if step.drafted:
                seen.add((all(max(q) == 1 for q in step.q), 0 < step.accepted))
    assert len(seen) == 4
