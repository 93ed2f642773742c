"""Does an engine sample from its target? `check_engine` finds out, for anything that returns sampled texts.

It asks for thousands of texts and compares them with the target's own distributions in two ways. Both have
null distributions that are exact.

Beginnings. Each text belongs to one of a few cells: the likeliest beginnings, and for each of them "another
next token". The chain rule gives each cell's probability.

Later tokens. They rarely follow the same text twice. So each becomes a number: the target's distribution
after the text so far is laid out on [0, 1) by falling probability, and a uniform point is drawn in the
token's own interval. If the engine samples from the target, that number is uniform whatever the text was, so
it does not depend on the ones before: all numbers of all texts are independent (Rosenblatt 1952; Brockwell
2007 for discrete variables). After a text's end fresh uniform numbers stand. Each position is tested, and so
are pairs of neighbours: the end of a round lies between some of them. The pairs of one test share no token.

What a pass means: on these prompts, up to this many tokens, as these tests group them, nothing else.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import torch
from torch import Tensor

from minispec.core.commit import Eos
from minispec.evidence.checker.beginnings import Beginning, Beginnings, NextToken, Text, grow
from minispec.evidence.checker.calling import Generate
from minispec.evidence.checker.engine_report import (
    BEGINNINGS,
    Counterexample,
    EngineReport,
    beginning_that_differs,
    number_that_differs,
)
from minispec.evidence.theory.statistics import MISS, Cell, Sampled, check_sample, deviation

FIRST = 256  # texts at the first look
PARTS = 8  # cells of a later token
PAIRED = 4  # of each of a pair
TOP_SEED = 2**32 - 1


def check_engine(
    generate: Generate,
    target: Callable[[Sequence[int]], Any],
    *,
    prompts: Sequence[Sequence[int]],
    tokens: int = 8,
    alarm: float = 1e-6,
    samples: int = 16_384,
    cells: int = 64,
    eos: Eos = None,
    seed: int = 0,
) -> EngineReport:
    """Finds out whether an engine's texts have the target's distribution.

    The number of texts doubles from look to look, until it is clear that something is wrong: the damage is
    above 0 for sure. All tests of all looks share `alarm`, so a right engine fails with this probability at
    most. One whose distribution, grouped as a test groups it, is that test's `detects` away passes with
    probability 10⁻⁶ at most: the last look alone would find it.

    Args:
        generate: (prompt ids, n, seed) -> n ids, or fewer of which the last ends the text. Texts of different
            seeds must be independent.
        target: (ids) -> the distribution that the next id should be drawn from: [V], warped as the engine is
            told to warp.
        prompts: token ids; which one a text gets is drawn, each with the same probability.
        tokens: n; several rounds should fit.
        alarm: the probability that a right engine fails, at most.
        samples: how many texts to draw at most.
        cells: how many beginnings to tell apart.
        eos: an id, or several, that end a text.
        seed: of the first text, and of what is drawn here; each further text has the next one.

    Returns:
        The report; print it.

    Raises:
        ValueError: if an argument is unusable, or the engine or the target returns what it may not.
    """
    if tokens < 1 or samples < 1 or not 0 < alarm < 1:
        raise ValueError(f"tokens and samples are 1 or more, alarm 0 to 1; not {tokens}, {samples}, {alarm}")
    if not 0 <= seed < TOP_SEED - samples:
        raise ValueError(f"seed must be 0 to {TOP_SEED - samples - 1}, not {seed}")
    ends = frozenset([eos] if isinstance(eos, int) else eos or ())
    after = NextToken(target, prompts)
    drawn = Drawn(generate, after, grow(after, tokens, ends, cells), tokens, ends, seed)
    sizes = [*(FIRST << i for i in range(samples.bit_length()) if FIRST << i < samples), samples]
    for size in sizes:
        drawn.draw(size)
        tests = tuple(drawn.tests(alarm / len(sizes)))
        report = EngineReport(tests, size, tokens, len(prompts), alarm, drawn.counterexample(tests))
        if report.damage is not None and report.damage.low > 0:
            break
    return report


@dataclass
class Drawn:
    """The texts that an engine has said so far."""

    generate: Generate
    after: NextToken
    tree: Beginnings
    tokens: int
    ends: frozenset[int]
    seed: int
    #: How many texts are in each cell of the beginnings; an impossible one has its own.
    firsts: Counter[Cell] = field(default_factory=Counter)
    numbers: list[list[float]] = field(default_factory=list)  #: per text n numbers, one for each token

    def __post_init__(self) -> None:
        # From the other end of the seeds: an engine that seeds like this one has other numbers.
        self._rng = torch.Generator().manual_seed(TOP_SEED - self.seed)

    def draw(self, size: int) -> None:
        """Draws texts until there are `size`."""
        for seed in range(self.seed + len(self.numbers), self.seed + size):
            prompt = int(torch.randint(len(self.after.prompts), (), generator=self._rng))
            numbers = torch.rand(self.tokens, generator=self._rng, dtype=torch.float64).tolist()
            text = self.say(prompt, seed)
            cell = self.tree.cell(prompt, text)
            for i in range(len(text)):
                low, width = 0.0, 0.0  # nothing can follow the end
                if not self.ends.intersection(text[:i]):
                    low, width = self.after.interval(Beginning(prompt, text[: i + 1]))
                if not width:
                    cell = Beginning(prompt, text[: i + 1])
                    break
                numbers[i] = low + width * numbers[i]
            self.firsts[cell] += 1
            self.numbers.append(numbers)

    def say(self, prompt: int, seed: int) -> Text:
        """Asks the engine for one text.

        Raises:
            ValueError: if what it returns is no list of ids, or has the wrong number of them.
        """
        said = self.generate(list(self.after.prompts[prompt]), self.tokens, seed)
        try:
            text = tuple(int(token) for token in said)
        except (TypeError, ValueError, RuntimeError) as error:
            raise ValueError(f"the engine must return a list of ids, not {said!r}") from error
        if len(text) > self.tokens or len(text) < self.tokens and not self.ends.intersection(text):
            raise ValueError(f"the engine returned {len(text)} ids; {self.tokens} were asked for")
        return text

    def tests(self, alarm: float) -> Iterator[Sampled]:
        """Yields all tests of one look; half of `alarm` is for the beginnings."""
        yield check_sample(BEGINNINGS, self.firsts, self.tree.exact, alarm / 2)
        later = self.later()
        for name, counts in later.items():
            test = check_sample(name, counts, dict.fromkeys(counts, 1 / len(counts)), alarm / 2 / len(later))
            # The tokens of a text are independent if the engine is right; if not, only texts are.
            yield replace(test, detects=test.threshold + deviation(MISS, len(self.numbers)))

    def later(self) -> dict[str, Counter[Cell]]:
        """Returns how often each cell of later tokens came, by test; a test's cells are equally likely."""
        numbers, n = torch.tensor(self.numbers, dtype=torch.float64), self.tokens  # [N, n]
        found = {f"token {i + 1}": counted(numbers[:, i : i + 1], PARTS) for i in range(n)}
        for first in range(min(2, n - 1)):
            pairs = numbers[:, first : first + (n - first) // 2 * 2].reshape(-1, 2)
            found[f"pairs from token {first + 1}"] = counted(pairs, PAIRED)
        return found

    def counterexample(self, tests: Sequence[Sampled]) -> Counterexample | None:
        """Returns an event that shows that the first test that fails is right to."""
        failed = next((test for test in tests if not test.passed), None)
        if failed is None:
            return None
        if failed.name == BEGINNINGS:
            return beginning_that_differs(self.firsts, self.tree, self.after.prompts, failed.false_alarm)
        return number_that_differs(failed.name, self.later()[failed.name])


def counted(numbers: Tensor, parts: int) -> Counter[Cell]:
    """Counts in which of `parts` equal parts of [0, 1) numbers lie, singly [M, 1] or in pairs [M, 2]."""
    counts = Counter(dict.fromkeys(product(range(parts), repeat=numbers.shape[1]), 0))
    counts.update(map(tuple, (numbers * parts).long().clamp(max=parts - 1).tolist()))
    return counts
