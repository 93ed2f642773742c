"""Every branch of a rule on many rows at once.

`EnumeratingRng` gives each row a script of its own. Here all rows follow one script, as tensors, and those
where an outcome is impossible drop out. So there are as many runs as one row can have branches, however many
rows there are.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Unpack

import torch
from torch import Tensor

from minispec.core.records import Draft, Verdict
from minispec.core.rng import CERTAIN, Which
from minispec.core.verify import Verifier


@dataclass(frozen=True)
class Branch:
    """One way through a rule's decisions.

    Attributes:
        rows: [b], which rows can take it.
        verdict: of these rows.
        weights: [b] float64, the probability of this branch in each; over all branches a row's sum is 1.
        draws: [b], how many decisions were open.
    """

    rows: Tensor
    verdict: Verdict
    weights: Tensor
    draws: Tensor


class BranchRng:
    """An `Rng` that gives all rows the same outcomes: those of a script, then the first that is possible.

    Attributes:
        weights: [B] float64, the probability of the outcomes so far.
        draws: [B], how many decisions were open so far.
        ways: of each decision the outcome that was taken, and the weights [B, n] that all had.
    """

    def __init__(self, rows: int, script: tuple[int, ...]) -> None:
        """Takes a script: an outcome a decision, which is an id, or 1 for yes and 0 for no."""
        self.script = script
        self.weights = torch.ones(rows, dtype=torch.float64)
        self.draws = torch.zeros(rows, dtype=torch.float64)
        self.ways: list[tuple[int, Tensor]] = []

    def bernoulli(self, probs: Tensor, **which: Unpack[Which]) -> Tensor:
        """Decides: probs [B] -> [B] bool (see `Rng`)."""
        yes = torch.where(probs < CERTAIN, probs.double().clamp(min=0), 1.0)
        return self._take(torch.stack([1 - yes, yes], dim=1), which) == 1

    def categorical(self, probs: Tensor, **which: Unpack[Which]) -> Tensor:
        """Picks: probs [B, V] -> [B] ids (see `Rng`)."""
        return self._take(probs.double() / probs.double().sum(-1, keepdim=True), which)

    def _take(self, probs: Tensor, which: Which) -> Tensor:
        """Takes an outcome, with probabilities [B, n]; what is not to be decided has outcome 0."""
        live = which.get("live")
        decided = self.weights > 0 if live is None else live & (self.weights > 0)
        nothing = torch.zeros_like(probs).index_fill_(1, torch.tensor(0), 1)
        probs = torch.where(decided[:, None], probs, nothing)
        weights, number = probs * self.weights[:, None], len(self.ways)
        taken = self.script[number] if number < len(self.script) else int(weights.sum(0).nonzero()[0, 0])
        self.ways.append((taken, weights))
        self.draws += (probs > 0).sum(-1) > 1
        self.weights = weights[:, taken]
        return torch.full(self.weights.shape, taken)


def every_branch(rule: Verifier, draft: Draft, target_probs: Tensor) -> Iterator[Branch]:
    """Yields every branch of a rule once, on all rows of a draft that can take it.

    Args:
        rule: an accept rule, whose rows do not depend on each other.
        draft: [B, K].
        target_probs: [B, K+1, V].
    """
    waiting: list[tuple[tuple[int, ...], Tensor]] = [((), torch.arange(len(target_probs)))]
    while waiting:
        script, rows = waiting.pop()
        parents = None if draft.parents is None else draft.parents[rows]
        some = Draft(draft.tokens[rows], draft.probs[rows], draft.lengths[rows], parents)
        rng = BranchRng(len(rows), script)
        verdict = rule(some, target_probs[rows], rng)
        taken = tuple(outcome for outcome, _ in rng.ways)
        for i in range(len(script), len(taken)):
            for other in range(rng.ways[i][1].shape[1]):
                able = rng.ways[i][1][:, other] > 0
                if other != taken[i] and bool(able.any()):
                    waiting.append(((*taken[:i], other), rows[able]))
        able = rng.weights > 0
        path = None if verdict.path is None else verdict.path[able]
        said = Verdict(verdict.accepted[able], verdict.token[able], path)
        yield Branch(rows[able], said, rng.weights[able], rng.draws[able])
