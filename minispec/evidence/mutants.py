"""The bugs of the zoo, in the order in which a token is made."""

from minispec.evidence.mutants_caches import CACHES, DRAFT_CACHE
from minispec.evidence.mutants_drafters import LENGTHS
from minispec.evidence.mutants_laws import NEXT, WARPS
from minispec.evidence.mutants_rules import ACCEPT, DRAFT
from minispec.evidence.mutants_state import CHANCE, ENDS
from minispec.evidence.mutation import Mutant

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
