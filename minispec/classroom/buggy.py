"""The shipped rejection rule with a bug in it: a copy for students, nothing live is touched.

The bugs are the zoo's. A copy of the rule and of the two functions that it calls gets a name space of its
own, and there one of them has the bug's code.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any, cast

from minispec.core.verify import Verifier, next_distribution, residual, verify_rejection
from minispec.evidence.zoo.mutants import mutant_named
from minispec.evidence.zoo.mutation import compiled

PARTS = (residual, next_distribution, verify_rejection)


def rule_with(bug: str) -> Verifier:
    """Returns the rejection rule with a bug of the zoo.

    Args:
        bug: the name of a mutant of `verify_rejection`, `next_distribution` or `residual`.

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
