"""The clock: how long each phase of a round takes."""

from __future__ import annotations

from time import perf_counter


class Clock:
    """Adds up seconds by phase."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._last = perf_counter()

    def lap(self, phase: str) -> None:
        """Counts the time since the last lap for a phase."""
        now = perf_counter()
        self._seconds[phase] = self._seconds.get(phase, 0.0) + now - self._last
        self._last = now

    def take(self) -> dict[str, float]:
        """Returns the sums and starts afresh."""
        taken, self._seconds = self._seconds, {}
        return taken
