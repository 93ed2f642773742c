"""What engines return becomes a verdict, for chains and trees; what cannot be one is refused."""

import pytest
import torch

from minispec import Draft, check_verifier, verify_rejection
from minispec.evidence.checker.adapter import verdict_of
from minispec.evidence.checker.instances import standard_instances, tree_instances
from minispec.verifiers.tree import verify_tree

FAMILY = standard_instances()
Q = torch.full((3, 4, 3), 1 / 3)


def emitted_by(verdict, draft, placeholder):
    """Writes a verdict as engines do: [B, K+1], the kept tokens, the next one, and padding."""
    ids = torch.full((len(verdict.token), draft.k + 1), placeholder)
    for row, kept in enumerate(verdict.kept()):
        said = [*draft.tokens[row, kept].tolist(), int(verdict.token[row])]
        ids[row, : len(said)] = torch.tensor(said)
    return ids


@pytest.mark.parametrize("placeholder", [-1, 99])
@pytest.mark.parametrize(
    ("rule", "instances"),
    [(verify_rejection, FAMILY[::6]), (verify_tree, tree_instances("with replacement")[::2])],
)
def test_a_rule_that_returns_ids_is_enumerated(rule, instances, placeholder):
    """It passes, with the branches of the rule itself."""

    def engine(draft, p, rng):
        return verdict_of(emitted_by(rule.decide(draft, p, rng), draft, placeholder), draft, placeholder)

    plain, report = (check_verifier(one, instances=instances) for one in (rule, engine))
    assert report.passed and report.method == "exact" and report.branches == plain.branches


def test_a_tree_is_read():
    """Tokens 0, 0 first; after the first 1, after the second 2. The text 0 2 leads through the second."""
    draft = Draft(torch.tensor([[0, 0, 1, 2]] * 3), Q, parents=torch.tensor([[0, 0, 1, 2]] * 3))
    verdict = verdict_of(torch.tensor([[0, 2, 1], [0, 1, 1], [0, 0, -1]]), draft)
    assert verdict.kept() == [[1, 3], [0, 2], [0]] and verdict.token.tolist() == [1, 1, 0]


@pytest.mark.parametrize(
    ("ids", "says"),
    [
        ([[-1, -1, -1]], "only then padding"),
        ([[1, -1, 2]], "only then padding"),
        ([[2, 2, 0]], r"\[2, 2\] is kept, and was not drafted"),
        ([[1, 0, 0]], r"\[1, 0\] is kept"),
        ([[1, 2, 2, 0]], r"\[1, 2, 2\] is kept"),
    ],
)
def test_what_is_no_verdict_is_refused(ids, says):
    """Nothing, a gap, other tokens than the drafted ones, and more of them, padding included."""
    draft = Draft(torch.tensor([[1, 2, 2]]), Q[:1, :3], torch.tensor([2]))
    with pytest.raises(ValueError, match=says):
        verdict_of(torch.tensor(ids), draft)
