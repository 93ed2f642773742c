"""The distribution of the first token under an acceptance rule: accepted drafts and corrections.

For a vocabulary of a few tokens one can work that out by hand. Here every branch of the rule is enumerated.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from minispec.core.records import Draft
from minispec.core.rng import SeededRng
from minispec.core.verify import Verifier
from minispec.evidence.proof.enumeration import EnumeratingRng, enumerate_branches


@dataclass(frozen=True)
class FirstToken:
    """What comes out first when one token is drafted."""

    accepted: tuple[float, ...]  #: [V], for each token the probability that it is drafted and accepted
    correction: tuple[float, ...]  #: [V], for each token the probability that it replaces a rejected one

    @property
    def distribution(self) -> tuple[float, ...]:
        """The probability that a token is emitted, accepted or as a correction: [V]."""
        return tuple(map(sum, zip(self.accepted, self.correction, strict=True)))

    @property
    def acceptance(self) -> float:
        """The probability that the drafted token is accepted."""
        return sum(self.accepted)


def first_token(
    verifier: Verifier,
    p: Tensor | Sequence[float],
    q: Tensor | Sequence[float],
    drawn_from: Tensor | Sequence[float] | None = None,
) -> FirstToken:
    """Enumerates every branch of a rule that draws from its `rng` alone on every draft of one token, K = 1.

    Args:
        verifier: its acceptance rule is enumerated.
        p: [V], the target's distribution; that of the bonus too.
        q: [V], the distribution that the draft reports.
        drawn_from: [V], what the draft is really drawn from; by default q, as it must be.

    Raises:
        ValueError: if the distributions differ in size.
    """
    target, reported, draft_probs = (
        torch.as_tensor(probs, dtype=torch.float64)
        for probs in (p, q, q if drawn_from is None else drawn_from)
    )
    if not target.shape == reported.shape == draft_probs.shape:
        raise ValueError("all distributions must be over the same tokens")

    def run(rng: EnumeratingRng, drafted: Sequence[int]) -> list[tuple[int, int]]:
        rows = len(drafted)
        draft = Draft(torch.tensor(drafted)[:, None], reported.repeat(rows, 1, 1))
        verdict = verifier(draft, target.repeat(rows, 2, 1), rng)
        return list(zip(verdict.accepted.tolist(), verdict.token.tolist(), strict=True))

    probabilities = target.new_zeros(2, len(target))  # of corrections, and of accepted drafts
    for drafted, (accepted, token), weight in enumerate_branches(run, draft_probs.nonzero()[:, 0].tolist()):
        probabilities[accepted, drafted if accepted else token] += draft_probs[drafted] * weight
    correction, kept = map(tuple, probabilities.tolist())
    return FirstToken(kept, correction)


def parts(probabilities: Sequence[float], whole: int) -> str:
    """Writes probabilities by their parts of a whole, the denominator, such as (6, 4, 2)/12."""
    return f"({', '.join(f'{p * whole:.3g}' for p in probabilities)})/{whole}"


def first_token_counts(verifier: Verifier, p: Sequence[float], q: Sequence[float], samples: int) -> list[int]:
    """Counts the first tokens of sampled texts, one drafted token each: p and q, [V] each, to V counts."""
    rng = SeededRng(0)
    size = len(p)
    target = torch.tensor(p).expand(samples, 2, size)
    draft = torch.tensor(q).expand(samples, 1, size)
    drafted = rng.categorical(draft[:, 0])
    verdict = verifier(Draft(drafted[:, None], draft), target, rng)
    first = torch.where(verdict.accepted == 1, drafted, verdict.token)
    return torch.bincount(first, minlength=size).tolist()
