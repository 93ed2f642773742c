"""The bugs of the zoo, by family, read from mutants.toml; its first lines say how they are written."""

import tomllib
from difflib import get_close_matches
from pathlib import Path

from minispec.evidence.zoo.mutation import Mutant

TABLES = tomllib.loads(Path(__file__).with_name("mutants.toml").read_text(encoding="utf-8"))
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
