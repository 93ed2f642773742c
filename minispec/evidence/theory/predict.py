"""Predict: from what can be measured apart to the speed-up, before any speculative run.

A text that the target alone has emitted tells how often each of its tokens would have been drafted right:
`acceptance_probabilities` finds these a_t. Given the text, positions are independent. So the number of rounds
that the text takes with a K follows by adding up over positions: exact, and nothing is sampled. Measured
`Costs` make seconds of it.

Leviathan et al. 2023 take one α for all positions, and let verification cost one step (equation 1, theorem
3.8: `formulas.expected_tokens`, `formulas.speed_up`). Both stand beside each other in a `PredictedSpeedUp`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum

from minispec.drafters.costs import Costs
from minispec.evidence.theory.formulas import speed_up

Text = Sequence[float]  # a_t of each position


@dataclass(frozen=True)
class ExpectedRounds:
    """What is expected to happen while a text is written."""

    by_width: tuple[float, ...]  #: [K+1], how many rounds draft so many tokens
    emitted: int  #: tokens
    caught_up: float  #: in how many rounds the draft had a token to catch up on

    @property
    def target_calls(self) -> float:
        """The number of rounds."""
        return fsum(self.by_width)

    @property
    def tokens_per_target_call(self) -> float:
        """The mean over the rounds."""
        return self.emitted / self.target_calls

    def seconds(self, costs: Costs) -> float:
        """Returns how long it takes, prefill included."""
        rounds = fsum(n * costs.of_round(width) for width, n in enumerate(self.by_width) if n)
        prefill = costs.prefill + (costs.draft_prefill if len(self.by_width) > 1 else 0.0)
        return prefill + rounds + self.caught_up * costs.catch_up


@dataclass(frozen=True)
class PredictedSpeedUp:
    """What one setting should come to."""

    speed_up: float  #: seconds per token, target-only over speculative
    simple: float  #: the same by theorem 3.8 of Leviathan et al. 2023, from α and c alone.
    alpha: float  #: α, the mean of all a_t. It estimates E Σ min(p, q) (corollary 3.6).
    tokens_per_target_call: float  #: the mean over all rounds


def rounds(text: Text, k: int) -> ExpectedRounds:
    """Returns what is expected while one text is written with a K: exact, by renewal over its positions.

    A round that begins at position t drafts w = min(K, N − 1 − t) tokens, for the last token of a text is
    never drafted. It ends after the first of them that is not accepted, or with the bonus after all of them;
    the next round begins there. Let b_t be the probability that some round begins at t, b_0 = 1. Then
    b_(t+j+1) gains b_t · a_t ⋯ a_(t+j−1) · (1 − a_(t+j)) for each j < w, and the rest for j = w; the sum of
    all b_t is the number of rounds. K = 0 is target-only.

    Raises:
        ValueError: if K is negative, or an a_t does not lie between 0 and 1.
    """
    if k < 0:
        raise ValueError(f"K must be 0 or more, not {k}")
    if not all(0 <= a <= 1 for a in text):
        raise ValueError("a probability to be accepted lies between 0 and 1")
    length = len(text)
    begin_probabilities = [1.0] + [0.0] * length
    by_width = [0.0] * (k + 1)
    caught_up = 0.0
    for t in range(length):
        width = min(k, length - 1 - t)
        reached = begin_probabilities[t]
        by_width[width] += reached
        for j in range(width):
            begin_probabilities[t + j + 1] += reached * (1 - text[t + j])
            reached *= text[t + j]
        begin_probabilities[t + width + 1] += reached
        caught_up += reached if k else 0.0
    return ExpectedRounds(tuple(by_width), length, caught_up)


def predict_speed_up(costs: Costs, texts: Sequence[Text], k: int, faster: float = 1.0) -> PredictedSpeedUp:
    """Predicts what a K comes to, for texts that are written one at a time; 0 is target-only by the loop.

    The texts are of other prompts than those that are measured. `faster` says how many times as fast as with
    these costs, of one row, the target alone is where it is fastest.

    Raises:
        ValueError: if there is no text, K is negative, or t(K+1) was not measured.
    """
    if not texts or not all(texts):
        raise ValueError("there is no text to predict from, or an empty one")
    expected = [rounds(text, k) for text in texts]
    tokens = sum(part.emitted for part in expected)
    target_only_seconds = len(texts) * costs.prefill + tokens * costs.of_step()
    alpha = fsum(a for text in texts for a in text) / tokens
    return PredictedSpeedUp(
        target_only_seconds / faster / fsum(part.seconds(costs) for part in expected),
        speed_up(alpha, k, costs.c * faster),
        alpha,
        tokens / fsum(part.target_calls for part in expected),
    )
