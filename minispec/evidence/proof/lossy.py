"""What a rule that is lossy on purpose does to the distribution of texts, and what it gains by that.

Both are enumerated, as the proof enumerates lossless rules. Nothing is proved: the damage is the result.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from minispec.core.verify import Verifier, verify_rejection
from minispec.evidence.proof.cases import DRAFTERS, Case
from minispec.evidence.proof.distributions import (
    exact_distributions,
    speculative_distributions,
    total_variation,
)
from minispec.evidence.proof.models import tiny_gpt_pair
from minispec.rules.lossy import verify_typical


@dataclass(frozen=True)
class Damage:
    """What a case with a lossy rule comes to."""

    name: str  #: of the case
    total_variation: float  #: of the texts from those of the target alone, for the prompt where it is largest
    tokens_per_call: float | None  #: expected tokens over expected target calls
    without: float | None  #: the same with rejection sampling, which loses nothing


def damage(case: Case) -> Damage:
    """Enumerates a case with its own rule and with rejection sampling."""
    found = speculative_distributions(case)
    pairs = zip(found.distributions, exact_distributions(case), strict=True)
    lossless = speculative_distributions(replace(case, verifier=verify_rejection))
    apart = max(total_variation(ours, exact) for ours, exact in pairs)
    return Damage(case.name, apart, found.tokens_per_call, lossless.tokens_per_call)


def lossy_cases(rule: Verifier = verify_typical, seeds: Sequence[int] = (0, 1, 2)) -> Iterator[Case]:
    """Yields cases of a lossy rule, with two heads of random weights on a tiny GPT of three tokens."""
    what = rule.__name__.removeprefix("verify_")  # type: ignore[attr-defined]
    for seed in seeds:
        model, _ = tiny_gpt_pair(seed, 3)
        case = Case(f"GPT {seed}, medusa, {what}", model, model, ((1, 0), (0, 1, 1)), 2, 3)
        yield replace(case, drafter=DRAFTERS["medusa"], verifier=rule)
