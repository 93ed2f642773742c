"""What is said about a rule that was checked: the record, and the text that people read."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import groupby, product
from operator import itemgetter
from typing import Literal

from minispec.evidence.checker.instance import Instance, Probability, Table, TableRow
from minispec.evidence.checker.trials import InstanceResult, TextProbability

MAX_LINES = 8  # of a table
MAX_IDS = 32  # of a distribution that is written out
FALSE_ALARM = 1e-6  # for all sampled instances together


@dataclass(frozen=True)
class RuleDamage:
    """How far off a rule is, in total variation."""

    low: float  #: at the counterexample, at least
    high: float  #: at the counterexample, at most; the same where it is exact
    largest: float  #: over all instances that fail; an estimate where they were sampled


@dataclass(frozen=True)
class Report:
    """What was found out about a rule. Print it."""

    results: tuple[InstanceResult, ...]  #: of the instances that were checked, the smallest first
    method: Literal["exact", "sampled"]  #: whether all branches were enumerated
    notes: tuple[str, ...]  #: how the rule had to be called, and what it may also do
    omitted: tuple[InstanceResult, ...] = ()  #: of the instances that were left out; each says why
    in_batches_only: bool = False  #: whether each row alone is right

    @property
    def failure(self) -> InstanceResult | None:
        """What the rule did on the smallest instance that fails."""
        return next((result for result in self.results if result.reason), None)

    @property
    def passed(self) -> bool:
        """Whether no instance failed, of one at least."""
        return self.failure is None and self.instances > 0

    @property
    def reason(self) -> str | None:
        """What is wrong, in plain words; None if nothing is."""
        worst = worst_failure(self.results)
        if worst is None or self.failure is None:
            return None
        reason = worst.reason or ""
        if reason != self.failure.reason:
            reason += f" (K = {worst.instance.k}, V = {worst.instance.vocab_size})"
        return f"{reason}; each row alone is right" if self.in_batches_only else reason

    @property
    def left_out(self) -> dict[str, int]:
        """How many instances were not checked, by the reason."""
        return dict(Counter(result.left_out or "" for result in self.omitted))

    @property
    def counterexample(self) -> Instance | None:
        """The smallest instance that fails: its `p`, `q` and `k`."""
        return self.failure.instance if self.failure else None

    @property
    def damage(self) -> RuleDamage | None:
        """How far off the rule is; None if it passed, or broke off before it decided anything."""
        failure = self.failure
        if failure is None or failure.distance is None:
            return None
        largest = max(result.distance or 0.0 for result in self.results if result.reason)
        return RuleDamage(
            max(0.0, failure.distance - failure.margin), min(1.0, failure.distance + failure.margin), largest
        )

    @property
    def instances(self) -> int:
        """How many were checked; none is never a pass."""
        return len(self.results)

    @property
    def branches(self) -> int:
        """How many were enumerated, all instances together."""
        return sum(result.branches for result in self.results)

    @property
    def samples(self) -> int:
        """How many were drawn, all instances together."""
        return sum(result.samples for result in self.results)

    @property
    def largest_error(self) -> float:
        """The largest difference in the probability of a text, where the rule passed."""
        return max((result.error for result in self.results if not result.reason), default=0.0)

    @property
    def false_alarm(self) -> float:
        """The probability that a right rule fails, at most; 0 if nothing was sampled."""
        return FALSE_ALARM if self.samples else 0.0

    @property
    def detects(self) -> float | None:
        """A rule this far off on any sampled instance fails, but for a probability of 1e-6."""
        return max((result.detects for result in self.results if result.samples), default=None)

    def __str__(self) -> str:
        details: list[str] = []
        if not self.instances:
            verdict = "checked nothing: no instance could be tried"
        elif self.failure is None:
            what = "1 instance" if self.instances == 1 else f"{self.instances} instances"
            verdict = f"passed: on {what} the text has the target's distribution"
        else:
            verdict = f"failed: {self.reason}"
            details = [
                *describe_instance(self.failure.instance),
                *describe_texts(self.failure.instance, self.failure.texts),
            ]
        return "\n  ".join([verdict, *details, *describe_method(self)])

    def refused_for(self, larger: "Report") -> "Report":
        """Returns a report on other instances, for a rule that takes none of these.

        It was made for drafts of other sizes. So those that it refuses there, too, say nothing about it.
        """
        omitted = [
            replace(result, reason=None, left_out=f"the rule does not take them: {result.reason}")
            for result in (*self.results, *larger.results)
            if not result.applies
        ]
        kept = tuple(result for result in larger.results if result.applies)
        return replace(larger, results=kept, omitted=(*self.omitted, *omitted, *larger.omitted))


def worst_failure(results: Sequence[InstanceResult]) -> InstanceResult | None:
    """Returns the failure that says what is wrong: the one with the largest damage; None if there is none.

    A rule that broke off on the smallest instance has no damage there: that is what is wrong with it.
    """
    failures = [result for result in results if result.reason]
    if not failures or failures[0].distance is None:
        return next(iter(failures), None)
    return max(failures, key=lambda result: result.distance or 0.0)


def describe_instance(instance: Instance) -> Iterator[str]:
    """Yields lines that say what p, q and K are."""
    yield f"the smallest instance that shows it: K = {instance.k}, V = {instance.vocab_size}"
    if not instance.is_chain:
        yield f"  a tree of candidates, {instance.choice}: {describe_tree(instance.parents)}"
    if instance.lengths != (instance.k,):
        yield f"  rows that propose {' or '.join(map(str, instance.lengths))} tokens, in one batch"
    dists = [*describe_tables("p", instance.p), *describe_tables("q", instance.q)]
    yield from (f"  {dist}" for dist in dists[: 2 * MAX_LINES])
    if len(dists) > 2 * MAX_LINES:
        yield f"  … and {len(dists) - 2 * MAX_LINES} distributions more"


def describe_tree(parents: Sequence[int]) -> str:
    """Says which candidates, counted from 1, follow which."""
    groups = (
        f"after {parent}: {', '.join(str(i) for i, _ in siblings)}"
        for parent, siblings in groupby(enumerate(parents, 1), itemgetter(1))
    )
    return "; ".join(groups).removeprefix("after 0: ")


def describe_tables(name: str, tables: Sequence[Table]) -> Iterator[str]:
    """Yields a line per distribution."""
    for position, table in enumerate(tables):
        prefixes = product(range(len(table[0])), repeat=position)
        for prefix, dist in zip(prefixes, table, strict=False):
            after = f" after {' '.join(map(str, prefix))}" if len(table) > 1 else ""
            yield f"{name} of token {position + 1}{after}: {describe_distribution(dist)}"


def describe_distribution(dist: TableRow) -> str:
    """Writes a distribution; of a large vocabulary the ids that are most probable."""
    if len(dist) <= MAX_IDS:
        return f"({', '.join(map(format_probability, dist))})"
    likely = sorted((token for token, prob in enumerate(dist) if prob), key=lambda token: -dist[token])
    more = f", … {len(likely) - MAX_LINES} ids more" if len(likely) > MAX_LINES else ""
    cells = (f"id {token}: {format_probability(dist[token])}" for token in likely[:MAX_LINES])
    return ", ".join(cells) + more


def describe_texts(instance: Instance, texts: Sequence[TextProbability]) -> Iterator[str]:
    """Yields a table of what comes out and what should: of the first token if that tells most of it."""
    if not texts:
        return
    first_tokens = []
    for token in range(instance.vocab_size):
        texts_with_token = [text for text in texts if text.text[0] == token]
        expected = sum(text.expected for text in texts_with_token)
        actual = sum(text.actual for text in texts_with_token)
        first_tokens.append(TextProbability((token,), expected, actual))
    by_first_token = 2 * sum(map(text_error, first_tokens)) >= sum(map(text_error, texts))
    worst = sorted(first_tokens if by_first_token else texts, key=text_error, reverse=True)[:MAX_LINES]
    cells = [
        (" ".join(map(str, text.text)), format_probability(text.expected), format_probability(text.actual))
        for text in worst
    ]
    if by_first_token:
        drafted = list(map(format_probability, instance.q[0][0])) if instance.k else None
        rows = [(token, drafted[int(token)] if drafted else "-", *numbers) for token, *numbers in cells]
        yield from align_columns(("first token", "q", "p", "came out"), sorted(rows))
    else:
        yield from align_columns(("text", "should be", "came out"), sorted(cells))


def text_error(text: TextProbability) -> float:
    """Returns how far a text's probability is from the right one."""
    return abs(text.expected - text.actual)


def describe_method(report: Report) -> Iterator[str]:
    """Yields lines on the damage, and on how it was found."""
    if report.damage is not None:
        low, high, largest = (f"{value:.4g}" for value in vars(report.damage).values())
        bounds = low if low == high else f"{low} to {high}"
        yield f"damage: total variation {bounds} here; {largest} at the worst instance"
    if report.branches:
        yield (
            f"enumerated: {report.branches:,} branches on {report.instances} instances; where the "
            f"distribution is right it is so up to {report.largest_error:.1g}"
        )
    if report.detects is not None:
        yield (
            f"sampled: {report.samples:,} texts; a right rule fails with probability {FALSE_ALARM:.1g} at "
            f"most, and one that is off by {report.detects:.2g} passes with probability 1e-06 at most"
        )
    for why, count in report.left_out.items():
        yield f"left out: {count} instance{'' if count == 1 else 's'}: {why}"
    yield from (f"note: {note}" for note in report.notes)


def align_columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yields aligned lines."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        yield "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))


def format_probability(prob: Probability) -> str:
    """Writes a probability as a fraction where it is one with a small denominator, else in four digits."""
    near = prob if isinstance(prob, Fraction) else Fraction(prob).limit_denominator(1000)
    if abs(float(near) - prob) < 1e-13 and (near or not prob):
        return str(near)
    return f"{prob:.4g}"
