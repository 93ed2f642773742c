"""Predict: from what can be measured apart to the speed-up, before any speculative run.

A text that the target alone has written says how often each of its tokens would have been drafted right:
`chances` finds the a_t. Given the text, positions are independent. So the number of rounds that the text
takes with a K follows by adding up over positions: exact, and nothing is sampled. Measured `Costs` make
seconds of it.

Leviathan et al. 2023 take one α for all positions, and let verification cost one step (equation 1, theorem
3.8: `theory.expected_tokens`, `theory.speed_up`). Both stand beside each other in a `Prediction`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from statistics import median

from minispec.drafters.costs import Costs
from minispec.evidence.theory.acceptance import chances, target_only_texts
from minispec.evidence.theory.formulas import speed_up

Text = Sequence[float]  # a_t of each position

__all__ = [
    "Errors",
    "Prediction",
    "Rounds",
    "best_draft",
    "best_k",
    "chances",
    "errors",
    "mean_alpha",
    "predict_speed_up",
    "rounds",
    "target_only_texts",
]


@dataclass(frozen=True)
class Rounds:
    """What is expected to happen while some texts are written, as one batch.

    Attributes:
        by_width: [K+1], how many rounds have a block of so many drafted tokens; the largest row decides.
        emitted: tokens, all rows together.
        row_rounds: rounds, counted per live row.
        drafted: drafted tokens, all rows together.
        tested: those that the rule looked at.
        accepted: those that it kept.
        caught_up: in how many rounds the draft had a token to catch up on.
    """

    by_width: tuple[float, ...]
    emitted: float
    row_rounds: float
    drafted: float
    tested: float
    accepted: float
    caught_up: float

    @property
    def target_calls(self) -> float:
        """Rounds of the batch."""
        return fsum(self.by_width)

    @property
    def tokens_per_target_call(self) -> float:
        """Tokens that a row gains in one target call."""
        return self.emitted / self.row_rounds

    @property
    def acceptance(self) -> float | None:
        """Accepted over tested; None if nothing is drafted."""
        return self.accepted / self.tested if self.tested else None

    def seconds(self, costs: Costs) -> float:
        """Returns how long it takes, prefill included."""
        rounds = fsum(n * costs.of_round(width) for width, n in enumerate(self.by_width) if n)
        prefill = costs.prefill + (costs.draft_prefill if len(self.by_width) > 1 else 0.0)
        return prefill + rounds + self.caught_up * costs.catch_up


@dataclass(frozen=True)
class Prediction:
    """What one setting should come to.

    Attributes:
        k: K.
        speed_up: seconds per token, target-only over speculative.
        simple: the same by theorem 3.8 of Leviathan et al. 2023, from the mean a_t and c alone.
        tokens_per_target_call: per row.
        acceptance: accepted over tested; None for K = 0.
    """

    k: int
    speed_up: float
    simple: float
    tokens_per_target_call: float
    acceptance: float | None


@dataclass(frozen=True)
class Errors:
    """How far predictions are off, relative to what was measured.

    Attributes:
        median: of the absolute relative errors.
        worst: the largest.
    """

    median: float
    worst: float


def rounds(text: Text, k: int) -> Rounds:
    """Returns what is expected while one text is written with a K: exact, by renewal over its positions.

    A round that begins at position t drafts w = min(K, N − 1 − t) tokens, for the last token of a text is
    never drafted. It ends behind the first of them that is not accepted, or with the bonus behind all of
    them; the next round begins there. Let b_t be the chance that some round begins at t, b_0 = 1. Then
    b_(t+j+1) gains b_t · a_t ⋯ a_(t+j−1) · (1 − a_(t+j)) for each j < w, and the rest for j = w; the sum of
    all b_t is the number of rounds.

    Args:
        text: a_t of its N positions.
        k: K; 0 is target-only.

    Raises:
        ValueError: if K is negative, or a chance is none.
    """
    _check([text], k)
    n = len(text)
    begins = [1.0] + [0.0] * n
    by_width = [0.0] * (k + 1)
    drafted = tested = accepted = caught_up = 0.0
    for t in range(n):
        width, here = min(k, n - 1 - t), begins[t]
        by_width[width] += here
        drafted += here * width
        for j in range(width):
            tested += here
            begins[t + j + 1] += here * (1 - text[t + j])
            here *= text[t + j]
            accepted += here
        begins[t + width + 1] += here
        caught_up += here if k else 0.0
    row_rounds = fsum(begins[:n])
    return Rounds(tuple(by_width), n, row_rounds, drafted, tested, accepted, caught_up)


def predict_speed_up(
    costs: Costs, texts: Sequence[Text], k: int, new_tokens: int | None = None
) -> Prediction:
    """Predicts what a K comes to, for texts that are written one at a time.

    Args:
        costs: measured apart, for one row.
        texts: what `chances` found, in target-only texts of other prompts.
        k: K; 0 is target-only through the speculative loop.
        new_tokens: only this many of each text; by default all.

    Raises:
        ValueError: if there is no text, one is too short, K is negative, or t(K+1) was not measured.
    """
    texts = _cut(texts, new_tokens)
    parts = [rounds(text, k) for text in texts]
    alone = fsum(costs.prefill + len(text) * costs.of_step() for text in texts)
    tested = fsum(part.tested for part in parts)
    emitted, calls = fsum(part.emitted for part in parts), fsum(part.row_rounds for part in parts)
    return Prediction(
        k,
        alone / fsum(part.seconds(costs) for part in parts),
        speed_up(mean_alpha(texts), k, costs.c),
        emitted / calls,
        fsum(part.accepted for part in parts) / tested if tested else None,
    )


def mean_alpha(texts: Sequence[Text]) -> float:
    """Returns α, the mean of all a_t. It estimates E Σ min(p, q): Leviathan et al. 2023, corollary 3.6."""
    count = sum(len(text) for text in texts)
    return fsum(a for text in texts for a in text) / count


def best_k(costs: Costs, texts: Sequence[Text], most: int = 16) -> Prediction:
    """Returns the prediction of the K, from 0 to `most`, that is predicted to be the fastest.

    Raises:
        ValueError: as `predict_speed_up`.
    """
    _check([], most)
    return max((predict_speed_up(costs, texts, k) for k in range(most + 1)), key=lambda p: p.speed_up)


def best_draft(drafts: Mapping[str, tuple[Costs, Sequence[Text]]], most: int = 16) -> tuple[str, Prediction]:
    """Returns the draft that is predicted to be the fastest, at its best K.

    Args:
        drafts: by name, what was measured of each: costs, and chances on the same texts.
        most: the largest K.

    Raises:
        ValueError: if there is none, and as `predict_speed_up`.
    """
    if not drafts:
        raise ValueError("there is no draft to choose from")
    found = {name: best_k(costs, texts, most) for name, (costs, texts) in drafts.items()}
    name = max(found, key=lambda name: found[name].speed_up)
    return name, found[name]


def errors(predicted: Sequence[float], measured: Sequence[float]) -> Errors:
    """Compares predictions with measurements.

    Raises:
        ValueError: if there are none, not as many of both, or a measurement is not above 0.
    """
    if len(predicted) != len(measured) or not predicted or min(measured) <= 0:
        raise ValueError(f"{len(predicted)} predictions and {len(measured)} measurements above 0 are needed")
    off = [abs(guess / found - 1) for guess, found in zip(predicted, measured, strict=True)]
    return Errors(median(off), max(off))


def _cut(texts: Sequence[Text], new_tokens: int | None) -> Sequence[Text]:
    shortest = min((len(text) for text in texts), default=0)
    wanted = shortest if new_tokens is None else new_tokens
    if not texts or not 1 <= wanted <= shortest:
        raise ValueError(f"{wanted} tokens of each text are wanted; the shortest has {shortest}")
    return texts if new_tokens is None else [text[:wanted] for text in texts]


def _check(texts: Sequence[Text], k: int) -> None:
    if k < 0:
        raise ValueError(f"K must be 0 or more, not {k}")
    for text in texts:
        if not all(0 <= a <= 1 for a in text):
            raise ValueError("a chance to be accepted lies between 0 and 1")
