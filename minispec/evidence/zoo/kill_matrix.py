"""The kill matrix: which check kills which mutant, where, and what the mutant does there.

Records only; `zoo` fills them in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from minispec.evidence.zoo.checks import Check
from minispec.evidence.zoo.mutation import Effect, Mutant, diff

EXACT = 1e-10  # what differs by less differs by rounding


@dataclass(frozen=True)
class Cell:
    """What one check said.

    Attributes:
        killed: whether it found something wrong.
        reason: what.
        crashed: whether what was wrong is an exception.
    """

    killed: bool
    reason: str | None = None
    crashed: bool = False


@dataclass(frozen=True)
class Damage:
    """What a mutant does to one case.

    Attributes:
        total_variation: between the law of its output and the right one, the worst of the case's prompts;
            None if it crashes.
        exact: whether that was walked through; else it was sampled, and is 0 where a sample saw nothing.
        acceptance: accepted over tested tokens, without and with the mutant.
        tokens_per_call: tokens per target call of a row, without and with the mutant.
        crash: the exception, if there was one.
    """

    total_variation: float | None
    exact: bool
    acceptance: tuple[float | None, float | None]
    tokens_per_call: tuple[float | None, float | None]
    crash: str | None = None

    def shows(self, effect: Effect) -> bool:
        """Whether the case shows what the mutant is said to do."""
        if self.crash or effect == "breaks":
            return True
        if effect == "biased":
            return self.total_variation is not None and not self.total_variation <= EXACT
        return any(
            sound is not None and changed is not None and sound - changed > EXACT
            for sound, changed in (self.acceptance, self.tokens_per_call)
        )


@dataclass(frozen=True)
class Specimen:
    """One mutant, looked at.

    Attributes:
        mutant: which.
        instance: the name of the smallest case that shows it, or None.
        damage: there.
        cells: what each check said there.
    """

    mutant: Mutant
    instance: str | None
    damage: Damage
    cells: dict[str, Cell]


@dataclass(frozen=True)
class Zoo:
    """The kill matrix, and what it says.

    Attributes:
        specimens: one per mutant.
        checks: the columns.
        unmutated: for each case, what each check said of the shipped code.
        seconds: how long it took.
    """

    specimens: tuple[Specimen, ...]
    checks: tuple[Check, ...]
    unmutated: dict[str, dict[str, Cell]]
    seconds: float

    def killers(self, specimen: Specimen) -> list[str]:
        """Returns the names of our checks that kill a mutant."""
        return [check.name for check in self.checks if check.ours and specimen.cells[check.name].killed]

    @property
    def survivors(self) -> list[str]:
        """The mutants that no check of ours kills."""
        return [specimen.mutant.name for specimen in self.specimens if not self.killers(specimen)]

    @property
    def false_alarms(self) -> list[str]:
        """What was said against the shipped code: case, check and reason."""
        return [
            f"{case}: {check}: {cell.reason}"
            for case, cells in self.unmutated.items()
            for check, cell in cells.items()
            if cell.killed
        ]

    @property
    def passed(self) -> bool:
        """Whether every mutant is killed, and the shipped code is not."""
        return not self.survivors and not self.false_alarms

    def missed(self, check: str) -> list[str]:
        """Returns the mutants that a check misses."""
        return [specimen.mutant.name for specimen in self.specimens if not specimen.cells[check].killed]

    def to_json(self) -> dict[str, Any]:
        """Returns everything as plain data."""
        return {
            "passed": self.passed,
            "mutants": [self._specimen_to_json(specimen) for specimen in self.specimens],
            "survivors": self.survivors,
            "unmutated": {
                "cases": list(self.unmutated),
                "killed_by": sorted({alarm.split(": ")[1] for alarm in self.false_alarms}),
                "reasons": self.false_alarms,
            },
            "checks": [
                {
                    "name": check.name,
                    "promise": check.promise,
                    "ours": check.ours,
                    "kills": len(self.specimens) - len(self.missed(check.name)),
                    "misses": self.missed(check.name),
                }
                for check in self.checks
            ],
            "seconds": self.seconds,
        }

    def _specimen_to_json(self, specimen: Specimen) -> dict[str, Any]:
        mutant, damage = specimen.mutant, specimen.damage
        return {
            "name": mutant.name,
            "title": mutant.title,
            "function": mutant.function,
            "seen": mutant.seen,
            "effect": mutant.effect,
            "harm": harm_of(specimen),
            "diff": diff(mutant),
            "instance": specimen.instance,
            "damage": {
                "total_variation": damage.total_variation,
                "exact": damage.exact,
                "acceptance": damage.acceptance,
                "tokens_per_call": damage.tokens_per_call,
                "crash": damage.crash,
            },
            "killed_by": self.killers(specimen),
            "cells": {
                name: {"killed": cell.killed, "crashed": cell.crashed, "reason": cell.reason}
                for name, cell in specimen.cells.items()
            },
        }


def harm_of(specimen: Specimen) -> str:
    """Says in a few words what a mutant spoils, and by how much."""
    mutant, damage = specimen.mutant, specimen.damage
    if specimen.instance is None:
        return "none was found"
    if damage.crash:
        return f"crash: {damage.crash}"
    if mutant.effect == "breaks":
        return mutant.harm
    if mutant.effect == "biased":
        return f"total variation {damage.total_variation:.2g}" + ("" if damage.exact else ", sampled")
    named = (("acceptance", damage.acceptance), ("tokens per call", damage.tokens_per_call))
    changes = [
        f"{name} {a:.3f} → {b:.3f}" for name, (a, b) in named if a is not None and b is not None and a != b
    ]
    return ", ".join(changes)
