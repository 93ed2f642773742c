"""Chance comes in by one door.

Nothing else in the package draws random numbers while it decodes. So a test can put a different `Rng`
behind the door and walk through every outcome, or give two runs the same noise.

All generators keep two promises. What is masked, or certain, draws nothing. What has probability 0 never
happens.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Protocol, cast

import torch
from torch import Tensor


class Rng(Protocol):
    """A source of decisions for B rows at a time."""

    def bernoulli(
        self,
        probs: Tensor,
        *,
        rows: Tensor | None = None,
        positions: Tensor | int | None = None,
        live: Tensor | None = None,
    ) -> Tensor:
        """Decides yes or no.

        Args:
            probs: [B], the chance of yes.
            rows: [B], which row of the batch each is; by default 0 … B−1.
            positions: [B], or one number for all: the place in the text that each decision is about. Who
                decides within a round counts from the round's first new token, and the loop adds the rest.
            live: [B] bool; the others are not decided, and False.

        Returns:
            [B] bool.
        """

    def categorical(
        self,
        probs: Tensor,
        *,
        rows: Tensor | None = None,
        positions: Tensor | int | None = None,
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


class BlockRng:
    """The door as it stands open within one round: each row up to its room, at its place in the text.

    Drafters and verifiers count positions from the round's first new token. This one adds where that is, and
    closes rows whose room ends before. So what a row decides depends on its own text alone, and not on how
    far its neighbours have come; rows that are done decide nothing, whoever asks.

    Attributes:
        rooms: [B], how many tokens may be decided in each row.
    """

    def __init__(self, rng: Rng, start: Sequence[int], room: Sequence[int], device: torch.device) -> None:
        """Opens `rng` for a round.

        Args:
            rng: draws.
            start: [B], how many tokens each row has.
            room: [B], how many more may be decided in it; 0 for a row that is done.
            device: where positions are wanted.
        """
        self._rng, self._starts, self._device = rng, start, device
        self.rooms = room
        self._least_room = min(room)

    @cached_property
    def _start(self) -> Tensor:  # [B]; made when it is asked for, which with one row it hardly ever is
        return torch.tensor(self._starts, device=self._device)

    @cached_property
    def _room(self) -> Tensor:  # [B]
        return torch.tensor(self.rooms, device=self._device)

    def bernoulli(
        self,
        probs: Tensor,
        *,
        rows: Tensor | None = None,
        positions: Tensor | int | None = None,
        live: Tensor | None = None,
    ) -> Tensor:
        """Decides for open rows: probs [B] -> [B] bool (see `Rng`)."""
        places, live = self._place(rows, positions, live)
        return self._rng.bernoulli(probs, rows=rows, positions=places, live=live)

    def categorical(
        self,
        probs: Tensor,
        *,
        rows: Tensor | None = None,
        positions: Tensor | int | None = None,
        live: Tensor | None = None,
    ) -> Tensor:
        """Picks for open rows: probs [B, V] -> [B] ids (see `Rng`)."""
        places, live = self._place(rows, positions, live)
        return self._rng.categorical(probs, rows=rows, positions=places, live=live)

    def numbers(self, count: int) -> Tensor | None:
        """Hands on the numbers for the next `count` picks of each row, [B, count] float64.

        Where a row's room ends they are 0 and decide nothing. None if `rng` does not tell them.
        """
        tell = getattr(self._rng, "numbers", None)
        if tell is None:
            return None
        if self._least_room >= count:
            return tell(count * len(self.rooms)).view(len(self.rooms), count)
        told = torch.zeros(len(self.rooms), count, dtype=torch.float64)
        for row, room in enumerate(self.rooms):
            told[row, :room] = tell(min(room, count))
        return told

    def lend(self, count: int) -> Tensor | None:
        """Hands on what the next `count` decisions will be made by, in their order: [count] float64.

        `give_back` takes those that decided nothing. None if `rng` does not tell its numbers.
        """
        rng = cast(Any, self._rng)
        return rng.numbers(count) if hasattr(rng, "give_back") else None

    def give_back(self, count: int) -> None:
        """Takes back the last `count` numbers that were lent."""
        cast(Any, self._rng).give_back(count)

    def _place(
        self, rows: Tensor | None, positions: Tensor | int | None, live: Tensor | None
    ) -> tuple[Tensor | None, Tensor | None]:
        """Returns absolute positions, and which rows are open at them."""
        start, room = (self._start, self._room) if rows is None else (self._start[rows], self._room[rows])
        places = None if positions is None else start + positions
        if positions is None or isinstance(positions, Tensor):
            beyond = 0 if positions is None else positions
            everywhere = False
        else:
            beyond, everywhere = positions, positions < self._least_room  # known without asking a GPU
        if everywhere:
            return places, live
        inside = beyond < room
        return places, inside if live is None else live & inside


class SeededRng:
    """Draws from a generator with a seed: the one for everyday use.

    The draws are made on the CPU in float64, so that a seed means the same on every device.
    """

    def __init__(self, seed: int) -> None:
        """Starts a stream of its own; torch's global generator is neither read nor moved.

        Args:
            seed: 0 to 2³² − 1; torch's generator reads no more bits than these.
        """
        self._generator = torch.Generator().manual_seed(seed)

    def bernoulli(
        self,
        probs: Tensor,
        *,
        rows: Tensor | None = None,
        positions: Tensor | int | None = None,
        live: Tensor | None = None,
    ) -> Tensor:
        """Says yes with the given chances: probs [B] -> [B] bool (see `Rng`)."""
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
        positions: Tensor | int | None = None,
        live: Tensor | None = None,
    ) -> Tensor:
        """Picks ids by inverting the cumulative sum: probs [B, V] -> [B] ids (see `Rng`)."""
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


class KeyedRng:
    """Noise that is a pure function of seed, row, position and id: the same for whoever asks.

    `categorical` picks the largest log-probability plus Gumbel noise, which has exactly the law that was
    asked for (Gumbel 1954; Maddison et al. 2014). A draft and a target that share the noise mostly pick the
    same token (Daliri, Musco, Suresh 2024), and a target finds the same token with or without a draft.

    There is no coin here. A verifier that rejects by a coin and draws again at the same place would meet the
    noise that its draft was drawn with; that is why `bernoulli` refuses.
    """

    def __init__(self, seed: int) -> None:
        """Fixes the noise.

        Args:
            seed: any integer of up to 63 bits.
        """
        self._seed = seed

    def bernoulli(
        self,
        probs: Tensor,
        *,
        rows: Tensor | None = None,
        positions: Tensor | int | None = None,
        live: Tensor | None = None,
    ) -> Tensor:
        """Says yes where that is certain, no where it is impossible: probs [B] -> [B] bool.

        Raises:
            ValueError: if a decision is open.
        """
        is_open = (probs > 0) & (probs < 1)
        if bool((is_open if live is None else is_open & live).any()):
            raise ValueError(
                "shared noise has no coin: it would repeat the noise of the draft; "
                "use verify_coupled, or another source of chance"
            )
        yes = probs >= 1
        return yes if live is None else yes & live

    def categorical(
        self,
        probs: Tensor,
        *,
        rows: Tensor | None = None,
        positions: Tensor | int | None = None,
        live: Tensor | None = None,
    ) -> Tensor:
        """Picks ids by noise: probs [B, V] -> [B] ids (see `Rng`).

        Raises:
            ValueError: if no positions are given.
        """
        if positions is None:
            raise ValueError("keyed noise needs positions: say which place in the text is decided")
        batch, size = probs.shape
        device = probs.device
        each = torch.arange(batch, device=device) if rows is None else rows.to(device)
        place = torch.as_tensor(positions, device=device).expand(batch)
        key = scramble(scramble(scramble(torch.tensor(self._seed % 2**63, device=device)) + each) + place)
        bits = scramble(key[:, None] + scramble(torch.arange(size, device=device)))  # [B, V]
        uniform = ((bits >> 12) & (2**52 - 1)).double().add(0.5) * 2.0**-52  # inside (0, 1)
        # The largest log p + Gumbel is the smallest exponential / p; where p is 0 that is infinite.
        picked = (-uniform.log() / probs.double()).argmin(-1)
        return picked if live is None else picked * live


def scramble(values: Tensor) -> Tensor:
    """Mixes 64-bit integers so that neighbours come out unrelated: [...] int64 -> [...] int64.

    The finalizer of SplitMix64 (Steele, Lea, Flood 2014). Products wrap around, and the shifts are logical.
    """
    z = values + -7046029254386353131  # 0x9E3779B97F4A7C15 as a signed number
    z = (z ^ ((z >> 30) & (2**34 - 1))) * -4658895280553007687
    z = (z ^ ((z >> 27) & (2**37 - 1))) * -7723592293110705685
    return z ^ ((z >> 31) & (2**33 - 1))
