"""The bugs of the zoo, in the order in which a token is made; then those of the C++."""

from difflib import get_close_matches

from minispec.evidence.zoo.mutants_native import NATIVE
from minispec.evidence.zoo.mutants_rules import ACCEPT, DRAFT, LENGTHS, NEXT, WARPS
from minispec.evidence.zoo.mutants_state import CACHES, DRAFT_CACHE, ENDS, RANDOMNESS
from minispec.evidence.zoo.mutation import Mutant

MUTANTS = (*DRAFT, *LENGTHS, *ACCEPT, *NEXT, *WARPS, *RANDOMNESS, *ENDS, *CACHES, *DRAFT_CACHE, *NATIVE)


def mutant_named(name: str) -> Mutant:
    """Returns the mutant of a name.

    Raises:
        ValueError: if there is none; the message has those with the most similar names.
    """
    for mutant in MUTANTS:
        if mutant.name == name:
            return mutant
    near = get_close_matches(name, [mutant.name for mutant in MUTANTS], n=5, cutoff=0)
    raise ValueError(
        f"there is no mutant called {name!r}; of {len(MUTANTS)} the nearest are {', '.join(near)}"
    )
