"""transformers' own speculative sampling, as a verifier; without transformers, one clear line."""

import sys

import pytest
import torch

from minispec import Draft
from minispec.evidence.checker.check import check_verifier
from minispec.evidence.checker.families import fractions, steady
from minispec.evidence.checker.peers import transformers_rule


@pytest.fixture
def transformers():
    return pytest.importorskip("transformers.generation.utils", reason="needs the extra `peers`")


def test_without_transformers_one_line_says_what_to_do(monkeypatch):
    """The check does not call the rule wrong: it says what is missing."""
    for name in [name for name in sys.modules if name.split(".")[0] == "transformers"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ImportError, match=r"pip install 'minispec\[peers\]'") as caught:
        check_verifier(transformers_rule)
    assert "\n" not in str(caught.value)


def test_it_takes_one_row():
    """Like transformers itself; `check_verifier` then hands over one row at a time."""
    rows = steady(fractions(1, 1), fractions(1, 1)).rows()
    with pytest.raises(ValueError, match="one row at a time, not 2"):
        transformers_rule(rows.draft(torch.arange(2)), rows.target_probs, None)


def test_transformers_rule_is_sampled_and_passes(transformers):
    """A right rule fails once in 10^6 seeds; a law that is 0.2 off is missed once in 10^6."""
    report = check_verifier(transformers_rule, samples=30_000)
    assert report.passed and report.method == "sampled", report
    assert report.detects < 0.2


def test_a_coin_of_exactly_0_lets_it_say_the_impossible(transformers, monkeypatch):
    """It accepts where u <= p/q, so u = 0 accepts what the target never says; `<` would not.

    In float32 torch's uniform numbers are 0 once in 2^24, so no sample of a reasonable size meets this.
    """
    monkeypatch.setattr(torch, "rand_like", torch.zeros_like)
    rows = steady(fractions(1, 0), fractions(0, 1)).rows()
    draft = Draft(rows.tokens, rows.probs, rows.lengths)
    verdict = transformers_rule(draft, rows.target_probs, None)
    assert verdict.accepted.tolist() == [1]
