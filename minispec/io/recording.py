"""Recordings: a trace with all that one needs to show it, and no model.

A `Trace` has token ids and distributions. A `Recording` adds the words that the ids stand for and the numbers
that were drawn. Figures, the stepper and files are made from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from minispec.core.draft import Drafter
from minispec.core.model import LanguageModel
from minispec.core.rng import Rng
from minispec.io.draws import Draw, LoggingRng
from minispec.io.observe import observe, run_config
from minispec.io.trace import ObservedRound, Trace


@dataclass(frozen=True)
class Recording:
    """A run that can be shown without its models.

    Attributes:
        trace: the run.
        words: for every id of the vocabulary, its text.
        draws: for each round, what was decided at random, in order; empty tuples where nothing was noted.
        info: where it comes from: pair, prompt, seed, …, for people and files.
    """

    trace: Trace
    words: tuple[str, ...]
    draws: tuple[tuple[Draw, ...], ...] = ()
    info: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.draws:
            object.__setattr__(self, "draws", ((),) * len(self.trace.rounds))
        if len(self.draws) != len(self.trace.rounds):
            raise ValueError(f"draws of {len(self.draws)} rounds do not fit {len(self.trace.rounds)} rounds")
        sizes = {r.target_probs.shape[-1] for r in self.trace.rounds}
        if sizes - {len(self.words)}:
            raise ValueError(f"{len(self.words)} words do not fit distributions over {max(sizes)} ids")

    def text(self, row: int = 0) -> str:
        """Returns what was emitted for a row, word after word."""
        return "".join(self.words[token] for token in self.trace.tokens(row))

    def accept_draw(self, index: int, i: int, row: int = 0) -> Draw | None:
        """Returns the test of a drafted token.

        Args:
            index: of the round.
            i: which token of the draft, from 0.
            row: of the batch.

        Returns:
            The decision, or None if it is not known or there was none.
        """
        wanted = ("accept", row, self._start(index, row) + i)
        return next((d for d in self.draws[index] if (d.kind, d.row, d.position) == wanted), None)

    def draft_draw(self, index: int, i: int, row: int = 0) -> Draw | None:
        """Returns the pick of a drafted token; arguments and result as for `accept_draw`."""
        picks = self._picks(index, i, row)
        return next((draw for draw, is_tested in picks if not is_tested), None)

    def next_draw(self, index: int, row: int = 0) -> Draw | None:
        """Returns the pick of the token after the accepted prefix: a correction, or a bonus."""
        i = self.trace.rounds[index].accepted(row)
        drafted = self.draft_draw(index, i, row) if i < self.trace.rounds[index].drafted(row) else None
        picks = [draw for draw, _ in self._picks(index, i, row) if draw is not drafted]
        return picks[-1] if picks else None

    def _picks(self, index: int, i: int, row: int) -> list[tuple[Draw, bool]]:
        """Returns the picks of token i, and of each whether testing had begun: then it is the verifier's."""
        mine = [d for d in self.draws[index] if d.row == row]
        first_test = next((n for n, d in enumerate(mine) if d.kind == "accept"), len(mine))
        position = self._start(index, row) + i
        return [
            (d, n > first_test) for n, d in enumerate(mine) if d.kind == "pick" and d.position == position
        ]

    def _start(self, index: int, row: int) -> int:
        """Returns the position of the first new token of a round."""
        before = sum(len(r.emitted[row]) for r in self.trace.rounds[:index])
        return len(self.trace.prompts[row]) + before


def record_run(
    target: LanguageModel,
    drafter: Drafter | None,
    prompts: Sequence[Sequence[int]],
    words: Sequence[str],
    *,
    rng: Rng,
    info: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Recording:
    """Runs `speculate` to its end and keeps the rounds and their draws.

    Args:
        target: as in `speculate`.
        drafter: as in `speculate`.
        prompts: as in `speculate`.
        words: for every id of the vocabulary, its text.
        rng: as in `speculate`; with a `LoggingRng` what it has noted is kept too.
        info: what to say about the run.
        **settings: the other keyword arguments of `speculate`.

    Returns:
        The recording.
    """
    rounds: list[ObservedRound] = []
    draws: list[tuple[Draw, ...]] = []
    for r in observe(target, drafter, prompts, rng=rng, **settings):
        rounds.append(r)
        draws.append(rng.take() if isinstance(rng, LoggingRng) else ())
    config = run_config(target, drafter, settings)
    trace = Trace(tuple(tuple(prompt) for prompt in prompts), config, tuple(rounds))
    return Recording(trace, tuple(words), tuple(draws), dict(info or {}))
