"""Every way that chance can take, walked through one by one.

`EnumeratingRng` stands at the one door of chance and answers by a script instead of by luck. The code behind
the door is the code that users call. When a run has ended, the rng knows which decisions were open and how
likely the way was; the branches not taken become the scripts of further runs. In the end every leaf of
the tree of decisions has been visited once, and the probabilities of the leaves add up to 1.

Each row of a batch follows a script of its own, so that hundreds of branches run at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar, Unpack

import torch
from torch import Tensor

from minispec.core.rng import Which

T = TypeVar("T")
Key = TypeVar("Key")
Script = tuple[int, ...]


class EnumeratingRng:
    """An `Rng` that does what a script says, and the first possible thing where the script has ended.

    A script has a number per open decision: which of its possible outcomes to take, counted from 0 in the
    order of ids (for yes or no: yes first). What is certain, impossible or masked is no decision.

    Attributes:
        weights: per row, the probability of the way taken so far.
        ways: per row and open decision, (which outcome was taken, how many there were).
    """

    def __init__(self, scripts: Sequence[Sequence[int]]) -> None:
        """Takes one script a row.

        Args:
            scripts: B of them; `[()]` for one row and the very first way.
        """
        self._scripts = [tuple(script) for script in scripts]
        self.weights = [1.0] * len(scripts)
        self.ways: list[list[tuple[int, int]]] = [[] for _ in scripts]

    def bernoulli(self, probs: Tensor, **which: Unpack[Which]) -> Tensor:
        """Says what the scripts say: probs [B] -> [B] bool (see `Rng`)."""
        chances = probs.double().tolist()
        names, on = self._names(probs, which)
        said = []
        for row, chance, live_here in zip(names, chances, on, strict=True):
            if not live_here or chance <= 0:
                said.append(False)
            elif chance >= 1:
                said.append(True)
            else:
                said.append(self._take(row, [chance, 1 - chance]) == 0)
        return torch.tensor(said, device=probs.device)

    def categorical(self, probs: Tensor, **which: Unpack[Which]) -> Tensor:
        """Picks what the scripts say: probs [B, V] -> [B] ids (see `Rng`)."""
        wide = probs.double()
        laws = (wide / wide.sum(-1, keepdim=True)).tolist()
        names, on = self._names(probs, which)
        picked = []
        for row, law, live_here in zip(names, laws, on, strict=True):
            ids = [token for token, chance in enumerate(law) if chance > 0]
            if not live_here:
                picked.append(0)
            elif not ids:
                raise ValueError("a distribution has no mass: it is zero or NaN everywhere")
            else:
                choice = self._take(row, [law[token] for token in ids]) if len(ids) > 1 else 0
                picked.append(ids[choice])
        return torch.tensor(picked, device=probs.device)

    def _names(self, probs: Tensor, which: Which) -> tuple[Sequence[int], Sequence[bool]]:
        """Returns which script each entry follows, and whether it is to be decided."""
        count, rows, live = probs.shape[0], which.get("rows"), which.get("live")
        if rows is None and count != len(self._scripts):
            raise ValueError(
                f"{count} decisions for {len(self._scripts)} rows: name the rows, or ask for all of them"
            )
        names = range(count) if rows is None else rows.tolist()
        return names, [True] * count if live is None else live.tolist()

    def _take(self, row: int, chances: list[float]) -> int:
        """Takes the outcome that the row's script names next; returns its index."""
        way, script = self.ways[row], self._scripts[row]
        choice = script[len(way)] if len(way) < len(script) else 0
        if choice >= len(chances):
            raise ValueError("the script names an outcome that there is not: the code did not repeat itself")
        way.append((choice, len(chances)))
        self.weights[row] *= chances[choice]
        return choice


def walk(
    run: Callable[[EnumeratingRng, Sequence[Key]], Sequence[T]], starts: Sequence[Key], most_rows: int = 512
) -> Iterator[tuple[Key, T, float]]:
    """Plays every branch of every start, many at once.

    Args:
        run: plays len(keys) rows, row b from the start keys[b], with chance from the rng; returns what came
            of each row. A row's decisions must not depend on the other rows.
        starts: where rows may start, for instance one prompt each.
        most_rows: how many rows to play at once.

    Yields:
        (start, what came of it, probability of the branch), every branch once.

    Raises:
        ValueError: if a branch, played again, asked for other decisions.
    """
    # Oldest first: rows of one batch then have gone about equally far.
    waiting: deque[tuple[Key, Script]] = deque((start, ()) for start in starts)
    while waiting:
        batch = [waiting.popleft() for _ in range(min(most_rows, len(waiting)))]
        rng = EnumeratingRng([script for _, script in batch])
        outcomes = run(rng, [key for key, _ in batch])
        for row, (key, script) in enumerate(batch):
            way = rng.ways[row]
            if len(way) < len(script):
                raise ValueError("a branch ended before its script did: the code did not repeat itself")
            waiting.extend((key, sibling) for sibling in siblings(way, len(script)))
            yield key, outcomes[row], rng.weights[row]


def siblings(way: Sequence[tuple[int, int]], known: int) -> Iterator[Script]:
    """Yields the scripts of the branches that leave a way behind its first `known` decisions."""
    taken = tuple(choice for choice, _ in way)
    for place in range(known, len(way)):
        for other in range(1, way[place][1]):
            yield (*taken[:place], other)
