"""Chance comes in by one door.

Nothing else in the package draws random numbers while it decodes. So a test can put a different `Rng`
behind the door and walk through every outcome, or give two runs the same noise.

All generators keep two promises. What is masked, or certain, draws nothing. What has probability 0 never
happens.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor


class Rng(Protocol):
    """A source of decisions for B rows at a time."""

    def bernoulli(
        self,
        probs: Tensor,
        *,
        rows: Tensor | None = None,
        positions: Tensor | None = None,
        live: Tensor | None = None,
    ) -> Tensor:
        """Decides yes or no.

        Args:
            probs: [B], the chance of yes.
            rows: [B], which row of the batch each is; by default 0 … B−1.
            positions: [B], the place in the text that each decision is about, for generators that care.
            live: [B] bool; the others are not decided, and False.

        Returns:
            [B] bool.
        """

    def categorical(
        self,
        probs: Tensor,
        *,
        rows: Tensor | None = None,
        positions: Tensor | None = None,
        live: Tensor | None = None,
    ) -> Tensor:
        """Picks one id a row.

        Args:
            probs: [B, V], non-negative; each row is a distribution up to rounding.
            rows: as above.
            positions: as above.
            live: as above; the others get 0.

        Returns:
            [B] int64.
        """


class LiveRng:
    """Another generator, for some of the rows only: the others draw nothing, whoever asks."""

    def __init__(self, rng: Rng, live: Tensor) -> None:
        """Opens `rng` to the rows that are live.

        Args:
            rng: draws.
            live: [B] bool.
        """
        self._rng = rng
        self._live = live

    def bernoulli(
        self,
        probs: Tensor,
        *,
        rows: Tensor | None = None,
        positions: Tensor | None = None,
        live: Tensor | None = None,
    ) -> Tensor:
        """Decides for live rows (see `Rng`)."""
        both = self._live if live is None else live & self._live
        return self._rng.bernoulli(probs, rows=rows, positions=positions, live=both)

    def categorical(
        self,
        probs: Tensor,
        *,
        rows: Tensor | None = None,
        positions: Tensor | None = None,
        live: Tensor | None = None,
    ) -> Tensor:
        """Picks for live rows (see `Rng`)."""
        both = self._live if live is None else live & self._live
        return self._rng.categorical(probs, rows=rows, positions=positions, live=both)


class SeededRng:
    """Draws from a generator with a seed: the one for everyday use.

    The draws are made on the CPU in float64, so that a seed means the same on every device.
    """

    def __init__(self, seed: int) -> None:
        """Starts a stream of its own; torch's global generator is neither read nor moved.

        Args:
            seed: any integer of up to 64 bits.
        """
        self._generator = torch.Generator().manual_seed(seed)

    def bernoulli(
        self,
        probs: Tensor,
        *,
        rows: Tensor | None = None,
        positions: Tensor | None = None,
        live: Tensor | None = None,
    ) -> Tensor:
        """Says yes with the given chances (see `Rng`)."""
        open_rows = (probs > 0) & (probs < 1)
        if live is not None:
            open_rows = open_rows & live
        uniform = self._uniforms(open_rows)
        # Uniforms lie in [0, 1): a chance of 0 is never met, a chance of 1 always.
        yes = uniform < probs
        return yes if live is None else yes & live

    def categorical(
        self,
        probs: Tensor,
        *,
        rows: Tensor | None = None,
        positions: Tensor | None = None,
        live: Tensor | None = None,
    ) -> Tensor:
        """Picks ids by inverting the cumulative sum (see `Rng`)."""
        cumulative = probs.double().cumsum(-1)  # [B, V]
        total = cumulative[:, -1:]
        open_rows = probs.amax(-1) < total[:, 0]
        if live is not None:
            open_rows = open_rows & live
        # The first id whose cumulative sum exceeds the threshold. An id of probability 0 adds nothing
        # to the sum, so it is never first; the threshold stays below the total, so one is always found.
        threshold = torch.minimum(
            self._uniforms(open_rows)[:, None] * total, torch.nextafter(total, torch.zeros_like(total))
        )
        picked = torch.searchsorted(cumulative, threshold, right=True)[:, 0]
        return picked if live is None else picked * live

    def _uniforms(self, wanted: Tensor) -> Tensor:
        """Returns [B] float64 in [0, 1): a fresh number where wanted, 0 elsewhere."""
        count = int(wanted.sum())
        if count == wanted.numel():
            return torch.rand(count, generator=self._generator, dtype=torch.float64).to(wanted.device)
        uniform = torch.zeros(wanted.shape, dtype=torch.float64, device=wanted.device)
        if count:
            drawn = torch.rand(count, generator=self._generator, dtype=torch.float64)
            uniform[wanted] = drawn.to(wanted.device)
        return uniform
