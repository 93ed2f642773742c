"""The bugs of the zoo (in mutants.txt), in the order in which a token is made; then those of the C++."""

from difflib import get_close_matches
from pathlib import Path

from minispec.evidence.zoo.mutation import Mutant
from minispec.evidence.zoo.patches import families_in

FAMILIES = families_in(Path(__file__).with_name("mutants.txt").read_text(encoding="utf-8"))
MUTANTS = tuple(mutant for family in FAMILIES.values() for mutant in family)


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
