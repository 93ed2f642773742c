"""What costs a prediction asks for, and their measurement, several times over.

A machine that others use as well has slow moments, and one of them would spoil whatever it falls on. So
everything is measured once, then everything again, and the median counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import cycle, islice

from minispec.decoding.costs import Costs
from minispec.decoding.kit import KITS
from minispec.evidence.machine import using_threads
from minispec.evidence.measure_costs import ALL, measure_costs, middle
from minispec.evidence.sections.section import Bench
from minispec.lm.model import GPT

PASSES = 5  # over all that is asked for; the median needs an odd number of them
SHORT = 64  # tokens of the short runs


@dataclass(frozen=True)
class Asked:
    """A setting whose costs are wanted.

    Attributes:
        verifier: `greedy` or `rejection`.
        hot: whether the temperature is above 0; how far above does not change what anything costs.
        draft: another draft than the pair's.
        rows: of the batch.
        tokens: values of n for t(n).
    """

    verifier: str
    hot: bool
    draft: GPT | None = None
    rows: int = 1
    tokens: tuple[int, ...] = ALL


def measure_all(bench: Bench, asked: Iterable[Asked]) -> dict[Asked, tuple[Costs, Costs]]:
    """Measures costs: of the target alone where it is fastest, of speculative decoding where that is.

    Args:
        bench: where the fastest places are found.
        asked: what for; what is asked twice is measured once.
    """
    found: dict[Asked, list[list[Costs]]] = {one: [] for one in asked}
    for turn in range(PASSES):
        for done, one in enumerate(found):
            bench.tell((turn + done / len(found)) / PASSES, "costs of the parts")
            found[one].append(_measure(bench, one))
    medians = {one: [middle(side) for side in zip(*turns, strict=True)] for one, turns in found.items()}
    return {one: (sides[0], sides[-1]) for one, sides in medians.items()}


def _measure(bench: Bench, asked: Asked) -> list[Costs]:
    """Measures once: one place if both sides are fastest there, else two."""
    places = [bench.found["target-only"][side] for side in ("baseline", "speculative")]
    prompts, found = list(islice(cycle(bench.prompts.learning), asked.rows)), []
    for place in places if places[0] != places[1] else places[:1]:
        models, kit = bench.models(place["path"], asked.draft), KITS[place["path"]]
        with using_threads(place["threads"]):
            found.append(
                measure_costs(
                    models.target,
                    models.draft,
                    prompts,
                    warp=kit.warp(float(asked.hot)),
                    verifier=kit.rules[asked.verifier],
                    kit=kit,
                    tokens=asked.tokens,
                    new_tokens=min(SHORT, bench.plan.new_tokens),
                    repeats=max(bench.plan.latencies // PASSES, 2),
                )
            )
    return found
