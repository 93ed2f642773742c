"""Random numbers come from one place.

Nothing else draws random numbers while decoding. So a test can hand in an `Rng` that tries every outcome. All
keep two promises. What is masked, or certain, draws nothing. What has probability 0 never happens.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Protocol, TypedDict, Unpack

import torch
from torch import Tensor

CERTAIN = 1 - 1e-12  # counts as 1: whether a number is drawn must not depend on rounding


class Which(TypedDict, total=False):
    """What a decision is about; all of it may be left out.

    Attributes:
        rows: [B], which prompt each entry belongs to; by default 0 … B−1.
        positions: [B], or one number for all: the position in the text that each decision is about. Drafters
            and verifiers count from the round's first new token, and `BlockRng` adds the rest.
        live: [B] bool; the others are not decided: False, or id 0.
    """

    rows: Tensor | None
    positions: Tensor | int | None
    live: Tensor | None


class Rng(Protocol):
    """A source of decisions for B rows at a time."""

    def bernoulli(self, probs: Tensor, **which: Unpack[Which]) -> Tensor:
        """Decides yes or no: probabilities of yes [B] -> [B] bool; ValueError for another shape."""

    def categorical(self, probs: Tensor, **which: Unpack[Which]) -> Tensor:
        """Draws one id a row: distributions [B, V], up to rounding -> [B] int64."""


class BlockRng:
    """An `Rng` as one round may use it: each row up to its remaining budget, at its position in the text.

    It adds where the round begins to the positions that drafters and verifiers name, and decides nothing for
    rows whose budget ends before. So what a row decides depends on its own text alone, not on its neighbours.

    Attributes:
        rng: draws.
        starts: [B], how many tokens each row has.
        budgets: [B], how many more may be decided in it; 0 for a row that is done.
        names: [B], which prompt each row holds; None: row b holds prompt b.
    """

    def __init__(
        self,
        rng: Rng,
        starts: Sequence[int],
        budgets: Sequence[int],
        device: torch.device,
        names: Sequence[int] | None = None,
    ) -> None:
        """Narrows `rng` to a round; positions are wanted on `device`."""
        self.rng = rng
        self.starts = starts
        self.budgets = budgets
        self.names = names
        self._device = device

    def bernoulli(self, probs: Tensor, **which: Unpack[Which]) -> Tensor:
        """Decides for rows that have budget left: probs [B] -> [B] bool (see `Rng`)."""
        return self.rng.bernoulli(probs, **self._place(which))

    def categorical(self, probs: Tensor, **which: Unpack[Which]) -> Tensor:
        """Draws for rows that have budget left: probs [B, V] -> [B] ids (see `Rng`)."""
        return self.rng.categorical(probs, **self._place(which))

    @cached_property
    def _own(self) -> list[Tensor]:  # starts and budgets, [B] each; made when they are asked for
        return [torch.tensor(own, device=self._device) for own in (self.starts, self.budgets)]

    def _place(self, which: Which) -> Which:
        """Returns the prompts' names, positions in the text, and which rows have budget left there."""
        rows = which.get("rows")
        offsets = which.get("positions")
        live = which.get("live")
        start, budget = self._own if rows is None else (own[rows] for own in self._own)
        if self.names is not None:
            rows = torch.tensor(self.names, device=self._device)[slice(None) if rows is None else rows]
        positions = None if offsets is None else start + offsets
        if not isinstance(offsets, int) or offsets >= min(self.budgets):  # else all have, and no GPU is asked
            inside = (0 if offsets is None else offsets) < budget
            live = inside if live is None else live & inside
        return Which(rows=rows, positions=positions, live=live)


class DraftingRng(BlockRng):
    """A `BlockRng` for drafters: a row without budget gets its most probable id, undrawn.

    So a draft is made of possible tokens only, also where a row's own part of it ends before the others'.
    """

    def categorical(self, probs: Tensor, **which: Unpack[Which]) -> Tensor:
        """Draws for rows that have budget left: probs [B, V] -> [B] ids (see `Rng`)."""
        place = self._place(which)
        picked = self.rng.categorical(probs, **place)
        live = place.get("live")
        return picked if live is None else torch.where(live, picked, probs.argmax(-1))


def check_one_a_row(probs: Tensor) -> None:
    """Refuses, by ValueError, probabilities that are not [B]: each position is decided by itself."""
    if probs.dim() != 1:
        raise ValueError(f"bernoulli takes one probability a row, [B], not {list(probs.shape)}")


class SeededRng:
    """Draws from a generator with a seed: the one for everyday use.

    The draws are made on the CPU in float64, so that a seed means the same on every device.
    """

    def __init__(self, seed: int) -> None:
        """Starts a stream of its own from a seed of 0 to 2³² − 1; torch reads no more bits than these."""
        self._generator = torch.Generator().manual_seed(seed)

    def bernoulli(self, probs: Tensor, **which: Unpack[Which]) -> Tensor:
        """Answers yes with the given probabilities: probs [B] -> [B] bool (see `Rng`).

        Raises:
            ValueError: if the probabilities are not [B].
        """
        check_one_a_row(probs)
        live = which.get("live")
        undecided = (probs > 0) & (probs < CERTAIN)
        if live is not None:
            undecided = undecided & live
        uniform = self._uniforms(undecided)
        # Uniforms lie in [0, 1): a probability of 0 is never met, one of 1 always.
        yes = uniform < probs
        return yes if live is None else yes & live

    def categorical(self, probs: Tensor, **which: Unpack[Which]) -> Tensor:
        """Draws ids by inverting the cumulative sum: probs [B, V] -> [B] ids (see `Rng`)."""
        live = which.get("live")
        cumulative = probs.double().cumsum(-1)  # [B, V]
        total = cumulative[:, -1:]
        undecided = (probs > 0).sum(-1) > 1
        if live is not None:
            undecided = undecided & live
        # The first id whose cumulative sum exceeds the threshold. An id of probability 0 adds nothing
        # to the sum, so it is never first; the threshold stays below the total, so one is always found.
        threshold = torch.minimum(
            self._uniforms(undecided)[:, None] * total, torch.nextafter(total, torch.zeros_like(total))
        )
        picked = torch.searchsorted(cumulative, threshold, right=True)[:, 0]
        return picked if live is None else picked * live

    def _uniforms(self, wanted: Tensor) -> Tensor:
        """Returns [B] float64 in [0, 1): a fresh number where wanted, 0 elsewhere."""
        count = int(wanted.sum())
        if count == wanted.numel():
            return self._numbers(count).to(wanted.device)
        uniform = torch.zeros(wanted.shape, dtype=torch.float64, device=wanted.device)
        if count:
            uniform[wanted] = self._numbers(count).to(wanted.device)
        return uniform

    def _numbers(self, count: int) -> Tensor:
        """Returns the stream's next numbers in [0, 1): [count] float64."""
        return torch.rand(count, generator=self._generator, dtype=torch.float64)
