"""Recordings: a trace with all that one needs to show it, and no model.

A `Trace` has token ids and distributions. A `Recording` adds the words that the ids stand for and the numbers
that were drawn: `LoggingRng` notes them. Figures show the number that was compared with min(1, p/q). Nothing
here draws: `SeededRng` does, in the same order, so that a text is the same with and without the notes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from minispec.core.batch import Request
from minispec.core.draft import Drafter
from minispec.core.model import LanguageModel
from minispec.core.rng import Place, Rng, RoundPlan, SeededRng
from minispec.io.observe import checked, observe, run_config
from minispec.io.trace import Trace, row_of

DrawKind = Literal["accept", "pick"]


@dataclass(frozen=True)
class Draw:
    """One decision."""

    prompt: int  #: which prompt's text it is about
    position: int | None  #: which token of that text, from 0, prompt included; None: not given
    kind: DrawKind  #: `accept`, a yes or no; or `pick`, one id of many
    low: float  #: the outcome owns the numbers from here …
    high: float  #: … to here, as many as it is probable; a yes those from 0
    number: float | None  #: that was drawn, in [0, 1); None where the outcome was certain
    outcome: int  #: 1 or 0 for yes or no; the id that was picked


class LoggingRng(SeededRng):
    """A `SeededRng` that notes what it decides."""

    def __init__(self, seed: int) -> None:
        """Starts a stream of its own, with no notes; the seed is as for `SeededRng`."""
        super().__init__(seed)
        self.draws: list[Draw] = []  #: what was decided, in order
        self._drawn: list[float | None] = []  # the numbers of the last decisions; None where none was drawn

    def take(self) -> tuple[Draw, ...]:
        """Returns the notes so far, and forgets them."""
        draws = tuple(self.draws)
        self.draws = []
        return draws

    def bernoulli(self, probs: Tensor, place: Place | None = None) -> Tensor:
        """Says yes with the given probabilities, and notes it: probs [B] -> [B] bool (see `Rng`)."""
        outcome = super().bernoulli(probs, place)
        low = torch.where(outcome, 0.0, probs.double())
        high = torch.where(outcome, probs.double(), 1.0)
        self._note("accept", low, high, outcome, place)
        return outcome

    def categorical(self, probs: Tensor, place: Place | None = None) -> Tensor:
        """Picks ids, and notes it: probs [B, V] -> [B] ids (see `Rng`)."""
        token = super().categorical(probs, place)
        cumulative = probs.double().cumsum(-1)
        edges = torch.nn.functional.pad(cumulative / cumulative[:, -1:], (1, 0))  # [B, V + 1], from 0 to 1
        low, high = (edges.gather(1, token[:, None] + side)[:, 0] for side in (0, 1))
        self._note("pick", low, high, token, place)
        return token

    def _uniforms(self, needed: Tensor) -> Tensor:
        uniform = super()._uniforms(needed)
        pairs = zip(uniform.tolist(), needed.tolist(), strict=True)
        self._drawn = [number if is_needed else None for number, is_needed in pairs]
        return uniform

    def _note(self, kind: DrawKind, low: Tensor, high: Tensor, outcomes: Tensor, place: Place | None) -> None:
        """Notes one decision for each live row; low, high and outcomes are [B]."""
        count = len(outcomes)
        place = place or Place(RoundPlan.unlimited(count, outcomes.device))
        prompts = place.plan.prompt_ids
        positions = [None] * count if place.positions is None else place.positions.tolist()
        decided = [True] * count if place.live is None else place.live.tolist()
        columns = prompts, positions, low.tolist(), high.tolist(), self._drawn, map(int, outcomes.tolist())
        for happens, (prompt, position, *numbers) in zip(decided, zip(*columns, strict=True), strict=True):
            if happens:
                self.draws.append(Draw(prompt, position, kind, *numbers))


@dataclass(frozen=True)
class Recording:
    """A run that can be shown without its models."""

    trace: Trace  #: the run
    words: tuple[str, ...]  #: for every id of the vocabulary, its text
    draws: tuple[tuple[Draw, ...], ...]  #: for each round, what was decided at random, in order
    info: Mapping[str, Any] = field(default_factory=dict)  #: where it comes from: pair, prompt, …

    def __post_init__(self) -> None:
        if len(self.draws) != len(self.trace.rounds):
            raise ValueError(f"draws of {len(self.draws)} rounds do not fit {len(self.trace.rounds)} rounds")
        sizes = {r.target_probs.shape[-1] for r in self.trace.rounds}
        if sizes - {len(self.words)}:
            raise ValueError(f"{len(self.words)} words do not fit distributions over {max(sizes)} ids")

    def text(self, prompt: int = 0) -> str:
        """Returns what was emitted for a prompt, word after word."""
        return "".join(self.words[token] for token in self.trace.tokens(prompt))

    def accept_draw(self, index: int, i: int, prompt: int = 0) -> Draw | None:
        """Returns the test of token i of a draft; None if it is not known or there was none.

        In a tree it is not known: candidates of one position are told apart by nothing that is noted.
        """
        about = self._about(index, i, prompt)
        return next((draw for draw, _ in about if draw.kind == "accept"), None)

    def draft_draw(self, index: int, i: int, prompt: int = 0) -> Draw | None:
        """Returns the pick of token i of a draft; None if it is not known, as in a tree."""
        about = self._about(index, i, prompt)
        return next((draw for draw, is_late in about if draw.kind == "pick" and not is_late), None)

    def next_draw(self, index: int, prompt: int = 0) -> Draw | None:
        """Returns the pick of the token after the accepted prefix: a correction, or a bonus."""
        row = self._row(index, prompt)
        if row is None:
            return None
        i = self.trace.rounds[index].accepted(row)
        drafted = self.draft_draw(index, i, prompt) if i < self.trace.rounds[index].drafted(row) else None
        about = self._about(index, i, prompt)[::-1]
        return next((draw for draw, _ in about if draw.kind == "pick" and draw is not drafted), None)

    def _about(self, index: int, i: int, prompt: int) -> list[tuple[Draw, bool]]:
        """Returns the decisions about token i, and of each whether a test came before it."""
        if self._row(index, prompt) is None:
            return []
        draws = [d for d in self.draws[index] if d.prompt == prompt]
        first_test = next((n for n, d in enumerate(draws) if d.kind == "accept"), len(draws))
        position = len(self.trace.committed(prompt, index)) + i
        return [(d, n > first_test) for n, d in enumerate(draws) if d.position == position]

    def _row(self, index: int, prompt: int) -> int | None:
        """Returns the row of a prompt in a round that drafted chains, where draws tell tokens apart."""
        r = self.trace.rounds[index]
        return row_of(r, prompt) if r.draft.parents is None else None


def record_run(
    target: LanguageModel,
    drafter: Drafter | None,
    prompts: Sequence[Sequence[int] | Request],
    words: Sequence[str],
    *,
    rng: Rng,
    info: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Recording:
    """Runs `speculate`, whose arguments these are but two, to its end and keeps the rounds and their draws.

    `words` has the text of every id of the vocabulary, and `info` is what to say about the run. With a
    `LoggingRng` what it has noted is kept too.
    """
    requests = checked(target, prompts, settings)
    rounds = observe(target, drafter, requests, rng=rng, **settings)
    observed = [(r, rng.take() if isinstance(rng, LoggingRng) else ()) for r in rounds]
    config = run_config(target, drafter, requests, settings)
    trace = Trace(tuple(tuple(r.prompt) for r in requests), config, tuple(r for r, _ in observed))
    return Recording(trace, tuple(words), tuple(draws for _, draws in observed), dict(info or {}))
