"""The bugs of the zoo, in the order in which a token is made."""

from minispec.evidence.zoo.mutants_caches import CACHES, DRAFT_CACHE
from minispec.evidence.zoo.mutants_drafters import LENGTHS
from minispec.evidence.zoo.mutants_rules import ACCEPT, DRAFT
from minispec.evidence.zoo.mutants_state import CHANCE, ENDS
from minispec.evidence.zoo.mutants_warps import NEXT, WARPS
from minispec.evidence.zoo.mutation import Mutant

MUTANTS = (*DRAFT, *LENGTHS, *ACCEPT, *NEXT, *WARPS, *CHANCE, *ENDS, *CACHES, *DRAFT_CACHE)


def mutant_named(name: str) -> Mutant:
    """Returns the mutant of a name.

    Raises:
        ValueError: if there is none; the message lists them.
    """
    for mutant in MUTANTS:
        if mutant.name == name:
            return mutant
    names = ", ".join(sorted(mutant.name for mutant in MUTANTS))
    raise ValueError(f"there is no mutant called {name!r}; there is {names}")
