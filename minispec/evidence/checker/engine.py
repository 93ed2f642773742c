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
are pairs of tokens, of a text and of two texts: `groupings` lists them. The pairs of one test share no token.

Texts that come again. With what probability a text is one that has come before, is known before it is drawn:
the probabilities of those add up. How often it happens is compared with the sum over all texts.

What a pass means: on these prompts, up to this many tokens, as these tests group them, nothing else.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch

from minispec.core.batch import Eos, end_ids
from minispec.evidence.checker.beginnings import Beginning, Beginnings, NextToken, grow
from minispec.evidence.checker.calling import Generate, request_text
from minispec.evidence.checker.engine_report import (
    BEGINNINGS,
    REPEATED,
    EngineReport,
    beginning_counterexample,
)
from minispec.evidence.checker.groupings import CLASSES, Counterexample, groupings, omitted_pairs
from minispec.evidence.theory.statistics import MISS, Cell, Sampled, check_sample, deviation

FIRST = 256  # texts at the first look
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
    limit: float | None = None,
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
        limit: seconds that the engine may take for one text, or None. It needs the main thread, and a system
            that has SIGALRM.

    Returns:
        The report; print it.

    Raises:
        ValueError: if an argument is unusable, if the engine or the target returns what it may not, or if the
            engine exits, comes back twice because it has forked, or takes longer than `limit`.
    """
    if tokens < 1 or samples < 1 or not 0 < alarm < 1:
        raise ValueError(f"tokens and samples are 1 or more, alarm 0 to 1; not {tokens}, {samples}, {alarm}")
    if not 0 <= seed < TOP_SEED - samples:
        raise ValueError(f"seed must be 0 to {TOP_SEED - samples - 1}, not {seed}")
    next_token = NextToken(target, prompts)
    ends = end_ids(eos, len(next_token.distribution(Beginning(0, ()))))
    sample = EngineSample(
        generate, limit, next_token, grow(next_token, tokens, ends, cells), tokens, ends, seed
    )
    sizes = [*(FIRST << i for i in range(samples.bit_length()) if FIRST << i < samples), samples]
    for size in sizes:
        sample.draw(size)
        explained = list(sample.tests(alarm / len(sizes)))
        counterexample = next((explain() for test, explain in explained if not test.passed), None)
        tests = tuple(test for test, _ in explained)
        report = EngineReport(tests, size, tokens, len(prompts), alarm, counterexample, omitted_pairs(tokens))
        if report.damage is not None and report.damage.low > 0:
            break
    return report


@dataclass
class EngineSample:
    """The texts that an engine has returned so far."""

    generate: Generate
    limit: float | None
    target: NextToken
    beginnings: Beginnings
    tokens: int
    ends: frozenset[int]
    seed: int
    #: How many texts are in each cell of the beginnings; an impossible one has its own.
    beginning_counts: Counter[Cell] = field(default_factory=Counter)
    numbers: list[list[float]] = field(default_factory=list)  #: per text n numbers, one for each token
    #: Per text n + 1 ids modulo `CLASSES` (`groupings`).
    previous_ids: list[list[int]] = field(default_factory=list)
    texts: set[Beginning] = field(default_factory=set)  #: all whole texts so far, each once
    expected_repeats: float = 0.0  #: how many texts should have come before

    def __post_init__(self) -> None:
        # From the other end of the seeds: an engine that seeds like this one has other numbers.
        self._rng = torch.Generator().manual_seed(TOP_SEED - self.seed)
        self._text_probability = [0.0] * len(self.target.prompts)  # probability of the known texts, by prompt

    def draw(self, size: int) -> None:
        """Draws texts until there are `size`."""
        for seed in range(self.seed + len(self.numbers), self.seed + size):
            prompt = int(torch.randint(len(self.target.prompts), (), generator=self._rng))
            numbers = torch.rand(self.tokens, generator=self._rng, dtype=torch.float64).tolist()
            prompt_ids = self.target.prompts[prompt]
            text = request_text(self.generate, prompt_ids, self.tokens, seed, self.ends, self.limit)
            cell = self.beginnings.cell(prompt, text)
            probability = 1.0
            for i in range(len(text)):
                beginning = Beginning(prompt, text[: i + 1])
                # Nothing can follow the end.
                is_over = self.ends.intersection(text[:i])
                low, width = (0.0, 0.0) if is_over else self.target.interval(beginning)
                probability *= width
                if not width:
                    cell = beginning
                    break
                numbers[i] = low + width * numbers[i]
            self.beginning_counts[cell] += 1
            self.numbers.append(numbers)
            ids = ((0, 0, *prompt_ids)[-2:] + text + (0,) * self.tokens)[: self.tokens + 1]
            self.previous_ids.append([token % CLASSES for token in ids])
            self.count_repeat(Beginning(prompt, text), probability)

    def count_repeat(self, text: Beginning, probability: float) -> None:
        """Counts with what probability a text would have come before, and remembers this one."""
        self.expected_repeats += self._text_probability[text.prompt]
        if text not in self.texts:
            self.texts.add(text)
            self._text_probability[text.prompt] += probability

    def tests(self, alarm: float) -> Iterator[tuple[Sampled, Callable[[], Counterexample]]]:
        """Yields all tests of one look, half of `alarm` for the beginnings, and what shows why one fails."""
        half = alarm / 2
        counts = self.beginning_counts
        explain = partial(beginning_counterexample, counts, self.beginnings, self.target.prompts, half)
        yield check_sample(BEGINNINGS, counts, self.beginnings.exact, half), explain
        numbers = torch.tensor(self.numbers, dtype=torch.float64)  # [N, n]
        groups = list(groupings(numbers, torch.tensor(self.previous_ids)))
        share = half / (len(groups) + 1)
        for grouping in groups:
            test = check_sample(grouping.name, grouping.counts, grouping.exact, share)
            # The tokens of a text are independent if the engine is right; if not, only texts are.
            detects = test.threshold + deviation(MISS, grouping.units)
            yield replace(test, samples=grouping.units, detects=detects), grouping.counterexample
        repeats = len(numbers) - len(self.texts)
        shares = (self.expected_repeats / len(numbers), repeats / len(numbers))
        yield (
            self.repeats_test(repeats, share),
            partial(Counterexample, "a text comes that has come before", *shares),
        )

    def repeats_test(self, repeats: int, alarm: float) -> Sampled:
        """Tests whether more texts come again than should.

        Whether a text has come before is a coin of known probability, given all texts before it. So the
        number of repeats less the sum of these probabilities is a martingale, and it exceeds N·t with
        probability exp(−2N·t²) at most (Azuma 1967, with the constant of McDiarmid 1989).
        """
        samples = len(self.numbers)
        threshold = deviation(alarm, samples)
        return Sampled(
            REPEATED,
            samples,
            cells=1,
            distance=max(0.0, repeats - self.expected_repeats) / samples,
            threshold=threshold,
            false_alarm=alarm,
            detects=threshold + deviation(MISS, samples),
            measure="share beyond the expected one",
        )
