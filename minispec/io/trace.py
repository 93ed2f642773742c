"""Traces: a whole run, with what an observer saw of it: cache lengths at three moments, seconds by phase.

The loop knows nothing of this; `observe.py` watches it. Statistics, figures, files and the command line read
a `Trace`, never a model.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from minispec.core.records import Finish, Round


@dataclass(frozen=True)
class CacheLengths:
    """How many tokens a cache held, row by row, at three moments of a round."""

    before: tuple[int, ...]  #: when the round began
    verified: tuple[int, ...]  #: after the target had read the draft; for the draft's cache, after drafting
    after: tuple[int, ...]  #: after rollback


@dataclass(frozen=True, kw_only=True)
class ObservedRound(Round):
    """A round, and what was seen of it from outside."""

    target_cache: CacheLengths  #: lengths of the target's cache
    draft_cache: CacheLengths | None  #: lengths of the drafter's cache, or None if it has none
    seconds: Mapping[str, float]  #: by phase: `draft`, `verify`, `rollback`, `other`; at first `prefill` too


@dataclass(frozen=True)
class Trace:
    """A whole run: a header and its rounds."""

    prompts: tuple[tuple[int, ...], ...]  #: token ids, row by row
    config: Mapping[str, Any]  #: what the run was called with (k, verifier, …), for people and files
    rounds: tuple[ObservedRound, ...]  #: in order

    @property
    def prefill_lengths(self) -> tuple[int, ...]:
        """How many tokens of each prompt were read before the first round: all but the pending one."""
        if not self.rounds:
            return (0,) * len(self.prompts)
        return self.rounds[0].target_cache.before

    def tokens(self, row: int = 0) -> list[int]:
        """All tokens emitted for a row, without the prompt."""
        return [token for r in self.rounds for token in r.emitted[row]]

    def finish(self, row: int = 0) -> Finish | None:
        """Why the row ended, or None if it had not."""
        if self.rounds:
            return self.rounds[-1].finish[row]
        # Without a round there was no budget from the start.
        full = len(self.prompts[row]) >= self.config.get("context", float("inf"))
        return "context" if full else "cap" if self.config.get("max_new_tokens") == 0 else None

    def statistics(self) -> "Statistics":
        """Counts over all rows and rounds."""
        each = [(r, row) for r in self.rounds for row in range(len(self.prompts)) if r.live[row]]
        tested = [r.tested(row) for r, row in each]
        phases = dict.fromkeys(phase for r in self.rounds for phase in r.seconds)
        return Statistics(
            emitted=sum(len(r.emitted[row]) for r, row in each),
            target_calls=len(self.rounds),
            row_rounds=len(each),
            accepted=sum(r.accepted(row) for r, row in each),
            tested=None if None in tested else sum(n for n in tested if n is not None),
            drafted=sum(r.drafted(row) for r, row in each),
            seconds={phase: sum(r.seconds.get(phase, 0.0) for r in self.rounds) for phase in phases},
        )


@dataclass(frozen=True)
class Statistics:
    """Counts of a trace, over all its rows and rounds."""

    emitted: int  #: tokens, all rows together
    target_calls: int  #: forward passes of the target, prefill left out
    row_rounds: int  #: the same counted per live row
    accepted: int  #: drafted tokens that were kept
    #: drafted tokens that were looked at; after a rejection none is. None for a rule that looks beyond it
    tested: int | None
    drafted: int  #: drafted tokens
    seconds: Mapping[str, float]  #: by phase

    @property
    def acceptance(self) -> float | None:
        """Accepted over tested, or None if nothing was tested, or the rule looks beyond a rejection."""
        return self.accepted / self.tested if self.tested else None

    @property
    def accepted_over_drafted(self) -> float | None:
        """Accepted over drafted, which engines print; None if nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else None

    @property
    def mean_acceptance_length(self) -> float | None:
        """1 + accepted / rounds, which engines print; None if there was no round."""
        return 1 + self.accepted / self.row_rounds if self.row_rounds else None

    @property
    def tokens_per_target_call(self) -> float | None:
        """Tokens a row gains in one target call, or None if there was none."""
        return self.emitted / self.row_rounds if self.row_rounds else None
