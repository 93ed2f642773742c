"""The bugs of the zoo, by family, read from mutants.toml; its first lines say how they are written."""

from difflib import get_close_matches

from minispec.evidence.zoo.mutation import Mutant
from minispec.io.files import read_table

TABLES = read_table(__file__, "mutants.toml")
FAMILIES = {family: tuple(Mutant(**fields) for fields in bugs) for family, bugs in TABLES.items()}
MUTANTS = tuple(mutant for family in FAMILIES.values() for mutant in family)


def mutant_named(name: str) -> Mutant:
    """Returns the mutant of a name.

    Raises:
        ValueError: if there is none; the message has those with the most similar names.
    """
    by_name = {mutant.name: mutant for mutant in MUTANTS}
    if name in by_name:
        return by_name[name]
    similar = ", ".join(get_close_matches(name, by_name, n=5, cutoff=0))
    raise ValueError(f"there is no mutant called {name!r}; of {len(MUTANTS)} the nearest are {similar}")
