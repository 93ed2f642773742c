"""The kill matrix: what each bug does, and which check finds it."""

from dataclasses import dataclass
from typing import Any

from minispec.evidence.zoo.check_distributions import EXACT
from minispec.evidence.zoo.checks import Check
from minispec.evidence.zoo.mutation import Effect, Mutant


@dataclass(frozen=True)
class CheckResult:
    """What came of one check of one case."""

    killed: bool  #: whether it found something wrong
    reason: str | None = None  #: what
    crashed: bool = False  #: whether that is an exception


@dataclass(frozen=True)
class Damage:
    """What a mutant does to one case. Pairs are without and with it."""

    total_variation: float | None  #: of its output from the right one, the worst prompt's; None if it crashes
    exact: bool  #: whether that was enumerated; else it was sampled, and is 0 where a sample saw nothing
    acceptance: tuple[float | None, float | None]  #: accepted over tested tokens
    tokens_per_call: tuple[float | None, float | None]  #: tokens per target call of a row
    crash: str | None = None  #: the exception, if there was one

    def shows(self, effect: Effect) -> bool:
        """Whether the case shows the effect that the mutant should have."""
        if self.crash or effect == "breaks":
            return True
        if effect == "biased":
            return self.total_variation is not None and not self.total_variation <= EXACT
        return any(a - b > EXACT for _, a, b in self.changes())

    def changes(self) -> list[tuple[str, float, float]]:
        """Returns what the mutant changes in speed: name, without it, with it."""
        named = (("acceptance", self.acceptance), ("tokens per call", self.tokens_per_call))
        return [(name, a, b) for name, (a, b) in named if a is not None and b is not None and a != b]


@dataclass(frozen=True)
class Specimen:
    """One mutant on the smallest case that shows it."""

    mutant: Mutant  #: what was planted
    instance: str | None  #: the case's name; None if no case shows it
    damage: Damage  #: there
    cells: dict[str, CheckResult]  #: by the names of the checks

    @property
    def harm(self) -> str:
        """What the mutant spoils, and by how much, in a few words."""
        if self.instance is None:
            return "none was found"
        if self.damage.crash:
            return f"crash: {self.damage.crash}"
        if self.mutant.effect == "breaks":
            return self.mutant.harm
        if self.mutant.effect == "biased":
            sampled = "" if self.damage.exact else ", sampled"
            return f"total variation {self.damage.total_variation:.2g}{sampled}"
        return ", ".join(f"{name} {a:.3f} → {b:.3f}" for name, a, b in self.damage.changes())


@dataclass(frozen=True)
class Zoo:
    """All specimens, and what came of the checks of the shipped code."""

    specimens: tuple[Specimen, ...]  #: one per mutant
    checks: tuple[Check, ...]  #: that were made
    unmutated: dict[str, dict[str, CheckResult]]  #: by case, then by check
    seconds: float  #: that it took
    left_out: str | None = None  #: why there are no mutants of the C++; None if there are

    @property
    def instances(self) -> int:
        """How many mutants were planted and looked for by a check of ours; none is never a pass."""
        return len(self.specimens) if self.unmutated and any(check.ours for check in self.checks) else 0

    def killers(self, specimen: Specimen) -> list[str]:
        """Returns the names of our checks that kill a mutant."""
        return [check.name for check in self.checks if check.ours and specimen.cells[check.name].killed]

    @property
    def survivors(self) -> list[str]:
        """The mutants that no check of ours kills."""
        return [specimen.mutant.name for specimen in self.specimens if not self.killers(specimen)]

    @property
    def false_alarms(self) -> list[str]:
        """Where a check has killed the shipped code: case, check and reason."""
        return [
            f"{case}: {check}: {cell.reason}"
            for case, cells in self.unmutated.items()
            for check, cell in cells.items()
            if cell.killed
        ]

    @property
    def passed(self) -> bool:
        """Whether every mutant is killed, of one at least, and the shipped code is not."""
        return self.instances > 0 and not self.survivors and not self.false_alarms

    def missed(self, check: str) -> list[str]:
        """Returns the mutants that a check misses."""
        return [specimen.mutant.name for specimen in self.specimens if not specimen.cells[check].killed]

    def to_json(self) -> dict[str, Any]:
        """Returns everything as plain data."""
        mutants = [
            {
                **specimen.mutant.to_json(),
                "harm": specimen.harm,
                "instance": specimen.instance,
                "damage": vars(specimen.damage),
                "cells": {name: vars(cell) for name, cell in specimen.cells.items()},
                "killed_by": self.killers(specimen),
            }
            for specimen in self.specimens
        ]
        checks = []
        for check in self.checks:
            missed = self.missed(check.name)
            about = {"name": check.name, "promise": check.promise, "ours": check.ours}
            checks.append({**about, "kills": len(mutants) - len(missed), "misses": missed})
        return {
            "passed": self.passed,
            "instances": self.instances,
            "mutants": mutants,
            "survivors": self.survivors,
            "unmutated": {
                "cases": list(self.unmutated),
                "killed_by": sorted({alarm.split(": ")[1] for alarm in self.false_alarms}),
                "reasons": self.false_alarms,
            },
            "checks": checks,
            "left_out": self.left_out,
            "seconds": self.seconds,
        }
