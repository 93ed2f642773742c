"""Every outcome of every random decision, enumerated one by one.

`EnumeratingRng` takes the place of the random number generator and answers by a script. The code that asks it
is the code that users call. When a run has ended, the rng knows which decisions were open and how likely the
run was; the branches not taken become the scripts of further runs. In the end every leaf of the tree of
decisions has been visited once, and the probabilities of the leaves add up to 1.

Each row of a batch follows a script of its own, so that hundreds of branches run at once.

Code in C++ follows no script. `replay.py` says how its branches are taken all the same.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from minispec.core.rng import CERTAIN, Place, RoundRng, check_one_a_row
from minispec.evidence.proof.replay import Interval, interval_of, replay
from minispec.native.decisions import Lender, native_categorical

T = TypeVar("T")
Key = TypeVar("Key")


class NotScripted(ValueError):
    """The code under enumeration follows no script: it draws numbers of its own, or names no rows."""


class EnumeratingRng(Lender):
    """An `Rng` that does what a script says, and the first possible thing where the script has ended.

    A script has a number per open decision: which of its possible outcomes to take, counted from 0 in the
    order of ids (for yes or no: yes first). What is certain, impossible or masked is no decision. If there is
    only one script, all rows follow it, one after another: so a batch is enumerated as a whole.

    Attributes:
        weights: per row, the probability of the outcomes taken so far.
        ways: per row and open decision, (which outcome was taken, how many there were).
    """

    def __init__(self, scripts: Sequence[Sequence[int]]) -> None:
        """Takes one script for each of B rows; `[()]` is one row and the very first branch."""
        self._scripts = [tuple(script) for script in scripts]
        self.weights = [1.0] * len(scripts)
        self.ways: list[list[tuple[int, int]]] = [[] for _ in scripts]
        self._intervals: list[Interval] | None = None  # of the outcomes taken, while a branch is prepared

    def decide(self, most: int, native: Callable[[Tensor], tuple[int, T]], core: Callable[[], T]) -> T:
        """Has the core take a branch by the scripts, then the library by numbers [most] (see `replay`).

        Raises:
            Differs: if the library does not decide as the core does.
        """
        intervals: list[Interval] = []
        self._intervals = intervals
        try:
            core()
        finally:
            self._intervals = None
        return replay(native, intervals, most)

    def bernoulli(self, probs: Tensor, place: Place | None = None) -> Tensor:
        """Answers as the scripts do: probs [B] -> [B] bool (see `Rng`); ValueError if they are not [B]."""
        check_one_a_row(probs)
        certain = 1 if self._intervals is None else CERTAIN
        answers = [
            live and p > 0 and (p >= certain or self._take(row, [p, 1 - p]) == 0)
            for row, p, live in zip(*self._rows(probs, place), strict=True)
        ]
        return torch.tensor(answers, device=probs.device)

    def categorical(self, probs: Tensor, place: Place | None = None) -> Tensor:
        """Picks what the scripts say: probs [B, V] -> [B] ids (see `Rng`)."""
        probs = probs.double()
        tokens = []
        total = probs.sum(-1, keepdim=True)
        for row, distribution, live in zip(*self._rows(probs / total, place), strict=True):
            ids = [token for token, p in enumerate(distribution) if p > 0]
            if not live:
                tokens.append(0)
            elif not ids:
                raise ValueError("a distribution has no mass: it is zero or NaN everywhere")
            else:
                choice = self._take(row, [distribution[token] for token in ids]) if len(ids) > 1 else 0
                tokens.append(ids[choice])
        return torch.tensor(tokens, device=probs.device)

    def _rows(self, probs: Tensor, place: Place | None) -> tuple[Sequence[int], list[Any], Sequence[bool]]:
        """Returns for each entry which script it follows, its probabilities, and whether to decide it."""
        count = len(probs)
        scripts = len(self._scripts)
        live = None if place is None else place.live
        if scripts == 1:
            script_ids: Sequence[int] = [0] * count
        elif place is None and count != scripts:
            raise NotScripted(f"{count} decisions for {scripts} rows: name the rows, or ask for all of them")
        else:
            script_ids = range(count) if place is None else place.plan.prompt_ids
        return script_ids, probs.double().tolist(), [True] * count if live is None else live.tolist()

    def _take(self, row: int, probabilities: list[float]) -> int:
        """Takes the outcome that the row's script names next; returns its index."""
        way = self.ways[row]
        script = self._scripts[row]
        choice = script[len(way)] if len(way) < len(script) else 0
        if choice >= len(probabilities):
            raise NotScripted("the script names an outcome that there is not: the code did not repeat itself")
        way.append((choice, len(probabilities)))
        self.weights[row] *= probabilities[choice]
        if self._intervals is not None:
            self._intervals.append(interval_of(probabilities, choice))
        return choice


class NativeEnumeratingRng(EnumeratingRng):
    """An `EnumeratingRng` that has the library draw ids, too."""

    def categorical(self, probs: Tensor, place: Place | None = None) -> Tensor:
        """Picks what the scripts say, in C++: probs [B, V] -> [B] ids (see `Rng`)."""

        def core() -> Tensor:
            return EnumeratingRng.categorical(self, probs, place)

        return core() if self._intervals is not None else native_categorical(self, probs, place, core)


class Uniform:
    """Numbers between 0 and 1 that are never drawn: they are known only as far as they have been compared.

    So `u < x` is a decision of the `Rng`, and one that tries every outcome can try both.
    """

    def __init__(self, rng: RoundRng) -> None:
        """Begins with all numbers from 0 to 1."""
        self._rng = rng
        self._low = torch.zeros(()).double()
        self._high = torch.ones(()).double()

    def __lt__(self, other: float | Tensor) -> Tensor:
        bound = torch.as_tensor(other, dtype=torch.float64).clamp(self._low, self._high)
        shares = (bound - self._low) / (self._high - self._low)
        below = self._rng.bernoulli(shares.reshape(-1)).reshape(shares.shape)
        self._low = torch.where(below, self._low, bound)
        self._high = torch.where(below, bound, self._high)
        return below

    def __gt__(self, other: float | Tensor) -> Tensor:
        return ~(self < other)

    # These differ from those where numbers are equal, which has probability 0.
    __le__ = __lt__
    __ge__ = __gt__


def enumerate_branches(
    run: Callable[[EnumeratingRng, Sequence[Key]], Sequence[T]],
    starts: Sequence[Key],
    most_rows: int = 512,
    make: type[EnumeratingRng] = EnumeratingRng,
) -> Iterator[tuple[Key, T, float]]:
    """Runs every branch of every start, many at once.

    Args:
        run: runs len(keys) rows, row b from the start keys[b], with the rng given; returns what came of each
            row. A row's decisions must not depend on the other rows.
        starts: where rows may start, for instance one prompt each.
        most_rows: how many rows to run at once.
        make: makes the rng.

    Yields:
        (start, what came of it, probability of the branch), every branch once.

    Raises:
        NotScripted: if a branch, run again, asked for other decisions.
    """
    # Oldest first: rows of one batch then have gone about equally far.
    queue: deque[tuple[Key, tuple[int, ...]]] = deque((start, ()) for start in starts)
    while queue:
        batch = [queue.popleft() for _ in range(min(most_rows, len(queue)))]
        rng = make([script for _, script in batch])
        outcomes = run(rng, [key for key, _ in batch])
        for row, (key, script) in enumerate(batch):
            way = rng.ways[row]
            if len(way) < len(script):
                raise NotScripted("a branch ended before its script did: the code did not repeat itself")
            choices = tuple(choice for choice, _ in way)
            for i in range(len(script), len(way)):  # the branches that part after the script's end
                queue.extend((key, (*choices[:i], sibling)) for sibling in range(1, way[i][1]))
            yield key, outcomes[row], rng.weights[row]
