"""More can be accepted than 1 − TV(p, q) a position, without loss: block verification, beside the token rule.

The package has no such rule. The one below is a reference for the sentences on pages and cards that say so.
"""

import re
from fractions import Fraction
from itertools import product
from pathlib import Path

import pytest
import torch

from minispec import Draft, Verdict, verify_rejection
from minispec.evidence.checker.check import check_verifier
from minispec.evidence.checker.instances import standard_instances
from minispec.evidence.proof.enumeration import enumerate_branches

ROOT = Path(__file__).resolve().parents[3]
P, Q = (1 / 3, 2 / 3), (2 / 3, 1 / 3)  # TV = 1/3


def verify_block(draft, target_probs, rng):
    """Sun et al. 2024, algorithm 2: a coin at every position; what the last success ends is accepted."""
    p, q, each = target_probs.double(), draft.probs.double(), torch.arange(len(target_probs))
    q = torch.cat([q, torch.zeros_like(p[:, :1])], dim=1)  # [B, K+1, V]; nothing is drafted after K tokens
    weight, accepted = torch.ones(len(p), dtype=torch.double), torch.zeros(len(p), dtype=torch.long)
    lacking = [(p[:, 0] - q[:, 0] * (draft.lengths > 0)[:, None]).clamp(min=0)]  # w · p − q at each position
    for i in range(1, draft.k + 1):
        x, last = draft.tokens[:, i - 1], draft.lengths == i
        weight = (weight * p[each, i - 1, x] / q[each, i - 1, x]).nan_to_num(0).clamp(max=1)
        lacking += [torch.where(last[:, None], p[:, i], (weight[:, None] * p[:, i] - q[:, i]).clamp(min=0))]
        short = lacking[i].sum(-1)
        success = torch.where(last, weight, (short / (short + (1 - weight))).nan_to_num(1))
        accepted[rng.bernoulli(success, positions=i - 1, live=draft.lengths >= i)] = i
    dist = torch.stack(lacking, dim=1)[each, accepted]  # [B, V]
    dist = torch.where(dist.sum(-1, keepdim=True) > 0, dist, p[each, accepted])
    return Verdict(accepted, rng.categorical(dist / dist.sum(-1, keepdim=True), positions=accepted))


verify_block.stops_at_first_rejection = False


def accepted_tokens(rule, k):
    """The mean number of accepted tokens of a round, and of tested ones, over all drafts and branches."""
    q = torch.tensor(Q, dtype=torch.double)

    def run(rng, drafts):
        rows = len(drafts)
        draft = Draft(torch.tensor(drafts), q.repeat(rows, k, 1))
        p = torch.tensor(P, dtype=torch.double).repeat(rows, k + 1, 1)
        return rule(draft, p, rng).accepted.tolist()

    accepted = tested = 0.0
    for drafted, count, weight in enumerate_branches(run, list(product((0, 1), repeat=k))):
        probability = weight * float(q[list(drafted)].prod())
        accepted, tested = accepted + probability * count, tested + probability * min(count + 1, k)
    return accepted, tested


def test_the_reference_is_lossless():
    """On every instance that `check_verifier` tries, ragged rows included."""
    few = [one for one in standard_instances() if one.k <= 3 and one.vocab_size <= 3]
    assert check_verifier(verify_block, instances=few).passed and len(few) > 50


@pytest.mark.parametrize(
    ("rule", "says"), [(verify_rejection, Fraction(10, 9)), (verify_block, Fraction(11, 9))]
)
def test_block_verification_accepts_more_than_the_token_rule(rule, says):
    """K = 2, and the page says both numbers. The token rule accepts 1 − TV of what it tests; block, more."""
    accepted, tested = accepted_tokens(rule, 2)
    assert accepted == pytest.approx(float(says), abs=1e-12)
    page = (ROOT / "docs/explanation/field.md").read_text(encoding="utf-8")
    assert re.search(rf"\${says}\$|= {says}\$", page)
    assert (accepted / tested > 2 / 3 + 0.05) is (rule is verify_block)  # 11/15, and 2/3


def test_with_one_drafted_token_they_accept_alike():
    """At one position with one candidate 1 − TV is the most that a lossless rule can accept."""
    assert accepted_tokens(verify_block, 1)[0] == pytest.approx(2 / 3, abs=1e-12)
    assert accepted_tokens(verify_rejection, 1)[0] == pytest.approx(2 / 3, abs=1e-12)
