"""Slow right answers pass: whoever takes one row after another is not handed batches too large for that."""

import sys
import time
from functools import partialmethod
from pathlib import Path

import pytest
import torch

from minispec import Draft
from minispec.classroom import check
from minispec.classroom.exercises import sampling

sys.path.insert(0, str(Path(__file__).parent))
from variants import draft_row_after_row, verifier_row_after_row  # noqa: E402


def test_a_draft_of_row_after_row_passes():
    """It asks for the draws of one row at a time, in a batch of several rows."""
    assert check("remember-q", draft_row_after_row, strict=True).passed


def counted(rule, rows):
    """Returns a rule that notes how many rows it is handed."""

    def noted(draft, target_probs, rng):
        rows.append(len(draft.tokens))
        return rule(draft, target_probs, rng)

    return noted


def test_a_verifier_of_row_after_row_is_enumerated_like_any_other():
    """All instances, every branch, no samples; and never more rows than an instance has drafts."""
    rows = []
    card = check("write-the-verifier", counted(verifier_row_after_row, rows))
    assert card.passed and "enumerated: " in card.detail and "sampled" not in card.detail
    assert "on 305 instances" in card.detail and max(rows) <= 512 and sum(rows) < 20_000


def shares_the_first_row(draft, target_probs, rng):
    """A wrong rule: every row is tested against the distributions of the batch's first one."""
    return verifier_row_after_row(draft, target_probs[:1].expand_as(target_probs), rng)


class Remembers:
    """A generator for one row: what another row asked as its n-th question is answered as it was there."""

    def __init__(self, rng, known):
        self.rng = rng
        self.known = known
        self.asked = 0

    def ask(self, decide, probs):
        self.asked += 1
        key = (decide, self.asked, *probs.flatten().tolist())
        if key not in self.known:
            self.known[key] = getattr(self.rng, decide)(probs)
        return self.known[key]

    bernoulli = partialmethod(ask, "bernoulli")
    categorical = partialmethod(ask, "categorical")


def shares_its_numbers(draft, target_probs, rng):
    """A wrong rule: rows whose ratios are equal are decided by one number."""
    known = {}
    return verifier_row_after_row(draft, target_probs, rng, lambda rng: Remembers(rng, known))


@pytest.mark.parametrize("rule", [shares_the_first_row, shares_its_numbers])
def test_rows_that_influence_each_other_are_found(monkeypatch, rule):
    """Each row alone is right: only batches of two, enumerated as a whole, show it."""
    monkeypatch.setattr(sampling, "standard_instances", lambda: sampling.TELLING_INSTANCES)
    card = check("write-the-verifier", rule)
    assert not card.passed and sampling.ROWS_DEPEND in card.text()
    assert "two rows in one batch" in card.detail and "should have probability" in card.detail


def test_a_draft_that_draws_once_for_all_rows_is_found():
    """Each row alone has the right distribution; two rows always draw the same."""

    def once(model, cache, pending, k, warp, rng):
        token, tokens, probs = pending, [], []
        for _ in range(k):
            probs.append(warp(model(token[:, None], cache)[:, -1]))
            token = rng.categorical(probs[-1][:1]).expand(len(pending))
            tokens.append(token)
        return Draft(torch.stack(tokens, 1), torch.stack(probs, 1))

    card = check("remember-q", once)
    assert not card.passed and "independently" in card.text()


def test_a_test_that_takes_too_long_is_told_how_far_it_came(monkeypatch):
    """And what makes it faster."""
    monkeypatch.setattr(sampling, "SECONDS", 1)
    asked = []

    def stuck(verifier):
        asked.append(verifier)
        while len(asked) == 3:
            time.sleep(0.01)
        return True

    text = check("write-a-test", stuck).text()
    assert "come to an end for 2 of 11 rules" in text
    assert "with a draft of many rows" in text
