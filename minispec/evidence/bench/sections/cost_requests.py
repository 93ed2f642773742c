"""What costs a prediction asks for, and their measurement, several times over.

A machine that others use as well has slow moments, and one of them would spoil whatever it falls on. So
everything is measured once, then everything again, and the median counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import cycle, islice

from minispec.core.model import GPT
from minispec.drafters.costs import Costs
from minispec.evidence.bench.costs import ALL, PARTS, measure_costs, middle
from minispec.evidence.bench.machine import using_threads
from minispec.evidence.bench.sections.section import Bench, Found
from minispec.native.backend import BACKENDS

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


def is_plain(asked: Asked) -> bool:
    """Whether a setting is the pair itself, one text at a time."""
    return asked.draft is None and asked.rows == 1 and asked.tokens == ALL


def written(asked: Asked, costs: Costs) -> Found:
    """Returns costs of speculative decoding as they stand in a report."""
    return {"verifier": asked.verifier, "hot": asked.hot} | asdict(costs)


def known(bench: Bench, verifier: str, hot: bool) -> Costs:
    """Returns the costs that a prediction was made from; where there is none they are measured.

    Args:
        bench: what earlier sections have found.
        verifier: `greedy` or `rejection`.
        hot: whether the temperature is above 0.
    """
    for row in bench.found.get("prediction", {}).get("costs", []):
        if (row["verifier"], row["hot"]) == (verifier, hot):
            parts = {name: row[name] for name in PARTS}
            # JSON writes the numbers of tokens as text.
            return Costs(t_target={int(n): t for n, t in row["t_target"].items()}, **parts)
    asked = Asked(verifier, hot)
    return measure_all(bench, [asked])[asked][1]


def _measure(bench: Bench, asked: Asked) -> list[Costs]:
    """Measures once: one place if both sides are fastest there, else two."""
    places = [bench.found["target-only"][side] for side in ("baseline", "speculative")]
    prompts, found = list(islice(cycle(bench.prompts.learning), asked.rows)), []
    for place in places if places[0] != places[1] else places[:1]:
        models, backend = bench.models(place["path"], asked.draft), BACKENDS[place["path"]]
        with using_threads(place["threads"]):
            found.append(
                measure_costs(
                    models.target,
                    models.draft,
                    prompts,
                    warp=backend.warp(float(asked.hot)),
                    verifier=backend.rules[asked.verifier],
                    backend=backend,
                    tokens=asked.tokens,
                    new_tokens=min(SHORT, bench.plan.new_tokens),
                    repeats=max(bench.plan.latencies // PASSES, 2),
                )
            )
    return found
