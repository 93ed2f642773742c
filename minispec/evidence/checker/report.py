"""What is said about a rule that was checked: the record, and the text that people read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

from minispec.evidence.checker.instances import Chance, Instance, Table
from minispec.evidence.checker.trial import Line

MOST_LINES = 8  # of a table


@dataclass(frozen=True)
class Damage:
    """How far off a rule is, in total variation.

    Attributes:
        low: at the counterexample, at least.
        high: at the counterexample, at most; the same where it is exact.
        largest: the largest over all instances that fail; an estimate where they were sampled.
    """

    low: float
    high: float
    largest: float


@dataclass(frozen=True)
class Report:
    """What was found out about a rule. Print it.

    Attributes:
        passed: whether no instance failed.
        reason: what is wrong, in plain words; None if nothing is.
        counterexample: the smallest instance that fails.
        damage: None if the rule passed, or broke off without a law.
        method: `exact`, if all branches were walked; `sampled` else.
        instances: how many were tried.
        branches: how many were walked, all instances together.
        samples: how many were drawn, all instances together.
        largest_error: in the chance of a text, over all instances that were walked and passed.
        false_alarm: the chance that a right rule fails, at most; 0 if exact.
        detects: a rule that is at least this far off on any sampled instance fails, but for one chance in a
            million; None if nothing was sampled.
        lines: the texts of the counterexample, if their law is wrong.
        notes: how the rule had to be handled.
    """

    passed: bool
    reason: str | None
    counterexample: Instance | None
    damage: Damage | None
    method: Literal["exact", "sampled"]
    instances: int
    branches: int
    samples: int
    largest_error: float
    false_alarm: float
    detects: float | None
    lines: tuple[Line, ...] = field(repr=False)
    notes: tuple[str, ...]

    def __str__(self) -> str:
        if self.passed:
            text = [f"passed: on {self.instances} instances the text has the target's law"]
        else:
            text = [f"failed: {self.reason}"]
        if self.counterexample is not None:
            text += [f"  {line}" for line in about_instance(self.counterexample)]
            text += [f"  {line}" for line in about_law(self.counterexample, self.lines)]
        text += [f"  {line}" for line in about_method(self)]
        return "\n".join(text)

    def to_json(self) -> dict[str, Any]:
        """Returns all of it in plain types; laws are written as people write them."""
        instance, damage = self.counterexample, self.damage
        return {
            "passed": self.passed,
            "reason": self.reason,
            "counterexample": instance
            and {
                "k": instance.k,
                "vocab_size": instance.vocab_size,
                "lengths": list(instance.lengths),
                "p": [[[show(chance) for chance in law] for law in table] for table in instance.p],
                "q": [[[show(chance) for chance in law] for law in table] for table in instance.q],
            },
            "damage": damage and vars(damage),
            "method": self.method,
            "instances": self.instances,
            "branches": self.branches,
            "samples": self.samples,
            "largest_error": self.largest_error,
            "false_alarm": self.false_alarm,
            "detects": self.detects,
            "notes": list(self.notes),
        }


def about_instance(instance: Instance) -> Iterator[str]:
    """Yields lines that say what p, q and K are."""
    yield f"the smallest instance that shows it: K = {instance.k}, V = {instance.vocab_size}"
    if instance.lengths != (instance.k,):
        yield f"  rows that propose {' or '.join(map(str, instance.lengths))} tokens, side by side"
    laws = [*about_tables("p", instance.p), *about_tables("q", instance.q)]
    yield from (f"  {law}" for law in laws[: 2 * MOST_LINES])
    if len(laws) > 2 * MOST_LINES:
        yield f"  … and {len(laws) - 2 * MOST_LINES} laws more"


def about_tables(name: str, tables: Sequence[Table]) -> Iterator[str]:
    """Yields a line per law."""
    for place, table in enumerate(tables):
        for number, law in enumerate(table):
            digits = [str(number // len(law) ** (place - 1 - i) % len(law)) for i in range(place)]
            behind = f" after {' '.join(digits)}" if len(table) > 1 else ""
            yield f"{name} of token {place + 1}{behind}: ({', '.join(map(show, law))})"


def about_law(instance: Instance, lines: Sequence[Line]) -> Iterator[str]:
    """Yields a table of what comes out and what should: of the first token if that tells most of it."""
    if not lines:
        return
    ids = range(instance.vocab_size)
    should = [sum(line.should for line in lines if line.text[0] == token) for token in ids]
    came = [sum(line.came for line in lines if line.text[0] == token) for token in ids]
    whole = sum(abs(line.should - line.came) for line in lines)
    if 2 * sum(abs(a - b) for a, b in zip(should, came, strict=True)) >= whole:
        drafted = [show(chance) for chance in instance.q[0][0]] if instance.k else ["-"] * len(ids)
        rows = [
            (str(token), drafted[token], show(should[token]), show(came[token]))
            for token in sorted(ids, key=lambda token: -abs(should[token] - came[token]))[:MOST_LINES]
        ]
        yield from columns(("first token", "q", "p", "came out"), sorted(rows))
        return
    farthest = sorted(lines, key=lambda line: -abs(line.should - line.came))[:MOST_LINES]
    texts = [(" ".join(map(str, line.text)), show(line.should), show(line.came)) for line in farthest]
    yield from columns(("text", "should be", "came out"), sorted(texts))


def about_method(report: Report) -> Iterator[str]:
    """Yields lines on the damage, and on how it was found."""
    if report.damage is not None:
        low, high, largest = (f"{value:.4g}" for value in vars(report.damage).values())
        here = low if low == high else f"{low} to {high}"
        yield f"damage: total variation {here} here; {largest} at the worst instance"
    if report.branches:
        yield (
            f"walked: {report.branches:,} branches on {report.instances} instances; where the law is "
            f"right it is so up to {report.largest_error:.1g}"
        )
    if report.samples:
        yield (
            f"sampled: {report.samples:,} texts; a right rule fails with chance {report.false_alarm:.1g} at "
            f"most, and one that is off by {report.detects:.2g} passes with chance 1e-06 at most"
        )
    yield from (f"note: {note}" for note in report.notes)


def columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yields aligned lines."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    for row in (head, *rows):
        yield "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))


def show(chance: Chance) -> str:
    """Writes a chance as a fraction where it is one with a small denominator, else in four digits."""
    if isinstance(chance, Fraction):
        return str(chance)
    near = Fraction(chance).limit_denominator(1000)
    if abs(float(near) - chance) < 1e-13 and (near or not chance):
        return str(near)
    return f"{chance:.4g}"
