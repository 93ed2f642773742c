"""Automatic K: draft as many tokens as have paid lately.

The drafter counts how often each drafted position was accepted in past rounds. With measured costs that
gives the tokens per second of every K, and the next round takes the best.

Why it is lossless. The width of a round is chosen when an earlier round ends, before anything of it is
drawn. Whatever the width is, the round then is an ordinary one: its tokens have the target's distribution
given the text so far. A width may depend on the past in any way. It must not depend on what is drawn in its
own round: to draw tokens, look at them, and drop the unlikely one changes the distribution of those kept.
"""

import sys
from collections.abc import Sequence
from itertools import accumulate
from math import ceil
from operator import mul

import torch
from torch import Tensor

from minispec.core.batch import Prompts
from minispec.core.draft import Drafter
from minispec.core.records import Draft, Round
from minispec.core.rng import RoundRng
from minispec.core.warp import Warp
from minispec.drafters.chain import TargetDrafter
from minispec.drafters.costs import Costs

LARGEST_K = 16  # the largest K that is tried
PRIOR = 0.8  # what acceptance is taken to be before anything is known of it
RETRY = 16  # at least so many rounds without a draft go by before one token is tried
PACE = 16  # a width is kept for so many rounds: to choose takes time, and one round tells little
TRIES = 0.02  # where drafting does not pay, tries take at most this share of the time


class RunningAcceptance:
    """How often each drafted position was accepted of late, given that all before it were.

    A position that was rarely tested is taken to be like the others; before any test, all are taken to be
    accepted with probability `prior`.
    """

    def __init__(
        self, positions: int, prior: float = PRIOR, weight: float = 10.0, memory: float = 0.995
    ) -> None:
        """Starts without any test.

        Args:
            positions: the most tokens of a draft.
            prior: what all acceptance probabilities are taken to be at first.
            weight: the prior counts like so many tests; so does the mean of all positions, in each of them.
            memory: how much a round ago counts of the present one.

        Raises:
            ValueError: if one of them cannot be.
        """
        if positions < 0 or not 0 <= prior <= 1 or not weight > 0 or not 0 < memory <= 1:
            raise ValueError(f"prior {prior}, weight {weight}, memory {memory}: one of them cannot be")
        self._prior = prior
        self._weight = weight
        self._memory = memory
        self._accepted = [0.0] * positions
        self._tested = [0.0] * positions

    def update(self, tests: Sequence[tuple[int, int]]) -> None:
        """Takes a round: of rows with a draft, how many tokens were kept, and how many were looked at."""
        if not tests:
            return  # nothing was drafted: what is known stays as it is
        self._accepted, self._tested = ([n * self._memory for n in x] for x in (self._accepted, self._tested))
        for accepted, tested in tests:
            for i in range(min(tested, len(self._tested))):
                self._tested[i] += 1
                self._accepted[i] += i < accepted

    def probabilities(self) -> list[float]:
        """Returns the acceptance probability α_j of each position."""
        weight = self._weight
        pooled = (sum(self._accepted) + weight * self._prior) / (sum(self._tested) + weight)
        counts = zip(self._accepted, self._tested, strict=True)
        return [(accepted + weight * pooled) / (tested + weight) for accepted, tested in counts]


def best_width(costs: Costs, alphas: Sequence[float], rows: int = 1) -> int:
    """Returns the K, from 0 to len(alphas), of the highest of the `rates`; of equals the smallest."""
    speeds = rates(costs, alphas, rows)
    return speeds.index(max(speeds))


def rates(costs: Costs, alphas: Sequence[float], rows: int = 1) -> list[float]:
    """Returns the tokens per second of every K from 0 to len(alphas).

    A row emits 1 + Σ_i Π_(j ≤ i) α_j tokens (Leviathan et al. 2023, equation 1, with an acceptance
    probability for each position) in the seconds of a round.

    Args:
        costs: of this machine, for a batch of `rows`.
        alphas: [positions], the probability of each to be accepted if all before it were.
        rows: of the batch; the draft has to catch up as soon as one of them keeps all.
    """
    speeds = []
    all_accepted = [1.0, *accumulate(alphas, mul)]  # of each width
    for width, tokens in enumerate(accumulate(all_accepted)):  # one token is always emitted
        catches_up = 1 - (1 - all_accepted[width]) ** rows if width else 0.0  # else the draft rests
        speeds.append(tokens / costs.of_round(width, catches_up))
    return speeds


def rounds_between_tries(costs: Costs) -> int:
    """Returns how many rounds draft nothing before one token is tried, where drafting does not pay.

    A try costs its round, and the text that the draft has to read first. The dearer it is, the rarer.
    """
    extra = costs.of_round(1, 1.0) + costs.restart - costs.of_round(0)
    return max(RETRY, ceil(extra / (TRIES * costs.of_round(0))))


class AdaptiveDrafter:
    """Lets another drafter propose, as many tokens as have paid lately; none, if drafting does not pay.

    One width serves all rows of a batch, learned from all of them. What was learned is kept from run to run:
    make a new one to forget it. Where nothing is drafted nothing is learned, so now and then one token is
    tried, unless drafting would not pay even if all were accepted. Between tries the drafter within rests: it
    reads nothing and has no cache. Before a try it reads the whole text anew.

    Attributes:
        width: how many tokens the next round will draft, if there is budget for them.
        vocab_size: that of the drafter within.
        max_length: that of the drafter within.
    """

    def __init__(
        self,
        drafter: Drafter,
        costs: Costs,
        most: int = LARGEST_K,
        acceptance: RunningAcceptance | None = None,
        retry: int | None = None,
        pace: int = PACE,
    ) -> None:
        """Wraps a drafter.

        Args:
            drafter: proposes the tokens.
            costs: what the parts of a round take here, such as `measure_costs` finds.
            most: the largest K; no more than t(n) was measured for. `speculate` gets it as its `k`.
            acceptance: counts what is accepted; by default a new count.
            retry: after how many rounds without a draft one token is tried; by default what
                `rounds_between_tries` says.
            pace: for how many rounds a width is kept, after the first ones.

        Raises:
            ValueError: if `most` is below 1.
        """
        if most < 1:
            raise ValueError(f"the largest K to choose from must be at least 1, not {most}")
        self.vocab_size = drafter.vocab_size
        self.max_length = drafter.max_length
        self._drafter = drafter
        self._costs = costs
        self._most = min(most, costs.most)
        self._acceptance = acceptance or RunningAcceptance(self._most)
        can_pay = best_width(costs, [1.0] * self._most) > 0
        self._retry = (rounds_between_tries(costs) if retry is None else retry) if can_pay else sys.maxsize
        self._idle = 0  # rounds since the last draft
        self._texts: list[list[int]] = []
        # What drafts from the target's own states has none of those that it has missed.
        self._can_rest = not isinstance(drafter, TargetDrafter)
        self._rests = True
        self._unasked = 0  # rounds since another has drafted, one after the other
        self._rounds = 0
        self._pace = pace
        self.width: int = self._choose(rows=1)

    @property
    def cache_lengths(self) -> tuple[int, ...] | None:
        """How many tokens the cache of the drafter within holds, row by row; None while it rests."""
        return None if self._rests else self._drafter.cache_lengths

    def start(self, prompts: Prompts, hidden: Tensor) -> None:
        """Begins a run, with a width learned in earlier runs; hidden: [B, n, D], of the target."""
        self._texts = [list(prompt) for prompt in prompts]
        self._rests = self._can_rest
        self.width = self._choose(len(prompts))
        if not self._rests:
            self._drafter.start(prompts, hidden)
        elif self.width:
            self._wake()

    def admit(self, rows: Sequence[int], prompts: Prompts, hidden: Tensor) -> None:
        """Begins other prompts in some rows; hidden: [len(rows), n, D]."""
        for row, prompt in zip(rows, prompts, strict=True):
            self._texts[row] = list(prompt)
        if not self._rests:
            self._drafter.admit(rows, prompts, hidden)

    def propose(self, pending: Tensor, k: int, warp: Warp, rng: RoundRng) -> Draft:
        """Proposes `width` tokens a row, k if that is fewer, after the pending ones [B] (see `Drafter`)."""
        width = min(self.width, k)
        if width == 0:
            return Draft.empty(len(pending), self.vocab_size, pending.device)
        if self._rests:
            self._wake()
        return self._drafter.propose(pending, width, warp, rng)

    def seconds(self, k: int) -> float:
        """Returns the seconds of the next round, with at most k drafted tokens of which some are rejected."""
        return self._costs.of_round(min(self.width, k))

    def gain(self, k: int, pace: float, rows: int = 1) -> float:
        """Returns how many more tokens the next draft yields than its seconds would without it; at least 0.

        Args:
            k: the most drafted tokens.
            pace: the tokens emitted in a second.
            rows: how many gain.
        """
        kept = list(accumulate(self._acceptance.probabilities()[: min(self.width, k)], mul))
        wakes = self._costs.restart / self._pace if self._rests else 0.0  # one reading serves several rounds
        return max(0.0, rows * sum(kept) - pace * (self.seconds(k) + wakes - self._costs.of_round(0)))

    def follow(self, round: Round) -> None:
        """Takes a round that another has drafted: the text grows, and nothing is learned.

        After several such rounds the drafter within rests.
        """
        self._unasked += 1
        self._rests = self._can_rest and (self._rests or self._unasked > self._pace)
        self._read(round)

    def _read(self, round: Round) -> None:
        """Appends what was emitted."""
        for text, emitted in zip(self._texts, round.emitted, strict=True):
            text.extend(emitted)
        if not self._rests:
            self._drafter.commit(round)

    def commit(self, round: Round) -> None:
        """Notes what was accepted, and now and then chooses another width for the next rounds."""
        self._unasked = 0
        self._read(round)
        self._learn(round)
        self._rounds += 1
        early = self._rounds & (self._rounds - 1) == 0  # after 1, 2, 4, 8 … rounds: at first much is learned
        if early or self._rounds % self._pace == 0 or self.width < 2:  # a single token is only a try
            self.width = self._choose(sum(round.live))
            self._rests = self._can_rest and (self._rests or self.width == 0)

    def _learn(self, round: Round) -> None:
        """Counts what was tested, or how long nothing was."""
        rows = zip(round.live, round.verdict.accepted.tolist(), round.draft.lengths.tolist(), strict=True)
        tests = [(kept, min(kept + 1, drafted)) for is_live, kept, drafted in rows if is_live and drafted]
        self._acceptance.update(tests)
        if not tests:
            self._idle += 1
        else:  # after a try that was accepted comes another at once: so it shows soon that drafting pays
            self._idle = self._retry if all(kept for kept, _ in tests) else 0

    def _choose(self, rows: int) -> int:
        best = best_width(self._costs, self._acceptance.probabilities()[: self._most], rows)
        return 1 if best == 0 and self._idle >= self._retry else best

    def _wake(self) -> None:
        self._drafter.start(self._texts, torch.empty(len(self._texts), 0, 0))  # it asks for no states
        self._rests = False
