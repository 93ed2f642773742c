"""Random numbers come from one place.

Nothing else draws random numbers while decoding. So a test can hand in an `Rng` that tries every outcome. All
keep two promises. What is masked, or certain, draws nothing. What has probability 0 never happens.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import index
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

CERTAIN = 1 - 1e-12  # counts as 1: whether a number is drawn must not depend on rounding
UNLIMITED = 2**62  # a budget that no text reaches
SEEDS = 2**32  # of torch's generator, which reads no more bits; seeds that are counted on go round


class RoundPlan(NamedTuple):
    """Where each row stands when a round begins, and how many tokens the round may add to it.

    Attributes:
        prompt_ids: [B], which prompt each row decodes.
        starts: [B], how many tokens it has.
        budgets: [B], how many more may be decided in it; 0 for a row that is done.
        device: where decisions are made.
    """

    prompt_ids: tuple[int, ...]
    starts: tuple[int, ...]
    budgets: tuple[int, ...]
    device: torch.device

    def at(self, offset: Tensor | int | None, live: Tensor | None = None) -> Place:
        """Returns the place of decisions about the round's token number `offset`, counted from 0.

        Rows whose budget ends before it decide nothing, nor do those that are not live [B]. So what a row
        decides depends on its own text alone, not on its neighbours.
        """
        first = 0 if offset is None else offset
        if not isinstance(first, int) or first >= min(self.budgets):  # else no row's budget ends before it
            within = first < torch.tensor(self.budgets, device=self.device)
            live = within if live is None else live & within
        return Place(self, offset, live)

    def without_last(self) -> RoundPlan:
        """Returns the plan for drafting: the last token that fits is never drafted, it is the target's."""
        budgets = tuple(max(budget - 1, 0) for budget in self.budgets)
        return RoundPlan(self.prompt_ids, self.starts, budgets, self.device)

    @staticmethod
    def unlimited(rows: int, device: torch.device) -> RoundPlan:
        """Returns a plan for rows that begin at position 0 and have no cap."""
        return RoundPlan(tuple(range(rows)), (0,) * rows, (UNLIMITED,) * rows, device)


class Place(NamedTuple):
    """What the decisions of B rows are about; tensors are made only for a source that asks for them.

    Attributes:
        plan: where the round began.
        offset: the number of the round's token, counted from 0; None where the caller has not named it.
        live: [B] bool; the others are not decided: False, or id 0. None: all are.
    """

    plan: RoundPlan
    offset: Tensor | int | None = None
    live: Tensor | None = None

    @property
    def prompt_ids(self) -> Tensor:
        """Which prompt each row decodes: [B]."""
        return torch.tensor(self.plan.prompt_ids, device=self.plan.device)

    @property
    def positions(self) -> Tensor | None:
        """The position in the text that each row decides: [B]; None without an offset."""
        if self.offset is None:
            return None
        return torch.tensor(self.plan.starts, device=self.plan.device) + self.offset


class Rng(Protocol):
    """A source of decisions for B rows at a time. Without a place all rows are decided."""

    def bernoulli(self, probs: Tensor, place: Place | None = None) -> Tensor:
        """Decides yes or no: probabilities of yes [B] -> [B] bool; ValueError for another shape."""

    def categorical(self, probs: Tensor, place: Place | None = None) -> Tensor:
        """Draws one id a row: distributions [B, V], up to rounding -> [B] int64."""


@dataclass(frozen=True)
class RoundRng:
    """An `Rng` as one round may use it: what verifiers draw from.

    Each decision is about the round's token number `offset`, counted from 0. Leave it out where the position
    does not matter; shared noise (`KeyedRng`) needs it.

    Attributes:
        source: decides.
        plan: about which texts and positions, and for which rows.
    """

    source: Rng
    plan: RoundPlan

    def bernoulli(
        self, probs: Tensor, offset: Tensor | int | None = None, live: Tensor | None = None
    ) -> Tensor:
        """Decides yes or no, for rows that are live and have budget: probs [B] -> [B] bool."""
        return self.source.bernoulli(probs, self.plan.at(offset, live))

    def categorical(
        self, probs: Tensor, offset: Tensor | int | None = None, live: Tensor | None = None
    ) -> Tensor:
        """Draws an id for rows that are live and have budget: probs [B, V] -> [B] int64."""
        return self.source.categorical(probs, self.plan.at(offset, live))


class DraftingRng(RoundRng):
    """A `RoundRng` for drafters: a row without budget gets its most probable id, undrawn.

    So a draft consists of possible tokens only, also where a row's part of it ends before the others'.
    """

    def categorical(
        self, probs: Tensor, offset: Tensor | int | None = None, live: Tensor | None = None
    ) -> Tensor:
        """Draws an id for rows that are live and have budget: probs [B, V] -> [B] int64."""
        place = self.plan.at(offset, live)
        token = self.source.categorical(probs, place)
        return token if place.live is None else torch.where(place.live, token, probs.argmax(-1))


def check_one_a_row(probs: Tensor) -> None:
    """Refuses, by ValueError, probabilities that are not [B]: each position is decided by itself."""
    if probs.dim() != 1:
        raise ValueError(f"bernoulli takes one probability a row, [B], not {list(probs.shape)}")


def checked_seed(seed: int, seeds: int = SEEDS) -> int:
    """Returns a seed as a plain integer; ValueError if there are not so many, TypeError if it is none."""
    number = index(seed)
    if not 0 <= number < seeds:
        raise ValueError(f"a seed must be 0 to {seeds - 1:,}, not {number}")
    return number


class SeededRng:
    """Draws from a generator with a seed: the one for everyday use.

    The draws are made on the CPU in float64, so that a seed means the same on every device.
    """

    def __init__(self, seed: int) -> None:
        """Starts a stream of its own from a seed of 0 to 2³² − 1.

        Raises:
            ValueError: if the seed is another number.
            TypeError: if it is no integer.
        """
        self._generator = torch.Generator().manual_seed(checked_seed(seed))

    def bernoulli(self, probs: Tensor, place: Place | None = None) -> Tensor:
        """Answers yes with the given probabilities: probs [B] -> [B] bool (see `Rng`).

        Raises:
            ValueError: if the probabilities are not [B].
        """
        check_one_a_row(probs)
        live = None if place is None else place.live
        uncertain = (probs > 0) & (probs < CERTAIN)
        if live is not None:
            uncertain = uncertain & live
        # Uniforms lie in [0, 1): a probability of 0 is never met, one of 1 always.
        outcome = self._uniforms(uncertain) < probs
        return outcome if live is None else outcome & live

    def categorical(self, probs: Tensor, place: Place | None = None) -> Tensor:
        """Draws ids by inverting the cumulative sum: probs [B, V] -> [B] ids (see `Rng`)."""
        live = None if place is None else place.live
        cumulative = probs.double().cumsum(-1)  # [B, V]
        total = cumulative[:, -1:]
        uncertain = (probs > 0).sum(-1) > 1
        if live is not None:
            uncertain = uncertain & live
        # The first id whose cumulative sum exceeds the threshold. An id of probability 0 adds nothing
        # to the sum, so it is never first; the threshold stays below the total, so some id always is.
        threshold = torch.minimum(
            self._uniforms(uncertain)[:, None] * total, torch.nextafter(total, torch.zeros_like(total))
        )
        token = torch.searchsorted(cumulative, threshold, right=True)[:, 0]
        return token if live is None else token * live

    def _uniforms(self, needed: Tensor) -> Tensor:
        """Returns [B] float64 in [0, 1): a new number where needed, 0 elsewhere."""
        count = int(needed.sum())
        if count == needed.numel():
            return self._numbers(count).to(needed.device)
        uniform = torch.zeros(needed.shape, dtype=torch.float64, device=needed.device)
        if count:
            uniform[needed] = self._numbers(count).to(needed.device)
        return uniform

    def _numbers(self, count: int) -> Tensor:
        """Returns the stream's next numbers in [0, 1): [count] float64."""
        return torch.rand(count, generator=self._generator, dtype=torch.float64)
