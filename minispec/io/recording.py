"""Recordings: a trace with all that one needs to show it, and no model.

A `Trace` has token ids and distributions. A `Recording` adds the words that the ids stand for and the numbers
that were drawn: `LoggingRng` notes them. Figures show the number that was compared with min(1, p/q). Nothing
here draws: `SeededRng` does, in the same order, so that a text is the same with and without the notes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress, repeat, starmap
from typing import Any, Literal

import torch
from torch import Tensor

from minispec.core.batch import Request
from minispec.core.draft import Drafter
from minispec.core.model import LanguageModel
from minispec.core.rng import Place, Rng, RoundPlan, SeededRng
from minispec.io.observe import observe, record
from minispec.io.trace import ObservedRound, Trace, row_of

DrawKind = Literal["accept", "pick"]


@dataclass(frozen=True)
class Draw:
    """One random decision: a test of a drafted token, or the pick of a token."""

    prompt: int  #: the prompt id of the text
    position: int | None  #: the token's position in that text, prompt included; None: not given
    kind: DrawKind  #: `accept`, a yes or no; or `pick`, one id of many
    low: float  #: numbers from `low` to `high` mean this outcome; `high - low` is its probability
    high: float  #: see `low`; for yes the interval begins at 0
    number: float | None  #: the number that was drawn, in [0, 1); None where the outcome was certain
    outcome: int  #: 1 or 0 for yes or no; the id that was picked


class LoggingRng(SeededRng):
    """A `SeededRng` that notes each decision."""

    def __init__(self, seed: int) -> None:
        """Starts with no notes; the seed is as for `SeededRng`."""
        super().__init__(seed)
        self.draws: list[Draw] = []  #: the decisions, in order
        self._drawn_numbers: list[float | None] = []  # of the last decisions; None where none was drawn

    def take(self) -> tuple[Draw, ...]:
        """Returns the notes so far, and forgets them."""
        draws = tuple(self.draws)
        self.draws = []
        return draws

    def bernoulli(self, probs: Tensor, place: Place | None = None) -> Tensor:
        """Accepts with the given probabilities, and notes it: probs [B] -> [B] bool (see `Rng`)."""
        outcomes = super().bernoulli(probs, place)
        low = torch.where(outcomes, 0.0, probs.double())
        high = torch.where(outcomes, probs.double(), 1.0)
        self._note("accept", low, high, outcomes, place)
        return outcomes

    def categorical(self, probs: Tensor, place: Place | None = None) -> Tensor:
        """Picks ids, and notes it: probs [B, V] -> [B] ids (see `Rng`)."""
        ids = super().categorical(probs, place)
        cumulative = probs.double().cumsum(-1)
        edges = torch.nn.functional.pad(cumulative / cumulative[:, -1:], (1, 0))  # [B, V + 1], from 0 to 1
        low, high = (edges.gather(1, ids[:, None] + offset)[:, 0] for offset in (0, 1))
        self._note("pick", low, high, ids, place)
        return ids

    def _uniforms(self, wanted: Tensor) -> Tensor:
        uniform = super()._uniforms(wanted)
        pairs = zip(uniform.tolist(), wanted.tolist(), strict=True)
        self._drawn_numbers = [number if is_drawn else None for number, is_drawn in pairs]
        return uniform

    def _note(self, kind: DrawKind, low: Tensor, high: Tensor, outcomes: Tensor, place: Place | None) -> None:
        """Notes one decision for each live row; low, high and outcomes are [B]."""
        place = place or Place(RoundPlan.unlimited(len(outcomes), outcomes.device))
        positions = repeat(None) if place.positions is None else place.positions.tolist()
        live = repeat(True) if place.live is None else place.live.tolist()
        numbers = (low.tolist(), high.tolist(), self._drawn_numbers, outcomes.int().tolist())
        rows = zip(place.plan.prompt_ids, positions, repeat(kind), *numbers, strict=False)
        self.draws += starmap(Draw, compress(rows, live))


@dataclass(frozen=True)
class Recording:
    """A run that can be shown without its models."""

    trace: Trace  #: the run
    words: tuple[str, ...]  #: for every id of the vocabulary, its text
    draws: tuple[tuple[Draw, ...], ...]  #: for each round, what was decided at random, in order
    info: Mapping[str, Any] = field(default_factory=dict)  #: where it comes from: pair, prompt, …

    def __post_init__(self) -> None:
        vocab_sizes = {r.target_probs.shape[-1] for r in self.trace.rounds}
        if vocab_sizes - {len(self.words)}:
            raise ValueError(f"{len(self.words)} words do not fit distributions over {max(vocab_sizes)} ids")

    def text(self, prompt: int = 0) -> str:
        """Returns what was emitted for a prompt, word after word."""
        return "".join(self.words[token] for token in self.trace.tokens(prompt))

    def accept_draw(self, index: int, i: int, prompt: int = 0) -> Draw | None:
        """Returns the test of token i of a draft; None if it is not known or there was none.

        In a tree it is not known: candidates of one position are told apart by nothing that is noted.
        """
        return self._draws_of_token(index, i, prompt).get("accept")

    def draft_draw(self, index: int, i: int, prompt: int = 0) -> Draw | None:
        """Returns the pick of token i of a draft; None if it is not known, as in a tree."""
        return self._draws_of_token(index, i, prompt).get("draft")

    def next_draw(self, index: int, prompt: int = 0) -> Draw | None:
        """Returns the pick of the token after the accepted prefix: a correction, or a bonus."""
        r = self.trace.rounds[index]
        row = row_of(r, prompt)
        return None if row is None else self._draws_of_token(index, r.accepted(row), prompt).get("next")

    def _draws_of_token(self, index: int, i: int, prompt: int) -> dict[str, Draw]:
        """Returns the draws about token i of a chain: `draft` and `next` are picks, `accept` a test."""
        r = self.trace.rounds[index]
        row = row_of(r, prompt)
        draws: dict[str, Draw] = {}
        if row is None or r.draft.parents is not None:
            return draws
        position = len(self.trace.committed(prompt, index)) + i
        is_drafting = i < r.drafted(row)
        for draw in self.draws[index]:
            if draw.prompt == prompt:
                is_drafting &= draw.kind == "pick"
                if draw.position == position:
                    role = draw.kind if draw.kind == "accept" else "draft" if is_drafting else "next"
                    draws[role] = draw
                    is_drafting = False
        return draws


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
    """Runs `speculate` to its end and returns its rounds with their draws.

    `words` has the text of every id of the vocabulary, and `info` is what to say about the run; all other
    arguments are those of `speculate`. Draws are known where rng is a `LoggingRng`.
    """
    draws: list[tuple[Draw, ...]] = []

    def observing(*arguments: Any, **settings: Any) -> Iterator[ObservedRound]:
        for r in observe(*arguments, **settings):
            draws.append(rng.take() if isinstance(rng, LoggingRng) else ())
            yield r

    trace = record(target, drafter, prompts, rng=rng, observing=observing, **settings)
    return Recording(trace, tuple(words), tuple(draws), dict(info or {}))
