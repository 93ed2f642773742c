"""Automatic choice: each round has the drafter, and the K, that will pay most by what is known; or no draft.

To look up costs nothing, so every look-up is asked before each round. Whatever is drafted then, the round's
tokens show whether those that were looked up were right. So it is known of each look-up how often its next
token is right after a match of so many tokens, also while nothing is drafted. A draft of more tokens gains
those that will be kept; it costs the seconds in which, at the present pace, others would be emitted.

Why it is lossless. What is looked up, and how long the match is, follows from the committed text alone. So a
choice by them knows nothing that is drawn in its own round: given the text and the past rounds the draft is
certain, and q, which has it with probability 1, is what it was drawn from. A draft of the other drafter is
drawn after the choice, and what is drawn changes neither the choice nor the width.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate
from operator import mul

from torch import Tensor

from minispec.core.batch import Prompts
from minispec.core.draft import Drafter, ModelDrafter
from minispec.core.records import Draft, Round
from minispec.core.rng import RoundRng
from minispec.core.warp import Warp
from minispec.drafters.adaptive import LARGEST_K, AdaptiveDrafter
from minispec.drafters.costs import Costs
from minispec.drafters.entry import DrafterEntry, Parts
from minispec.drafters.lookup import LooksUp, LookupDrafter, certain, for_target
from minispec.drafters.ngram import NgramDrafter
from minispec.drafters.suffix import SuffixDrafter

# How often the next token is right after a match of 1, 2, 3 to 4, 5 to 8, 9 to 16 and more tokens, before
# anything is known of a text.
PRIOR = (0.15, 0.3, 0.5, 0.65, 0.8, 0.9)
# What a draft may be taken to cost where nothing was measured: each token 3% of a forward.
ASSUMED = Costs(
    t_draft=0.25, t_target={1: 1.0, LARGEST_K + 1: 1.0 + 0.03 * LARGEST_K}, catch_up=0.25, restart=1.0
)


MEMORY = 0.95  # how much of the pace a round ago counts
FIRST_ROUNDS = 10  # before any round, the pace is that of so many rounds without a draft


class MatchAcceptance:
    """How often the next token of a look-up was right of late, by how long the match before it was.

    A match grows by each token that was right. So the second token of a draft after a match of 4 is like the
    first one after a match of 5.
    """

    def __init__(self, prior: Sequence[float] = PRIOR, weight: float = 10.0, memory: float = 0.97) -> None:
        """Starts without any test.

        Args:
            prior: what the probabilities are taken to be at first, for lengths that double.
            weight: the prior counts like so many tests.
            memory: how much a test counts when the next one of its length has come.

        Raises:
            ValueError: if one of them cannot be.
        """
        if not prior or not all(0 <= p <= 1 for p in prior) or not weight > 0 or not 0 < memory <= 1:
            raise ValueError(f"prior {prior}, weight {weight}, memory {memory}: one of them cannot be")
        self._prior = prior
        self._weight = weight
        self._memory = memory
        self._right = [0.0] * len(prior)
        self._tested = [0.0] * len(prior)
        self._probs = list(prior)

    def update(self, match: int, tokens: Sequence[int], emitted: Sequence[int]) -> None:
        """Takes a round: tokens that were looked up after a match, up to a wrong one, and those that came."""
        for i, (token, came) in enumerate(zip(tokens, emitted, strict=False)):
            n = self._length(match + i)
            self._tested[n] = self._memory * self._tested[n] + 1
            self._right[n] = self._memory * self._right[n] + (token == came)
            counted = self._right[n] + self._weight * self._prior[n]
            self._probs[n] = counted / (self._tested[n] + self._weight)
            if token != came:
                return

    def kept(self, match: int, count: int) -> list[float]:
        """Returns how many of the first 0, 1, …, count tokens after a match will be kept, on average."""
        alphas = [self._probs[self._length(n)] for n in range(match, match + count)]
        return list(accumulate(accumulate(alphas, mul), initial=0.0))

    def _length(self, match: int) -> int:
        """Returns which length is meant by a match of so many tokens, at least 1."""
        return min((match - 1).bit_length(), len(self._prior) - 1)


class ChoosingDrafter(LooksUp):
    """Has a round drafted by one of several drafters, as wide as will pay; by none, where none will.

    Each row has the look-up that will be right most often in it; one width serves all rows. What was learned
    is kept from run to run: make a new one to forget it.

    Attributes:
        vocab_size: that of the drafters.
        max_length: the least of theirs.
    """

    def __init__(
        self,
        look_ups: Sequence[LookupDrafter],
        costs: Costs,
        other: AdaptiveDrafter | None = None,
        most: int = LARGEST_K,
        acceptance: Callable[[], MatchAcceptance] = MatchAcceptance,
    ) -> None:
        """Joins drafters.

        Args:
            look_ups: are asked before each round.
            costs: what the parts of a round take here, such as `measure_costs` finds; of a draft step only
                `other` takes any notice.
            other: drafts where a look-up will not pay more. It decides on its own how much, if anything.
            most: the largest K; no more than t(n) was measured for. `speculate` gets it as its `k`.
            acceptance: makes what counts for each look-up how often it is right.

        Raises:
            ValueError: if there is no look-up, vocabularies differ, or `most` is below 1.
        """
        drafters: list[Drafter] = [*look_ups, *([] if other is None else [other])]
        if not look_ups or len({drafter.vocab_size for drafter in drafters}) > 1:
            raise ValueError("a choice needs at least one look-up, and drafters of one vocabulary")
        if most < 1:
            raise ValueError(f"the largest K to choose from must be at least 1, not {most}")
        self.vocab_size = drafters[0].vocab_size
        self.max_length = min(drafter.max_length for drafter in drafters)
        self._drafters = drafters
        self._look_ups = look_ups
        self._other = other
        looked_up = replace(costs, t_draft=0.0, catch_up=0.0)
        self._seconds = [looked_up.of_round(width) for width in range(min(most, costs.most) + 1)]
        self._extra = [seconds - self._seconds[0] for seconds in self._seconds]
        self._acceptance = [acceptance() for _ in look_ups]
        self._live: list[bool] = []
        self._emitted = 0.0  # tokens, and the seconds that they took by `costs`: of late
        self._spent = 0.0
        self._forget()

    def _forget(self) -> None:
        """Begins a round: nothing has been looked up, and nothing drafted."""
        self._found: list[list[tuple[int, list[int]]]] = []  # of each look-up, row by row: match and tokens
        self._takes = self._seconds[0]  # seconds of the round
        self._asks = False  # whether the other drafter drafts

    @property
    def cache_lengths(self) -> tuple[int, ...] | None:
        """How many tokens the cache of the other drafter holds, row by row; None where there is none."""
        return None if self._other is None else self._other.cache_lengths

    def start(self, prompts: Prompts, hidden: Tensor) -> None:
        """Begins a run; hidden: [B, n, D], the target's states of all prompts but their last tokens."""
        for drafter in self._drafters:
            drafter.start(prompts, hidden)
        self._live = [True] * len(prompts)
        self._emitted = len(prompts) * FIRST_ROUNDS
        self._spent = self._seconds[0] * FIRST_ROUNDS
        self._forget()

    def admit(self, rows: Sequence[int], prompts: Prompts, hidden: Tensor) -> None:
        """Begins other prompts in some rows; hidden: [len(rows), n, D]."""
        for drafter in self._drafters:
            drafter.admit(rows, prompts, hidden)
        for row in rows:
            self._live[row] = True

    def propose(self, pending: Tensor, k: int, warp: Warp, rng: RoundRng) -> Draft:
        """Proposes up to k tokens a row after the pending ones [B] (see `Drafter`)."""
        tokens = self.look_up(k)
        if tokens is None and self._other is not None:
            return self._other.propose(pending, k, warp, rng)
        return certain(tokens or [], self.vocab_size, self._look_ups[0].dtype, pending.device)

    def look_up(self, k: int) -> list[list[int]] | None:
        """Returns up to k tokens for each row, to follow its text; None where the other drafter drafts."""
        most = min(k, len(self._seconds) - 1)
        pace = self._emitted / self._spent
        self._found = [
            list(zip(drafter.matches(), drafter.look_up(most), strict=True)) for drafter in self._look_ups
        ]
        offers = [self._best_offer(row) for row in range(len(self._live))]
        padded = [[*kept, *[kept[-1]] * (most - len(tokens))] for kept, tokens in offers]
        kept_of_all = map(sum, zip(*padded, strict=True))
        gains = [kept - pace * extra for kept, extra in zip(kept_of_all, self._extra, strict=False)]
        width = gains.index(max(gains))
        if self._other is not None and self._other.gain(k, pace, sum(self._live)) >= gains[width]:
            self._asks = True
            self._takes = self._other.seconds(k)
            return None
        self._takes = self._seconds[width]
        return [tokens[:width] for _, tokens in offers]

    def _best_offer(self, row: int) -> tuple[list[float], list[int]]:
        """Returns what a row has looked up that will be right most often, after how many will be kept."""
        if not self._live[row]:
            return [0.0], []
        offers = []
        for acceptance, found in zip(self._acceptance, self._found, strict=True):
            match, tokens = found[row]
            offers.append((acceptance.kept(match, len(tokens)), tokens))
        return max(offers, key=lambda offer: offer[0][-1])

    def commit(self, round: Round) -> None:
        """Learns from the tokens that came how often each look-up was right, whatever was drafted."""
        for acceptance, found in zip(self._acceptance, self._found, strict=False):  # none: nothing was asked
            for (match, tokens), emitted in zip(found, round.emitted, strict=True):
                acceptance.update(match, tokens, emitted)
        self._emitted = MEMORY * self._emitted + sum(map(len, round.emitted))
        self._spent = MEMORY * self._spent + self._takes
        self._live = [finish is None for finish in round.finish]
        for drafter in self._look_ups:
            drafter.commit(round)
        if self._other is not None:
            (self._other.commit if self._asks else self._other.follow)(round)
        self._forget()


def choosing(parts: Parts, model: Callable[..., Drafter], k: int) -> ChoosingDrafter:
    """Returns a choice between both look-ups and the draft model, unless it is the target itself.

    model: makes a drafter of the draft model and a warp; k: the most tokens.
    """
    costs = parts.costs or ASSUMED
    other = None
    if parts.draft is not parts.target:
        other = AdaptiveDrafter(model(parts.draft, parts.warp), costs)
    return ChoosingDrafter(look_ups_for(parts), costs, other, max(k, 1))


def look_ups_for(parts: Parts) -> list[LookupDrafter]:
    """Returns both look-ups."""
    return [for_target(make, parts.gpt) for make in (NgramDrafter, SuffixDrafter)]


CHOICE = DrafterEntry(
    "auto",
    lambda parts, k: choosing(parts, ModelDrafter, k),
    uses_draft_model=True,
    chooses=True,
)
