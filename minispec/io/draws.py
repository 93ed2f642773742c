"""Draws: a seeded random number generator that notes every decision and the number that decided it.

Figures show the number that was compared with min(1, p/q). A text is the same with and without the notes.
"""

from __future__ import annotations

from collections.abc import Sequence
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


class LoggingRng(SeededRng):
    """A `SeededRng` that notes what it decides.

    Attributes:
        draws: what was decided, in order.
    """

    def __init__(self, seed: int) -> None:
        """Starts a stream of its own, with no notes; the seed is as for `SeededRng`."""
        super().__init__(seed)
        self.draws: list[Draw] = []
        self._drawn: list[float | None] = []  # the numbers of the last decisions; None where none was drawn

    def take(self) -> tuple[Draw, ...]:
        """Returns the notes so far, and forgets them."""
        taken, self.draws = tuple(self.draws), []
        return taken

    def bernoulli(self, probs: Tensor, **which: Unpack[Which]) -> Tensor:
        """Says yes with the given probabilities, and notes it: probs [B] -> [B] bool (see `Rng`)."""
        yes = super().bernoulli(probs, **which)
        low, high = torch.where(yes, 0.0, probs.double()), torch.where(yes, probs.double(), 1.0)
        self._note("accept", low, high, yes, which)
        return yes

    def categorical(self, probs: Tensor, **which: Unpack[Which]) -> Tensor:
        """Picks ids, and notes it: probs [B, V] -> [B] ids (see `Rng`)."""
        picked = super().categorical(probs, **which)
        cumulative = probs.double().cumsum(-1)
        edges = torch.nn.functional.pad(cumulative / cumulative[:, -1:], (1, 0))  # [B, V + 1], from 0 to 1
        low, high = (edges.gather(1, picked[:, None] + side)[:, 0] for side in (0, 1))
        self._note("pick", low, high, picked, which)
        return picked

    def _uniforms(self, wanted: Tensor) -> Tensor:
        uniform = super()._uniforms(wanted)
        drawn = zip(uniform.tolist(), wanted.tolist(), strict=True)
        self._drawn = [number if asked else None for number, asked in drawn]
        return uniform

    def _note(self, kind: DrawKind, low: Tensor, high: Tensor, outcomes: Tensor, which: Which) -> None:
        """Notes one decision for each live row; low, high and outcomes are [B]."""
        rows, positions, live = which.get("rows"), which.get("positions"), which.get("live")
        count = len(outcomes)
        names: Sequence[int] = range(count) if rows is None else rows.tolist()
        each = [None] * count if positions is None else torch.as_tensor(positions).expand(count).tolist()
        decided = [True] * count if live is None else live.tolist()
        intervals = zip(low.tolist(), high.tolist(), strict=True)
        for i, (start, end) in enumerate(intervals):
            if decided[i]:
                self.draws.append(Draw(names[i], each[i], kind, start, end, self._drawn[i], int(outcomes[i])))
