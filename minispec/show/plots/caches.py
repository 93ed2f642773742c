"""What both caches hold at the moments of a round, slot by slot: the data of the cache figure.

A cache has a slot per position of the text, in every layer. The text and the caches do not end at the same
place: the pending token is in the text but in no cache, and during a round the caches run ahead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from minispec.io.trace import CacheLengths, Trace

Moment = Literal["before", "drafted", "verified", "rolled back", "caught up"]
MOMENTS: tuple[Moment, ...] = ("before", "drafted", "verified", "rolled back", "caught up")
TITLES: Mapping[Moment, str] = {
    "before": "Before the round",
    "drafted": "After drafting",
    "verified": "After the target's one pass",
    "rolled back": "After rollback",
    "caught up": "After the draft has caught up",
}


@dataclass(frozen=True)
class Cell:
    """One slot of a cache, or one token of the text.

    Attributes:
        owner: `text`, `target` or `draft`.
        place: its position in the text, counted from 0.
        token: the id that stands there or, after rollback, stood there; None in an empty slot.
        state: a name of `STATES`, or `empty`.
        held: whether the cache holds it now; for the text, whether it is committed.
    """

    owner: str
    place: int
    token: int | None
    state: str
    held: bool


def cache_cells(trace: Trace, index: int, moment: Moment, row: int = 0) -> list[Cell]:
    """Returns the text and the slots of both caches at a moment of a round, from the first position on.

    Args:
        trace: any.
        index: which round.
        moment: one of `MOMENTS`; each sees what the moments before it have done.
        row: which row.

    Returns:
        The cells of the text, then the target's, then the draft's unless it has no cache.

    Raises:
        ValueError: if there is no such round or moment, or the row was done before it.
    """
    _check(trace, index, moment, row)
    r = trace.rounds[index]
    before = [*trace.prompts[row], *(token for past in trace.rounds[:index] for token in past.emitted[row])]
    drafted = r.draft.tokens[row, : r.drafted(row)].tolist()
    scene = _Scene(before, drafted, list(r.emitted[row]), len(trace.prompts[row]), MOMENTS.index(moment))
    cells = scene.text()
    for owner, lengths in (("target", r.target_cache), ("draft", r.draft_cache)):
        if lengths is not None:
            cells += scene.slots(owner, lengths, row)
    return cells


def needs_catch_up(trace: Trace, index: int, row: int = 0) -> bool:
    """Whether the draft's cache lacked a token after the rollback: the last drafted one, never read."""
    _check(trace, index, "before", row)
    lengths = trace.rounds[index].draft_cache
    return lengths is not None and lengths.verified[row] < lengths.after[row]


@dataclass(frozen=True)
class _Scene:
    """A round of one row: the text before it, the draft, what was emitted, and how far we are (0 to 4)."""

    before: list[int]
    drafted: list[int]
    emitted: list[int]
    prompt: int
    moment: int

    def text(self) -> list[Cell]:
        over = self.moment >= 3
        end = len(self.before) + (len(self.emitted) if over else 0)
        known = [*self.before, *(self.emitted if over else self.drafted if self.moment else [])]
        return [
            Cell("text", place, token, self._in_text(place, end), place < end)
            for place, token in enumerate(known)
        ]

    def _in_text(self, place: int, end: int) -> str:
        if place >= end:
            return "drafted"
        if place == end - 1:
            return "pending"
        return self._settled(place)

    def _settled(self, place: int) -> str:
        """What a committed token is called."""
        return "prompt" if place < self.prompt else "committed" if place < len(self.before) else "draft"

    def slots(self, owner: str, lengths: CacheLengths, row: int) -> list[Cell]:
        before, verified, after = lengths.before[row], lengths.verified[row], lengths.after[row]
        full = verified if self.moment >= (1 if owner == "draft" else 2) else before
        # Rollback first, then the catch-up: the code does the second first, which comes to the same.
        held = [before, full, full, min(verified, after), after][self.moment]
        tokens = [*self.before, *self.drafted]
        return [
            Cell(owner, place, tokens[place] if place < max(held, full) else None, *state)
            for place in range(len(tokens))
            for state in [self._in_cache(place, held, full)]
        ]

    def _in_cache(self, place: int, held: int, full: int) -> tuple[str, bool]:
        if place >= held:
            return ("rejected" if place < full else "empty"), False
        if place >= len(self.before) and self.moment < 3:
            return "drafted", True
        return self._settled(place), True


def _check(trace: Trace, index: int, moment: str, row: int) -> None:
    if not 0 <= index < len(trace.rounds):
        raise ValueError(f"there is no round {index}; the trace has {len(trace.rounds)}")
    if moment not in MOMENTS:
        raise ValueError(f"moment {moment!r} is unknown; choose one of {', '.join(MOMENTS)}")
    if not trace.rounds[index].live[row]:
        raise ValueError(f"row {row} was done before round {index}")
