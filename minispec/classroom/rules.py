"""Rejection rules, right ones and ones with a bug of the zoo: for notebooks, and for tests to be tested on.

The rules with bugs are copies: a copy of the shipped rule and of the two functions that it calls gets a name
space of its own, and there one of them has the bug's code. Nothing live is touched.
"""

from types import FunctionType
from typing import Any, cast

from torch import Tensor

from minispec.core.records import Draft, Verdict
from minispec.core.rng import Rng, SeededRng
from minispec.core.verify import Verifier, next_distribution, residual, verify_rejection
from minispec.evidence.zoo.mutants import mutant_named
from minispec.evidence.zoo.mutation import compiled
from minispec.rules.coupled import verify_coupled

PARTS = (residual, next_distribution, verify_rejection)


def rule_with(bug: str) -> Verifier:
    """Returns the rejection rule with a bug of the zoo, in itself, `next_distribution` or `residual`.

    Raises:
        ValueError: if there is no such mutant, or its bug is somewhere else.
    """
    mutant = mutant_named(bug)
    where = mutant.function.partition(":")[2]
    if where not in {part.__name__ for part in PARTS}:
        raise ValueError(f"the bug {bug} is in {mutant.function}, not in a rule")
    space: dict[str, Any] = dict(verify_rejection.__globals__)
    for part in PARTS:
        function = cast(FunctionType, part)
        code = compiled(mutant, function) if function.__name__ == where else function.__code__
        space[function.__name__] = FunctionType(code, space, function.__name__, function.__defaults__)
    rule: Verifier = space["verify_rejection"]
    return rule


def with_other_numbers(draft: Draft, target_probs: Tensor, rng: Rng) -> Verdict:
    """The same rule for target_probs [B, K+1, V] with another seed, so its draws differ."""
    return verify_rejection(draft, target_probs, SeededRng(1_000 + draft.tokens.shape[0]))


# All three keep the target's distribution. They differ in acceptance, and in their use of random numbers.
SOUND: dict[str, Verifier] = {
    "the shipped rejection rule": verify_rejection,
    "the same rule with other random numbers": with_other_numbers,
    "the coupled rule, which accepts less but has the same distribution": verify_coupled,
}
# From the plainest to the subtlest; the first five can be seen with K = 1.
BUGS = (
    "ratio-inverted",
    "correction-from-p",
    "residual-absolute",
    "accept-if-a-fresh-draw-agrees",
    "bonus-from-the-draft",
    "residual-of-the-last-place",
    "going-on-after-a-rejection",
    "one-number-for-all-places",
)
BUGGY = {bug: rule_with(bug) for bug in BUGS}
RULES: dict[str, Verifier] = {**SOUND, **BUGGY}
