"""The zoo's cases, smallest first, read from cases.toml; its first lines say in which order they stand."""

from minispec.evidence.proof.cases import Case
from minispec.evidence.proof.families import read_cases
from minispec.io.files import read_table

GROUPS = read_table(__file__, "cases.toml")["groups"]


def size_ordered_cases(seed: int = 0) -> tuple[Case, ...]:
    """Returns the cases on which the zoo looks for a bug, smallest first; the seed is that of the models."""
    return tuple(read_cases(GROUPS, seed))
