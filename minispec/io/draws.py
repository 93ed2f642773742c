"""Draws: a seeded random number generator that notes every decision and the number that decided it.

Figures show the number that was compared with min(1, p/q). Nothing here draws: `SeededRng` does, in the same
order, so that a text is the same with and without the notes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Unpack

import torch
from torch import Tensor

from minispec.core.rng import SeededRng, Which

DrawKind = Literal["accept", "pick"]


@dataclass(frozen=True)
class Draw:
    """One decision.

    Attributes:
        row: the row of the batch.
        position: which token of the row's text it is about, counted from 0, prompt included; None if the
            caller did not say.
        kind: `accept`, a yes or no; or `pick`, one id of many.
        low: the outcome came up because the number is at least this …
        high: … and below this. For a yes they are 0 and the probability of yes, for a no that probability
            and 1. A pick owns an interval as long as its probability.
        number: the number drawn, in [0, 1); None where the decision was certain and nothing was drawn.
        outcome: 1 or 0 for yes or no; the id that was picked.
    """

    row: int
    position: int | None
    kind: DrawKind
    low: float
    high: float
    number: float | None
    outcome: int

    @property
    def probability(self) -> float:
        """How probable the outcome was."""
        return self.high - self.low

    @property
    def margin(self) -> float:
        """How far the number lies from where the outcome would change: infinite for what was certain.

        0 and 1 are no thresholds: no number lies beyond them.
        """
        if self.number is None:
            return float("inf")
        inner = [edge for edge in (self.low, self.high) if 1e-12 < edge < 1 - 1e-12]
        return min((abs(self.number - edge) for edge in inner), default=float("inf"))


class RememberingRng(SeededRng):
    """A `SeededRng` that remembers the numbers that it drew last.

    Attributes:
        wanted: [B] bool, for which rows a number was drawn.
        numbers: [B] float64, the numbers; 0 elsewhere.
    """

    def __init__(self, seed: int) -> None:
        """Starts a stream of its own.

        Args:
            seed: as for `SeededRng`.
        """
        super().__init__(seed)
        self.wanted = torch.zeros(0, dtype=torch.bool)
        self.numbers = torch.zeros(0, dtype=torch.float64)

    def _uniforms(self, wanted: Tensor) -> Tensor:
        self.wanted, self.numbers = wanted, super()._uniforms(wanted)
        return self.numbers


class LoggingRng:
    """What `SeededRng` decides with the same seed, and notes on all of it.

    Attributes:
        draws: what was decided, in order.
    """

    def __init__(self, seed: int) -> None:
        """Starts a stream of its own, with no notes.

        Args:
            seed: as for `SeededRng`.
        """
        self.draws: list[Draw] = []
        self._rng = RememberingRng(seed)

    def take(self) -> tuple[Draw, ...]:
        """Returns the notes so far, and forgets them."""
        taken, self.draws = tuple(self.draws), []
        return taken

    def bernoulli(self, probs: Tensor, **which: Unpack[Which]) -> Tensor:
        """Says yes with the given probabilities, and notes it: probs [B] -> [B] bool (see `Rng`)."""
        yes = self._rng.bernoulli(probs, **which)
        given, outcomes = probs.double().tolist(), yes.tolist()
        edges = [(0.0, p) if y else (p, 1.0) for p, y in zip(given, outcomes, strict=True)]
        self._note("accept", edges, outcomes, which)
        return yes

    def categorical(self, probs: Tensor, **which: Unpack[Which]) -> Tensor:
        """Picks ids, and notes it: probs [B, V] -> [B] ids (see `Rng`)."""
        picked = self._rng.categorical(probs, **which)
        cumulative = probs.double().cumsum(-1)
        cumulative = cumulative / cumulative[:, -1:]  # [B, V]
        high = cumulative.gather(1, picked[:, None])[:, 0]
        low = torch.where(picked > 0, cumulative.gather(1, (picked[:, None] - 1).clamp(min=0))[:, 0], 0.0)
        edges = list(zip(low.tolist(), high.tolist(), strict=True))
        self._note("pick", edges, picked.tolist(), which)
        return picked

    def _note(
        self, kind: DrawKind, edges: list[tuple[float, float]], outcomes: list[int], which: Which
    ) -> None:
        """Notes one decision for each live row, from the numbers that were drawn last."""
        rows, positions, live = which.get("rows"), which.get("positions"), which.get("live")
        count = len(outcomes)
        names = list(range(count)) if rows is None else rows.tolist()
        each = [None] * count if positions is None else torch.as_tensor(positions).expand(count).tolist()
        decided = [True] * count if live is None else live.tolist()
        drawn, numbers = self._rng.wanted.tolist(), self._rng.numbers.tolist()
        for i in (i for i in range(count) if decided[i]):
            self.draws.append(
                Draw(
                    row=names[i],
                    position=each[i],
                    kind=kind,
                    low=edges[i][0],
                    high=edges[i][1],
                    number=numbers[i] if drawn[i] else None,
                    outcome=int(outcomes[i]),
                )
            )
