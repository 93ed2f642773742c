"""transformers' own speculative sampling, as a verifier: it is lossless but for a uniform number of 0."""

import inspect

import pytest
import torch

from minispec import Draft, Verdict
from minispec.evidence.checker.check import check_verifier
from minispec.evidence.checker.instances import fractions, one_token

transformers = pytest.importorskip("transformers.generation.utils", reason="needs the extra `peers`")


def transformers_rule(draft, target_probs, rng):
    """The function with which transformers' `generate` verifies what an assistant model proposed.

    It is handed what `generate` hands it: float32 logits (here logarithms of the probabilities), one row. It
    draws from torch's own generator. Where nothing is proposed, `generate` samples from the target instead.
    """
    if draft.tokens.shape[0] != 1:
        raise ValueError(f"transformers verifies one row at a time, not {draft.tokens.shape[0]}")
    function, n = transformers._speculative_sampling, int(draft.lengths[0])
    target_logits = target_probs[:, : n + 1].float().log()
    if n == 0:
        token = torch.multinomial(target_logits[:, 0].softmax(-1), num_samples=1)[:, 0]
        return Verdict(torch.zeros_like(token), token)
    # Up to 5.17 it is told whether the candidates already end the text; here they never do.
    done = (
        {"is_done_candidate": False} if "is_done_candidate" in inspect.signature(function).parameters else {}
    )
    tokens, matches = function(
        draft.tokens[:, :n], draft.probs[:, :n].float().log(), n, target_logits, **done
    )
    return Verdict(matches.reshape(1), tokens[:, -1])


def test_transformers_rule_is_sampled_row_by_row_and_passes():
    """A right rule fails once in 10^6 seeds; a distribution that is 0.2 off is missed once in 10^6."""
    report = check_verifier(transformers_rule, samples=30_000)
    assert report.passed and report.method == "sampled", report
    assert "one row at a time" in report.notes[0] and report.detects < 0.2


def test_a_uniform_number_of_exactly_0_lets_it_say_the_impossible(monkeypatch):
    """It accepts where u <= p/q, so u = 0 accepts what the target never says; `<` would not.

    In float32 torch's uniform numbers are 0 once in 2^24, so no sample of a reasonable size meets this.
    """
    monkeypatch.setattr(torch, "rand_like", torch.zeros_like)
    drafts = one_token(fractions(1, 0), fractions(0, 1)).drafts()
    draft = Draft(drafts.tokens, drafts.probs, drafts.lengths)
    assert transformers_rule(draft, drafts.target_probs, None).accepted.tolist() == [1]
