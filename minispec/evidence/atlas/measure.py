"""What a rule comes to, exactly: at one position by every branch, in a chain by its coins.

`EnumeratingRng` gives each row a script of its own. Here all rows follow one script, as tensors, and those
where an outcome is impossible drop out. So there are as many runs as one row can have branches, however many
rows there are.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from minispec.core.records import Verdict
from minispec.core.rng import CERTAIN, Place
from minispec.core.verify import Verifier
from minispec.evidence.checker.instance import PossibleDrafts


class Branch(NamedTuple):
    """One way through a rule's decisions, for some rows [b]."""

    rows: Tensor  #: [b], which rows took it
    verdict: Verdict  #: of these rows
    weights: Tensor  #: [b] float64, how likely it is for each; 0 if only others can take it; together 1
    draws: Tensor  #: [b], how many decisions were open


class Outcome(NamedTuple):
    """What a rule does with all drafts of one position, in each of N positions: [N, V] and [N]."""

    emitted: Tensor  #: [N, V] float64, the distribution of the first token that is emitted
    accepted: Tensor  #: [N], the probability that it is a candidate that was accepted
    draws: Tensor  #: [N], the mean number of random numbers, without that for the token after an accepted one


class BranchRng:
    """An `Rng` that gives all rows the same outcomes: those of a script, then the first that is possible."""

    def __init__(self, rows: int, script: tuple[int, ...]) -> None:
        """Takes a script: an outcome a decision, which is an id, or 1 for yes and 0 for no."""
        self.script = script
        self.weights = torch.ones(rows, dtype=torch.float64)  # probability of the outcomes so far
        self.draws = torch.zeros(rows, dtype=torch.float64)  # how many decisions were open so far
        self.ways: list[tuple[int, Tensor]] = []  # the outcome taken, and the weights [B, n] that all had

    def bernoulli(self, probs: Tensor, place: Place | None = None) -> Tensor:
        """Decides: probs [B] -> [B] bool (see `Rng`)."""
        probability = torch.where(probs < CERTAIN, probs.double().clamp(min=0), 1.0)
        return self._take(torch.stack([1 - probability, probability], dim=1), place) == 1

    def categorical(self, probs: Tensor, place: Place | None = None) -> Tensor:
        """Picks: probs [B, V] -> [B] ids (see `Rng`)."""
        return self._take(probs.double() / probs.double().sum(-1, keepdim=True), place)

    def _take(self, probs: Tensor, place: Place | None) -> Tensor:
        """Takes an outcome, with probabilities [B, n]; what is not to be decided has outcome 0."""
        is_decided = self.weights > 0
        if place is not None and place.live is not None:
            is_decided = is_decided & place.live
        first_outcome = torch.zeros_like(probs).index_fill_(1, torch.tensor(0), 1)
        probs = torch.where(is_decided[:, None], probs, first_outcome)
        weights = probs * self.weights[:, None]
        decision = len(self.ways)
        choice = self.script[decision] if decision < len(self.script) else int(weights.sum(0).nonzero()[0, 0])
        self.ways.append((choice, weights))
        self.draws += (probs > 0).sum(-1) > 1
        self.weights = weights[:, choice]
        return torch.full(self.weights.shape, choice)


def every_branch(verifier: Verifier, drafts: PossibleDrafts) -> Iterator[Branch]:
    """Yields every branch of a rule once, on all drafts that can take it; rows may not see each other."""
    queue: list[tuple[tuple[int, ...], Tensor]] = [((), torch.arange(len(drafts)))]
    while queue:
        script, rows = queue.pop()
        rng = BranchRng(len(rows), script)
        verdict = verifier(*drafts.rows(rows), rng)
        choices = tuple(outcome for outcome, _ in rng.ways)
        for i, (way, weights) in enumerate(rng.ways):
            for sibling, possible in enumerate((weights > 0).T):
                if i >= len(script) and sibling != way and bool(possible.any()):
                    queue.append(((*choices[:i], sibling), rows[possible]))
        yield Branch(rows, verdict, rng.weights, rng.draws)


def outcome(verifier: Verifier, drafts: PossibleDrafts) -> Outcome:
    """Takes every branch of a rule on the drafts that `family.candidates` returns."""
    positions = drafts.prefixes[:, 0]
    count = int(positions.max()) + 1
    emitted = torch.zeros(count, drafts.target_probs.shape[-1], dtype=torch.float64)
    accepted = emitted.new_zeros(count)
    draws = emitted.new_zeros(count)
    for branch in every_branch(verifier, drafts):
        verdict = branch.verdict
        position_ids = positions[branch.rows]
        weights = branch.weights * drafts.weights[branch.rows]
        is_accepted = verdict.accepted > 0
        accepted_ids = (
            torch.zeros_like(verdict.token) if verdict.path is None else verdict.path.long().argmax(-1)
        )
        first = torch.where(is_accepted, drafts.draft.tokens[branch.rows, accepted_ids], verdict.token)
        emitted.index_put_((position_ids, first), weights, accumulate=True)
        accepted.index_add_(0, position_ids, weights * is_accepted)
        draws.index_add_(0, position_ids, weights * branch.draws)
    return Outcome(emitted, accepted, draws)


class ConstantRng:
    """An `Rng` that answers yes always, or no, and remembers the probabilities of yes."""

    def __init__(self, answer: bool) -> None:
        """Takes its answer."""
        self.answer = answer
        self.probabilities: list[Tensor] = []  # of each question [B] float64, 0 where nothing was asked

    def bernoulli(self, probs: Tensor, place: Place | None = None) -> Tensor:
        """Answers the same always: probs [B] -> [B] bool (see `Rng`)."""
        live = None if place is None else place.live
        self.probabilities.append(probs.double() if live is None else probs.double() * live)
        return torch.full(probs.shape, self.answer)

    def categorical(self, probs: Tensor, place: Place | None = None) -> Tensor:
        """Picks the first id: probs [B, V] -> [B] ids (see `Rng`)."""
        return torch.zeros(len(probs), dtype=torch.long)


def expected_accepted(verifier: Verifier, drafts: PossibleDrafts) -> Tensor:
    """Returns how many tokens of each draft a rule for chains accepts on average: [B].

    A rule that stops accepts i tokens if its first i coins accept, another one if any coin from the i-th on
    does. So the coins' probabilities are enough, and they come from answering yes each time. Only for rules
    whose only decisions about drafted tokens are coins, one a token, such as `verify_block`.
    """
    rng = ConstantRng(answer=True)
    verifier(drafts.draft, drafts.target_probs, rng)
    coins = torch.stack(rng.probabilities, dim=1)  # [B, K]
    if verifier.stops_at_first_rejection:
        return coins.cumprod(-1).sum(-1)
    return (1 - (1 - coins).flip(-1).cumprod(-1)).sum(-1)


class NumberCounter(TorchFunctionMode):
    """Counts the numbers that torch goes through: those of each operation's largest tensor, but for views."""

    numbers = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if (
            isinstance(result, Tensor)
            and not result._is_view()
            and all(result is not tensor for tensor in args)
        ):
            self.numbers += max(tensor.numel() for tensor in (*args, result) if isinstance(tensor, Tensor))
        return result


def passes(verifier: Verifier, drafts: PossibleDrafts) -> float:
    """Returns how often a rule goes through all V probabilities of a position, for each of its candidates.

    It is counted in torch operations on the shipped code, with all coins rejecting; draws are not counted.
    """
    with NumberCounter() as counting:
        verifier(drafts.draft, drafts.target_probs, ConstantRng(answer=False))
    return counting.numbers / (drafts.draft.tokens.numel() * drafts.target_probs.shape[-1])
