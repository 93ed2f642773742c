"""What is said about an engine that was checked: the record, and the text that people read."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from minispec.evidence.checker.beginnings import Beginning, Beginnings, Text
from minispec.evidence.checker.groupings import Counterexample
from minispec.evidence.checker.report import RuleDamage, align_columns
from minispec.evidence.theory.statistics import MISS, Cell, Sampled, check_sample, margin

BEGINNINGS = "beginnings"  # the name of a test
REPEATED = "repeated texts"  # and of another
MAX_TESTS = 3  # tests in the text
COLUMNS = ("test", "cells", "distance", "fails at", "detects")


@dataclass(frozen=True)
class EngineReport:
    """What was found out about an engine. Print it."""

    tests: tuple[Sampled, ...]  #: of the last look: of the beginnings, then of later tokens
    samples: int  #: how many texts were drawn, N
    tokens: int  #: how many each has at most
    prompts: int  #: how many
    alarm: float  #: the probability that a right engine fails, at most
    #: the shortest beginning that shows what is wrong, or else an event of later tokens
    counterexample: Counterexample | None
    left_out: tuple[str, ...]  #: what was not looked at

    @property
    def instances(self) -> int:
        """How many texts were compared; 0 if they are so few that no test could have failed."""
        return self.samples if self.failure or self.detects < 1 else 0

    @property
    def failure(self) -> Sampled | None:
        """The first test that fails."""
        return next((test for test in self.tests if not test.passed), None)

    @property
    def passed(self) -> bool:
        """Whether no test failed, and at least one could have."""
        return self.failure is None and self.instances > 0

    @property
    def reason(self) -> str | None:
        """What is wrong, in plain words; None if nothing is."""
        event = self.counterexample
        if event is None:
            return None
        return f"{event.event}: probability {event.expected:.4g}, came in {event.frequency:.4g}"

    @property
    def damage(self) -> RuleDamage | None:
        """How far off the engine is, as the first test that fails groups it; None if it passed.

        The empirical distribution of m cells is within its mean, at most ½·√((m − 1)/N), plus the deviation,
        of the true one; and what has probability x comes among N with probability N·x at most. With
        probability 1 − 3·`alarm` at least the bounds hold.
        """
        test = self.failure
        if test is None:
            return None
        bound = margin(test.cells, test.samples, test.false_alarm)
        largest = max(failed.distance for failed in self.tests if not failed.passed)
        least = test.false_alarm / test.samples if test.impossible else 0.0
        return RuleDamage(max(least, test.distance - bound), min(1.0, test.distance + bound), largest)

    @property
    def detects(self) -> float:
        """An engine this far off, as any of the tests groups it, fails, but for a probability of 1e-6.

        Tests that no number of such texts could fail are left out.
        """
        return max((test.detects for test in self.tests if test.detects < 1), default=1.0)

    def __str__(self) -> str:
        damage = self.damage
        test = self.failure
        text = ["passed: the tests see no difference from the target's distribution"]
        if not self.instances:
            text = ["checked nothing: no test can fail with so few texts; give more samples"]
        if damage is not None and test is not None:
            text = [
                "failed: its texts are not distributed as the target's",
                f"{self.reason}",
                f"damage: {test.measure} {test.distance:.2g} of {test.name} as drawn, in truth "
                f"{damage.low:.2g} to {damage.high:.2g}",
            ]
        nearest = sorted(self.tests, key=lambda near: near.threshold - near.distance)[:MAX_TESTS]
        rows = [
            (near.name, str(near.cells), *(f"{x:.4f}" for x in (near.distance, near.threshold, near.detects)))
            for near in nearest
        ]
        text += [
            f"{self.samples:,} texts of {self.tokens} tokens, prompts: {self.prompts}; of "
            f"{len(self.tests)} tests those nearest to failing:",
            *(f"  {line}" for line in align_columns(COLUMNS, rows)),
            f"a right engine fails with probability {self.alarm:.1g} at most; one that is off by "
            f"`detects` in a test passes with probability {MISS:.1g} at most",
            *(f"left out: {what}" for what in self.left_out),
        ]
        return "\n  ".join(text)


def beginning_counterexample(
    counts: Mapping[Cell, int], beginnings: Beginnings, prompts: Sequence[Text], alarm: float
) -> Counterexample:
    """Returns an impossible beginning, or else the shortest one that shows that the test is right to fail.

    Shortest: the test, with its `alarm`, fails too if it looks at no token after this one.
    """
    depth = 0
    exact = Counter[Any](beginnings.exact)
    counted = Counter[Any](counts)
    impossible = [beginning for beginning in counts if beginning not in beginnings.exact]
    worst = min(impossible, key=lambda beginning: len(beginning.text), default=None)
    if worst is None:
        for depth in range(1, 1 + max(len(beginning.text) for beginning in beginnings.likely)):
            exact = truncate(beginnings.exact, depth)
            counted = truncate(counts, depth)
            if not check_sample(BEGINNINGS, counted, exact, alarm).passed:
                break
        total = sum(counted.values())
        worst = max(exact, key=lambda beginning: abs(counted[beginning] / total - exact[beginning]))
    prompt, tokens = (" ".join(map(str, ids)) for ids in (prompts[worst.prompt], worst.text))
    event = f"after {prompt} it emits {tokens}"
    following = [longer.text[-1] for longer in beginnings.likely if longer.text and longer.parent == worst]
    if following and len(worst.text) < depth:
        event = (
            f"after {f'{prompt} {tokens}'.strip()} its next token is none of {' '.join(map(str, following))}"
        )
    texts = sum(count for beginning, count in counted.items() if beginning.prompt == worst.prompt)
    expected = exact[worst] * len(prompts)
    return Counterexample(event, expected, counted[worst] / texts, prompts[worst.prompt], worst.text)


def truncate(table: Mapping[Beginning, Any], depth: int) -> Counter[Any]:
    """Adds up what begins alike, if no token after the first `depth` is looked at."""
    sums: Counter[Any] = Counter()
    for (prompt, text), value in table.items():
        sums[Beginning(prompt, text[:depth])] += value
    return sums
