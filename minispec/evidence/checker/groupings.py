"""In which cells later tokens are counted: each alone, in pairs, by the token before, from text to text.

Each token has become a number (see `engine`). If the engine is right, all numbers of all texts are uniform
and independent of each other and of the tokens before. So the probability of each cell here is known, and it
is the same for every target. A wrong engine shows where a grouping looks at what is wrong with it: a number
that was used again in pairs of tokens, a wrong context in the numbers after different tokens, texts that are
not independent in pairs of texts.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
import torch
from torch import Tensor

from minispec.evidence.checker.beginnings import Text
from minispec.evidence.theory.statistics import Cell

PARTS = 8  # cells of a later token
PAIRED = 4  # of each of a pair
MAX_DISTANCE = 16  # pairs of tokens that are farther apart are left out
MAX_BACK = 2  # a token's number is looked at by the id that stands 1, 2, … so many places before it
CLASSES = 4  # ids are told apart modulo this
# How far apart the texts of a pair are, in the order of their seeds.
DISTANCES = (1, 2, 3, 4, 8, 16, 32, 64)


@dataclass(frozen=True)
class Counterexample:
    """An event that should be more likely, or less."""

    event: str  #: in words
    expected: float  #: its probability
    frequency: float  #: its share of the texts
    prompt: Text | None = None  #: that the text follows; None if it may be any
    tokens: Text = ()  #: that the text begins with; empty if they may be any


@dataclass(frozen=True)
class Grouping:
    """How often numbers came in each cell of a test, and how likely each cell is."""

    name: str  #: of the test
    counts: Counter[Cell]  #: by cell, also those in which there is none
    exact: dict[Cell, float]  #: the probability of each
    units: int  #: how many texts, or pairs of texts, are independent also where the engine is wrong
    describe: Callable[[Cell], str]  #: says in words what a cell is

    def counterexample(self) -> Counterexample:
        """Returns the cell that is farthest off."""
        total = sum(self.counts.values())
        worst = max(self.exact, key=lambda cell: abs(self.counts[cell] / total - self.exact[cell]))
        return Counterexample(self.describe(worst), self.exact[worst], self.counts[worst] / total)


def groupings(numbers: Tensor, previous_ids: Tensor) -> Iterator[Grouping]:
    """Yields all groupings of later tokens.

    Args:
        numbers: [N, n] float64, of each token of N texts.
        previous_ids: [N, n + 1] int64, ids modulo `CLASSES`: the prompt's last two, then the text's.
    """
    texts, n = numbers.shape
    for i in range(n):
        yield in_parts(f"token {i + 1}", numbers[:, i : i + 1], PARTS, texts)
    for first in range(min(2, n - 1)):
        pairs = numbers[:, first : first + (n - first) // 2 * 2].reshape(-1, 2)
        yield in_parts(f"pairs from token {first + 1}", pairs, PAIRED, texts)
    yield in_parts("all tokens", numbers.reshape(-1, 1), PARTS, texts)
    for i, j in combinations(range(n), 2):
        if j - i <= MAX_DISTANCE:
            yield in_parts(f"tokens {i + 1} and {j + 1}", numbers[:, [i, j]], PAIRED, texts)
    for back in range(1, MAX_BACK + 1):
        for i in range(n):
            yield after_ids(i, back, numbers[:, i], previous_ids[:, i + MAX_BACK - back])
    for distance in DISTANCES:
        yield from text_to_text(numbers, distance)


def omitted_pairs(n: int) -> tuple[str, ...]:
    """Says which pairs of n tokens no grouping looks at."""
    distant = max(0, n - 1 - MAX_DISTANCE)
    pairs = distant * (distant + 1) // 2
    return (f"{pairs:,} pairs of tokens more than {MAX_DISTANCE} apart",) if pairs else ()


def in_parts(name: str, numbers: Tensor, parts: int, units: int) -> Grouping:
    """Counts in which of `parts` equal parts of [0, 1) numbers lie, singly [M, 1] or in pairs [M, 2]."""
    sides = numbers.shape[1]

    def describe(cell: Cell) -> str:
        ranges = " and ".join(interval(part, parts) for part in cell)
        return f"{name} at {ranges} of the target's distribution, laid out by falling probability"

    counts = count_cells(part_numbers(numbers, parts), [parts] * sides)
    exact = dict.fromkeys(counts, 1 / parts**sides)
    return Grouping(name, counts, exact, units, describe)


def part_numbers(numbers: Tensor, parts: int) -> Tensor:
    """Returns which of `parts` equal parts of [0, 1) each number lies in: [N, n] -> [N, n] int64."""
    return (numbers * parts).long().clamp(max=parts - 1)


def count_cells(columns: Tensor, sizes: Sequence[int]) -> Counter[Cell]:
    """Counts the rows of columns [M, C], where column c holds numbers below `sizes[c]`."""
    rows = np.ravel_multi_index(tuple(columns.T.numpy()), sizes)
    cells = product(*map(range, sizes))
    return Counter(dict(zip(cells, np.bincount(rows, minlength=np.prod(sizes)).tolist(), strict=True)))


def after_ids(i: int, back: int, numbers: Tensor, previous_ids: Tensor) -> Grouping:
    """Counts token i's numbers [N] by the ids modulo `CLASSES` of the tokens so many places before it [N].

    How often each of these ids comes is not tested here: a cell's probability is that of the number. With the
    counts of ids given, a cell's count is binomial with fewer trials than `check_sample` takes it to have,
    so its mean distance is smaller (Hoeffding 1956), and the false-alarm rate holds.
    """
    columns = torch.stack([previous_ids, part_numbers(numbers, PARTS)], 1)
    table = count_cells(columns, [CLASSES, PARTS])
    sizes = previous_ids.bincount(minlength=CLASSES).tolist()
    counts = Counter({cell: count for cell, count in table.items() if sizes[cell[0]]})

    def describe(cell: Cell) -> str:
        return (
            f"token {i + 1} at {interval(cell[1], PARTS)} of the target's distribution, where the id that "
            f"stands {back} before it is {cell[0]} modulo {CLASSES}"
        )

    exact = {cell: sizes[cell[0]] / len(numbers) / PARTS for cell in counts}
    return Grouping(f"token {i + 1} by the id {back} before", counts, exact, len(numbers), describe)


def text_to_text(numbers: Tensor, distance: int) -> Iterator[Grouping]:
    """Yields pairs of numbers [N, n] at the same place of two texts, so far apart; no text is in two pairs.

    There are two ways to pair them up. An engine that emits each text twice shows in one.
    """
    for start in (0, distance):
        blocks = (len(numbers) - start) // (2 * distance)
        if blocks < 1:
            continue
        paired = numbers[start : start + blocks * 2 * distance].view(blocks, 2, distance, -1)
        name = f"texts {distance} apart, from {start + 1}"
        yield in_parts(name, paired.movedim(1, -1).reshape(-1, 2), PAIRED, blocks * distance)


def interval(part: int, parts: int) -> str:
    """Says where a part of [0, 1) lies."""
    return f"{part / parts:g} to {(part + 1) / parts:g}"
