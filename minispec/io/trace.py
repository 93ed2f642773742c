"""Traces: a whole run, with cache lengths at three moments of each round and seconds by phase.

The loop knows nothing of this; `observe.py` watches it. Statistics, figures, files and the command line read
a `Trace`, never a model.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
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
    """A round, with its cache lengths and seconds."""

    target_cache: CacheLengths  #: lengths of the target's cache
    draft_cache: CacheLengths | None  #: lengths of the drafter's cache, or None if it has none
    #: by phase: `draft`, `verify`, `rollback`, `other`, and `prefill` where prompts were read before it
    seconds: Mapping[str, float]


def row_of(r: Round, prompt: int) -> int | None:
    """Returns which row holds a prompt in a round; None where none does.

    Raises:
        ValueError: for a negative number.
    """
    if prompt < 0:
        raise ValueError(f"prompts are counted from 0, not {prompt}")
    return r.prompt_ids.index(prompt) if prompt in r.prompt_ids else None


@dataclass(frozen=True)
class Trace:
    """A whole run: a header and its rounds.

    In a queue (`batch_size`) a row holds prompt after prompt. What belongs to a prompt is found under its
    number, whichever row it had; ValueError for a number that no prompt has.
    """

    prompts: tuple[tuple[int, ...], ...]  #: token ids, prompt by prompt
    config: Mapping[str, Any]  #: what the run was called with (k, verifier, …), for people and files
    rounds: tuple[ObservedRound, ...]  #: in order

    @property
    def prefill_lengths(self) -> tuple[int, ...]:
        """How many tokens of each prompt were read before its first round: all but the pending one.

        0 for a prompt that never had a row.
        """
        first_rounds = (self.rounds_of(prompt)[:1] for prompt in range(len(self.prompts)))
        return tuple(
            sum(r.target_cache.before[row] for r, row in first_round) for first_round in first_rounds
        )

    def rounds_of(self, prompt: int) -> list[tuple[ObservedRound, int]]:
        """Returns the rounds in which a prompt has a row, each with that row, also after the text's end."""
        if not 0 <= prompt < len(self.prompts):
            raise ValueError(f"there is no prompt {prompt}; the trace has 0 to {len(self.prompts) - 1}")
        rows_of_rounds = ((r, row_of(r, prompt)) for r in self.rounds)
        return [(r, row) for r, row in rows_of_rounds if row is not None]

    def tokens(self, prompt: int = 0) -> list[int]:
        """All tokens emitted for a prompt, which itself is left out."""
        return [token for r, row in self.rounds_of(prompt) for token in r.emitted[row]]

    def committed(self, prompt: int = 0, rounds: int | None = None) -> list[int]:
        """A prompt and what was emitted for it, in the first so many rounds of the run; None: in all."""
        trace = self if rounds is None else replace(self, rounds=self.rounds[:rounds])
        emitted = trace.tokens(prompt)
        return [*self.prompts[prompt], *emitted]

    def finish(self, prompt: int = 0) -> Finish | None:
        """Why a prompt's text ended, or None if it had not."""
        for r, row in self.rounds_of(prompt)[-1:]:
            return r.finish[row]
        # It never had a row: there was no budget from the start, or its turn had not come.
        is_full = len(self.prompts[prompt]) >= self.config.get("context", float("inf"))
        return "context" if is_full else "cap" if self.config.get("max_new_tokens") == 0 else None

    def statistics(self, prompt: int | None = None) -> "Statistics":
        """Counts over all rounds; of one prompt, those in which it was live, with all of their seconds."""
        if prompt is None:
            live_rounds = [(r, row) for r in self.rounds for row, live in enumerate(r.live) if live]
            rounds = list(self.rounds)
        else:
            live_rounds = [(r, row) for r, row in self.rounds_of(prompt) if r.live[row]]
            rounds = [r for r, _ in live_rounds]
        tested = [r.tested(row) for r, row in live_rounds]
        phases = dict.fromkeys(phase for r in rounds for phase in r.seconds)
        return Statistics(
            emitted=sum(len(r.emitted[row]) for r, row in live_rounds),
            target_calls=len(rounds),
            row_rounds=len(live_rounds),
            accepted=sum(r.accepted(row) for r, row in live_rounds),
            tested=None if None in tested else sum(filter(None, tested)),
            drafted=sum(r.drafted(row) for r, row in live_rounds),
            seconds={phase: sum(r.seconds.get(phase, 0.0) for r in rounds) for phase in phases},
        )


@dataclass(frozen=True)
class Statistics:
    """Counts of a trace, over all its rows and rounds."""

    emitted: int  #: tokens, all rows together
    target_calls: int  #: forwards of the target, prefill left out
    row_rounds: int  #: target calls, counted once for each live row
    accepted: int  #: accepted drafted tokens
    #: drafted tokens up to the first rejection; None for a rule that looks beyond a rejection
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
        """Tokens that a target call emits for a row, or None if there was no call."""
        return self.emitted / self.row_rounds if self.row_rounds else None
