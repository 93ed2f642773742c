"""A stop rule: end a draft early where it has become doubtful.

After each drafted token the drafter asks whether another one would pay: is it likely enough that all so far
will be accepted? The rule looks at how probable the draft found the tokens that it has drawn.

Why it is lossless. The question is asked *after* a token was drawn, and about the *next* one. The token that
made the rule stop has been drawn, so it stays in the draft and is verified. Given all that was drafted
before, each drafted token has the distribution that is reported for it, and a round may end after any of
them. To drop the token that looked doubtful would be something else: what is left was then drawn from its
distribution *under the condition that it looked good*, and the distribution that is reported is wrong.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from minispec.core.draft import ModelDrafter
from minispec.core.model import LanguageModel
from minispec.core.records import Draft, Round
from minispec.core.rng import Rng
from minispec.core.warp import Warp
from minispec.drafters.costs import RETRY, Costs

PRIOR = 0.8  # what the acceptance probability of an average token is taken to be at first


class StopRule(Protocol):
    """Says when a draft has become too doubtful to go on."""

    def probability(self, confidence: float) -> float:
        """Returns how likely a token is accepted that the draft, before any warp, has such confidence in."""

    def least(self) -> float:
        """Returns how likely all so far must be accepted for one token more; above 1: draft nothing."""

    def learn(self, confidences: Sequence[Sequence[float]], round: Round) -> None:
        """Learns what came of a draft; confidences: [B], for each row those of its drafted tokens."""


class FixedStop:
    """Trusts the draft: a token that it gives probability 0.7 is accepted with probability 0.7."""

    def __init__(self, least: float) -> None:
        """Fixes the least probability, from 0 (never stop) to 1, that all so far are accepted.

        Raises:
            ValueError: if it lies outside.
        """
        if not 0 <= least <= 1:
            raise ValueError(f"the least probability to go on must be between 0 and 1, not {least}")
        self._least = least

    def probability(self, confidence: float) -> float:
        """Returns the confidence itself."""
        return confidence

    def least(self) -> float:
        """Returns the threshold."""
        return self._least

    def learn(self, confidences: Sequence[Sequence[float]], round: Round) -> None:
        """Learns nothing."""


class LearnedStop:
    """Learns from past rounds how far the draft's confidence can be trusted, and what a token costs.

    One token more is gained with the probability that all so far and the next are accepted. It takes a draft
    step and a slightly longer verification. In that time the run could gain tokens at its usual rate. Where
    the former is less, the draft ends.
    """

    EDGES = (0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97)  # between these, confidences are taken to be alike

    def __init__(self, costs: Costs, weight: float = 5.0, memory: float = 0.99, retry: int = RETRY) -> None:
        """Starts without any test.

        Args:
            costs: what the parts of a round take here, such as `measure_costs` finds.
            weight: what a first guess weighs, as much as so many tests.
            memory: how much a round ago counts of the present one.
            retry: after how many rounds without a draft one token is drafted.

        Raises:
            ValueError: if one of them cannot be.
        """
        if not weight > 0 or not 0 < memory <= 1:
            raise ValueError(f"weight {weight}, memory {memory}: one of them cannot be")
        self._costs, self._weight, self._memory, self._retry = costs, weight, memory, retry
        edges = (0.0, *self.EDGES, 1.0)
        # The first guess: halfway between certainty and what the draft says.
        self._guess = [0.5 + (low + high) / 4 for low, high in zip(edges[:-1], edges[1:], strict=True)]
        self._accepted = [0.0] * len(self._guess)
        self._tested = [0.0] * len(self._guess)
        self._gained, self._seconds = 2.0, costs.of_round(0)  # at first: twice as fast as without a draft
        self._extra = costs.t_draft + costs.place + self._slope()
        self._idle = 0

    def probability(self, confidence: float) -> float:
        """Returns how often tokens of such a confidence were accepted."""
        interval = bisect_right(self.EDGES, confidence)
        guessed = self._weight * self._guess[interval]
        return (self._accepted[interval] + guessed) / (self._tested[interval] + self._weight)

    def least(self) -> float:
        """Returns rate · seconds of one token more / acceptance probability of an average token."""
        if self._idle >= self._retry:
            return 1.0  # draft one token, and go on only if it is certain
        average = (sum(self._accepted) + self._weight * PRIOR) / (sum(self._tested) + self._weight)
        return self._gained / self._seconds * self._extra / average

    def learn(self, confidences: Sequence[Sequence[float]], round: Round) -> None:
        """Counts tested tokens by confidence, and tokens and seconds of the round."""
        live = [row for row, on in enumerate(round.live) if on]
        # The one after those kept counts as tested also for a rule that looks beyond a rejection.
        tested = [min(round.accepted(row) + 1, round.drafted(row)) for row in live]
        self._idle = 0 if any(tested) else self._idle + 1
        if any(tested):  # else what is known stays as it is
            self._accepted = [n * self._memory for n in self._accepted]
            self._tested = [n * self._memory for n in self._tested]
        full = False
        for row, looked_at in zip(live, tested, strict=True):
            kept = round.accepted(row)
            full = full or kept == round.draft.k
            for i, confidence in enumerate(confidences[row][:looked_at]):
                interval = bisect_right(self.EDGES, confidence)
                self._tested[interval] += 1
                self._accepted[interval] += i < kept
        gained = sum(round.accepted(row) + 1 for row in live) / len(live)
        self._gained = self._gained * self._memory + gained
        self._seconds = self._seconds * self._memory + self._costs.of_round(round.draft.k, float(full))

    def _slope(self) -> float:
        """Returns what one token more costs a target call, on average."""
        costs = self._costs
        return (costs.call(costs.most + 1) - costs.call(1)) / costs.most if costs.most else 0.0


class StoppingDrafter(ModelDrafter):
    """A draft model that stops before K where its draft has become doubtful; each row where its own has."""

    def __init__(self, model: LanguageModel, rule: StopRule, warp: Warp | None = None) -> None:
        """Makes a drafter.

        Args:
            model: the draft model; it must have the target's vocabulary.
            rule: says when to stop.
            warp: how to warp its logits; None: like the target's. Any is lossless.
        """
        super().__init__(model, warp)
        self.rule = rule
        self._confidences: list[list[float]] = []
        self._done: tuple[bool, ...] = ()

    def start(self, prompts: Sequence[Sequence[int]], rows: Sequence[int] | None = None) -> None:
        """Begins a run, or prompts in some rows of it; the rule keeps what it has learned."""
        super().start(prompts, rows)
        begun = range(len(prompts)) if rows is None else rows
        self._done = tuple(
            row not in begun and done for row, done in enumerate(self._done or [False] * len(prompts))
        )

    def propose(self, pending: Tensor, k: int, warp: Warp, rng: Rng) -> Draft:
        """Guesses up to k tokens a row after the pending ones [B]; lengths [B]: where each has stopped."""
        warp, least = self.warp or warp, self.rule.least()
        reach = [0.0 if done else 1.0 for done in self._done]  # the probability that all so far are accepted
        self._confidences = [[] for _ in reach]
        token, tokens, dists = pending, [], []
        for i in range(k):
            going = [prob > 0 and prob >= least for prob in reach]
            if not any(going):
                break
            logits = self.model(token[:, None], self.cache)[:, -1]  # [B, V]
            dist = warp(logits)
            token = rng.categorical(dist, positions=i, live=torch.tensor(going, device=dist.device))
            tokens.append(token)
            dists.append(dist)
            sure = torch.softmax(logits, dim=-1).gather(1, token[:, None])[:, 0].tolist()
            for row in range(len(reach)):
                if going[row]:  # the token stays, whatever comes of the next question
                    self._confidences[row].append(sure[row])
                    reach[row] *= self.rule.probability(sure[row])
        lengths = torch.tensor([len(own) for own in self._confidences])
        if not tokens:
            return Draft.empty(len(pending), self.vocab_size, pending.device)
        return Draft(torch.stack(tokens, 1), torch.stack(dists, 1), lengths)

    def commit(self, round: Round) -> None:
        """Rolls back as every draft model does, and lets the rule learn."""
        super().commit(round)
        self._done = tuple(why is not None for why in round.finish)
        self.rule.learn(self._confidences, round)
