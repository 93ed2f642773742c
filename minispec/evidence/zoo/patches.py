"""Reads mutants from text: each is a small patch, with a line on what it does."""

import re
from typing import Any

from minispec.evidence.zoo.mutation import Mutant

NEEDED = {"title:": "title", "@@": "function", "-": "old", "+": "new"}
SIGNS = NEEDED | {"seen:": "seen", "breaks:": "harm"}
FLAGS: dict[str, dict[str, Any]] = {"slower": {"effect": "slower"}, "crosses rows": {"crosses_rows": True}}


def families_in(text: str) -> dict[str, tuple[Mutant, ...]]:
    """Reads mutants by family; the first lines of mutants.txt say how they are written.

    Raises:
        ValueError: if a line is unknown, something is missing, or a name is there twice.
    """
    families: dict[str, tuple[Mutant, ...]] = {}
    names: set[str] = set()
    plain = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).strip()
    before, *parts = re.split(r"^== ", plain, flags=re.MULTILINE)
    if before:
        raise ValueError(f"before the first family stands {before.splitlines()[0]!r}")
    for family in parts:
        name, *paragraphs = re.split(r"\n\n+", family.strip())
        mutants = tuple(map(mutant_in, paragraphs))
        for one in (name, *(mutant.name for mutant in mutants)):
            if one in names:
                raise ValueError(f"the name {one!r} is there twice")
            names.add(one)
        families[name] = mutants
    return families


def mutant_in(paragraph: str) -> Mutant:
    """Reads one mutant."""
    name, *lines = paragraph.split("\n")
    found: dict[str, list[str]] = {}
    flags: dict[str, Any] = {}
    for line in lines:
        sign, _, rest = line.partition(" ")
        if line in FLAGS:
            flags |= FLAGS[line]
        elif sign in SIGNS and (sign in ("-", "+") or SIGNS[sign] not in found):
            found.setdefault(SIGNS[sign], []).append(rest)
        else:
            raise ValueError(f"the mutant {name!r} has an unknown or second line {line!r}")
    lacking = [sign for sign in NEEDED if NEEDED[sign] not in found]
    if lacking:
        raise ValueError(f"the mutant {name!r} lacks a line with {' and with '.join(lacking)}")
    fields: dict[str, Any] = {field: "\n".join(part) for field, part in found.items()}
    if "harm" in fields and "effect" in flags:
        raise ValueError(f"the mutant {name!r} both breaks a promise and is slower")
    if "harm" in fields:
        flags["effect"] = "breaks"
    return Mutant(name=name, **fields, **flags)
