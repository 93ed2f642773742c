"""The bugs of the zoo, read from mutants.txt; its first lines say how they are written.

They stand in the order in which a token is made; those of the C++ come last.
"""

import re
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from minispec.evidence.zoo.mutation import Mutant

SIGNS = {"title:": "title", "@@": "function", "-": "old", "+": "new", "seen:": "seen", "breaks:": "harm"}
FLAGS: dict[str, dict[str, Any]] = {"slower": {"effect": "slower"}, "crosses rows": {"crosses_rows": True}}


def families_in(text: str) -> dict[str, tuple[Mutant, ...]]:
    """Reads mutants by family."""
    plain = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)
    families = {}
    for family in re.split(r"^== ", plain, flags=re.MULTILINE)[1:]:
        name, *paragraphs = re.split(r"\n\n+", family.strip())
        families[name] = tuple(map(mutant_in, paragraphs))
    return families


def mutant_in(paragraph: str) -> Mutant:
    """Reads one mutant.

    Raises:
        ValueError: if a line is unknown, or one that is needed is missing.
    """
    name, *lines = paragraph.split("\n")
    fields: dict[str, Any] = {}
    for line in lines:
        sign, _, rest = line.partition(" ")
        if line in FLAGS:
            fields |= FLAGS[line]
        elif sign in SIGNS:
            field = SIGNS[sign]
            fields[field] = f"{fields[field]}\n{rest}" if field in fields else rest
        else:
            raise ValueError(f"the mutant {name!r} has an unknown line {line!r}")
    if lacking := [sign for sign in ("title:", "@@", "-", "+") if SIGNS[sign] not in fields]:
        raise ValueError(f"the mutant {name!r} lacks a line with {' and with '.join(lacking)}")
    if "harm" in fields:
        fields["effect"] = "breaks"
    return Mutant(name, **fields)


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
