"""Rejection rules, right ones and ones with a bug of the zoo: for notebooks, and for tests to be tested on.

The rules with bugs are copies: the source of the shipped rule runs once more in a name space of its own, and
there one function has the bug. Nothing live is touched.
"""

import inspect
from typing import Any

from minispec.core import verify
from minispec.core.rng import SeededRng
from minispec.core.verify import Verifier, verify_rejection
from minispec.evidence.zoo.mutants import mutant_named
from minispec.evidence.zoo.mutation import find_patch
from minispec.verifiers.coupled import verify_coupled

RULE_FUNCTIONS = [
    f"{verify.__name__}:{part}" for part in ("residual", "next_distribution", "accept_rejection")
]


def rule_with(bug: str) -> Verifier:
    """Returns the rejection rule with a bug of the zoo, in itself, `next_distribution` or `residual`.

    Raises:
        ValueError: if there is no such mutant, or its bug is somewhere else.
    """
    mutant = mutant_named(bug)
    if mutant.function not in RULE_FUNCTIONS:
        raise ValueError(f"the bug {bug} is in {mutant.function}, not in a rule")
    space: dict[str, Any] = {"__name__": f"{verify.__name__} with {bug}"}
    for source in (inspect.getsource(verify), find_patch(mutant).faulty):
        exec(source, space)
    return Verifier(bug, space["accept_rejection"])


# All three keep the target's distribution. They differ in acceptance, and in their use of random numbers.
RIGHT_RULES: dict[str, Verifier] = {
    "the shipped rejection rule": verify_rejection,
    "the same rule with other random numbers": Verifier(
        "rejection",
        lambda draft, target_probs, rng: verify_rejection(
            draft, target_probs, SeededRng(1_000 + draft.tokens.shape[0])
        ),
    ),
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
BUGGY_RULES = {bug: rule_with(bug) for bug in BUGS}
RULES: dict[str, Verifier] = {**RIGHT_RULES, **BUGGY_RULES}
