"""What a rule comes to, exactly: at one position by every branch, in a chain by its coins."""

from dataclasses import dataclass
from typing import Any, Unpack

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from minispec.core.rng import Which
from minispec.core.verify import Verifier
from minispec.evidence.atlas.branches import every_branch
from minispec.evidence.atlas.family import Drafts


@dataclass(frozen=True)
class Outcome:
    """What a rule does with all drafts of one position, in each of N instances.

    Attributes:
        emitted: [N, V] float64, the distribution of the first token that comes out.
        accepted: [N], the probability that it is a candidate that was accepted.
        draws: [N], the expected number of random numbers, without that for the token after an accepted one.
    """

    emitted: Tensor
    accepted: Tensor
    draws: Tensor


def outcome(rule: Verifier, drafts: Drafts) -> Outcome:
    """Takes every branch of a rule on the drafts that `family.candidates` returns."""
    count = int(drafts.instances.max()) + 1
    emitted = torch.zeros(count, drafts.target_probs.shape[-1], dtype=torch.float64)
    accepted, draws = emitted.new_zeros(count), emitted.new_zeros(count)
    for branch in every_branch(rule, drafts.draft, drafts.target_probs):
        verdict, instances = branch.verdict, drafts.instances[branch.rows]
        weights = branch.weights * drafts.weights[branch.rows]
        tokens, kept = drafts.draft.tokens[branch.rows], verdict.accepted > 0
        which = torch.zeros_like(verdict.token) if verdict.path is None else verdict.path.long().argmax(-1)
        first = torch.where(kept, tokens.gather(1, which[:, None])[:, 0], verdict.token)
        emitted.index_put_((instances, first), weights, accumulate=True)
        accepted.index_add_(0, instances, weights * kept)
        draws.index_add_(0, instances, weights * branch.draws)
    return Outcome(emitted, accepted, draws)


class Asking:
    """An `Rng` that says yes, or no, and remembers with which probability yes would have come.

    Attributes:
        asked: of each question [B] float64, 0 where nothing was asked.
    """

    def __init__(self, says: bool) -> None:
        """Takes what it says."""
        self.says = says
        self.asked: list[Tensor] = []

    def bernoulli(self, probs: Tensor, **which: Unpack[Which]) -> Tensor:
        """Says the same always: probs [B] -> [B] bool (see `Rng`)."""
        live = which.get("live")
        self.asked.append(probs.double() if live is None else probs.double() * live)
        return torch.full(probs.shape, self.says)

    def categorical(self, probs: Tensor, **which: Unpack[Which]) -> Tensor:
        """Picks the first id: probs [B, V] -> [B] ids (see `Rng`)."""
        return torch.zeros(len(probs), dtype=torch.long)


def expected_accepted(rule: Verifier, drafts: Drafts) -> Tensor:
    """Returns how many tokens of each draft a rule for chains accepts on average: [B].

    A rule that stops accepts i tokens if its first i coins say yes, another one if any coin from the i-th on
    does. So the coins' probabilities are enough, and they are had by saying yes each time. Only for rules
    whose only decisions about drafted tokens are coins, one a token, such as `verify_block`.
    """
    rng = Asking(says=True)
    rule(drafts.draft, drafts.target_probs, rng)
    coins = torch.stack(rng.asked, dim=1)  # [B, K]
    if getattr(rule, "stops_at_first_rejection", True):
        return coins.cumprod(-1).sum(-1)
    return (1 - (1 - coins).flip(-1).cumprod(-1)).sum(-1)


class Counting(TorchFunctionMode):
    """Counts the numbers that torch goes through: those of each operation's largest tensor, but for views."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor) and not result._is_view() and all(result is not one for one in args):
            self.numbers += max(one.numel() for one in (*args, result) if isinstance(one, Tensor))
        return result


def passes(rule: Verifier, drafts: Drafts) -> float:
    """Returns how often a rule goes through all V probabilities of a position, for each of its candidates.

    It is counted in torch operations on the shipped code, with all coins saying no; draws are not counted.
    """
    with Counting() as counting:
        rule(drafts.draft, drafts.target_probs, Asking(says=False))
    return counting.numbers / (drafts.draft.tokens.numel() * drafts.target_probs.shape[-1])
