"""Chance with a witness: a seeded source that notes every decision and the number that decided it.

Figures show the number that was compared with min(1, p/q). Nothing here draws: `SeededRng` does, in the same
order, so that a text is the same with and without the witness.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from minispec.core.rng import SeededRng

DrawKind = Literal["accept", "pick"]


@dataclass(frozen=True)
class Draw:
    """One decision.

    Attributes:
        row: the row of the batch.
        position: which token of the row's text it is about, counted from 0, prompt included; None if whoever
            asked did not say.
        kind: `accept`, a yes or no; or `pick`, one id of many.
        low: the outcome came up because the number is at least this …
        high: … and below this. For a yes that is 0 and the chance of yes, for a no the chance of yes and 1. A
            pick owns a stretch as long as its probability.
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


class Overheard(SeededRng):
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


class RecordingRng:
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
        self._rng = Overheard(seed)

    def take(self) -> tuple[Draw, ...]:
        """Returns the notes so far, and forgets them."""
        taken, self.draws = tuple(self.draws), []
        return taken

    def bernoulli(
        self,
        probs: Tensor,
        *,
        rows: Tensor | None = None,
        positions: Tensor | int | None = None,
        live: Tensor | None = None,
    ) -> Tensor:
        """Says yes with the given chances, and notes it: probs [B] -> [B] bool (see `Rng`)."""
        yes = self._rng.bernoulli(probs, rows=rows, positions=positions, live=live)
        chances, outcomes = probs.double().tolist(), yes.tolist()
        edges = [(0.0, p) if y else (p, 1.0) for p, y in zip(chances, outcomes, strict=True)]
        self._note("accept", edges, outcomes, rows, positions, live)
        return yes

    def categorical(
        self,
        probs: Tensor,
        *,
        rows: Tensor | None = None,
        positions: Tensor | int | None = None,
        live: Tensor | None = None,
    ) -> Tensor:
        """Picks ids, and notes it: probs [B, V] -> [B] ids (see `Rng`)."""
        picked = self._rng.categorical(probs, rows=rows, positions=positions, live=live)
        cumulative = probs.double().cumsum(-1)
        cumulative = cumulative / cumulative[:, -1:]  # [B, V]
        high = cumulative.gather(1, picked[:, None])[:, 0]
        low = torch.where(picked > 0, cumulative.gather(1, (picked[:, None] - 1).clamp(min=0))[:, 0], 0.0)
        edges = list(zip(low.tolist(), high.tolist(), strict=True))
        self._note("pick", edges, picked.tolist(), rows, positions, live)
        return picked

    def _note(
        self,
        kind: DrawKind,
        edges: list[tuple[float, float]],
        outcomes: list[int],
        rows: Tensor | None,
        positions: Tensor | int | None,
        live: Tensor | None,
    ) -> None:
        """Notes one decision for each live row, from the numbers that were drawn last."""
        count = len(outcomes)
        names = list(range(count)) if rows is None else rows.tolist()
        places = None if positions is None else torch.as_tensor(positions).expand(count).tolist()
        asked = [True] * count if live is None else live.tolist()
        drawn, numbers = self._rng.wanted.tolist(), self._rng.numbers.tolist()
        for i in (i for i in range(count) if asked[i]):
            self.draws.append(
                Draw(
                    row=names[i],
                    position=None if places is None else places[i],
                    kind=kind,
                    low=edges[i][0],
                    high=edges[i][1],
                    number=numbers[i] if drawn[i] else None,
                    outcome=int(outcomes[i]),
                )
            )
