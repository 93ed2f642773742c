"""Figures of bytes: what two models take in memory, and why reading weights takes longer than computing."""

from collections.abc import Sequence
from typing import Any

from minispec.evidence.bench.measurements import MemoryPart
from minispec.evidence.theory.formulas import ForwardCost, Hardware
from minispec.show.plots import charts
from minispec.show.plots.board import worded
from minispec.show.plots.style import Picture
from minispec.show.signs import DRAFTER, TARGET, State

MODELS = {"target": TARGET, "draft": DRAFTER}
WORKS = {
    "moving": State(TARGET.colour, word="reading the weights"),
    "computing": State("#FFFFFF", hatch="..", word="computing"),
}


def memory_bars(parts: Sequence[MemoryPart]) -> Picture:
    """Draws what weights and caches of the `target` and the `draft` take."""
    sizes = {(part.model, part.what): part.bytes for part in parts}
    totals = {model: sizes[model, "weights"] + sizes[model, "cache"] for model in MODELS}
    figure, axes = charts.chart(10, 4.6, "megabytes", grid="x")
    for y, (model, look) in enumerate(MODELS.items()):
        weights, cache = sizes[model, "weights"], sizes[model, "cache"]
        axes.barh(model, weights / 1e6, 0.6, **charts.area(look))
        axes.barh(model, cache / 1e6, 0.6, weights / 1e6, **charts.area(WORKS["computing"]))
        text = f"weights {charts.size(weights)}\ncache {charts.size(cache)}"
        charts.note(axes, text, (totals[model] / 1e6, y), (10, 0), va="center")
    axes.set_ylim(1.5, -0.5)
    axes.set_xlim(0, max(totals.values()) / 1e6 * 1.45)
    values: dict[str, Any] = {model: charts.size(total) for model, total in totals.items()}
    twin = "\n".join(f"{part.model}, {part.what}: {charts.size(part.bytes)}" for part in parts)
    return worded("memory", figure, twin, share=totals["draft"] / totals["target"], **values)


def bytes_against_arithmetic(
    costs: Sequence[ForwardCost], hardware: Hardware, model: str = "a model"
) -> Picture:
    """Draws how long a forward takes to read its weights, and how long to compute, by number of positions.

    Both begin at once and go on side by side, so a forward ends with the longer of its two bars. The costs
    are of one model, for several numbers of new tokens, the smallest first.
    """
    name = "milliseconds: both begin together, the longer decides"
    figure, axes = charts.chart(10, 1.7 * len(costs) + 2.9, name, grid="x")
    for side, (work, look) in zip((-0.2, 0.2), WORKS.items(), strict=True):
        rows, times = [row + side for row in range(len(costs))], [getattr(cost, work) for cost in costs]
        axes.barh(rows, [1e3 * t for t in times], 0.36, label=look.word, **charts.area(look))
        for row, value in zip(rows, times, strict=True):
            charts.note(axes, charts.seconds(value), (value * 1e3, row), (10, 0), va="center")
    ends = [cost.seconds * 1e3 for cost in costs]
    low, high = ([row + side for row in range(len(costs))] for side in (-0.46, 0.46))
    axes.vlines(ends, low, high, "black", linewidth=4, label="the forward ends")
    labels = [f"{cost.tokens} position{'s' * (cost.tokens > 1)}" for cost in costs]
    axes.set_yticks(range(len(costs)), labels)
    axes.invert_yaxis()
    axes.set_xlim(0, max(ends) * 1.25)
    charts.keys(axes, 2)
    first = costs[0]
    text = (
        f"{hardware.name}, for {labels[0]}, reading the weights of {model} takes "
        f"{charts.seconds(first.moving)}, {first.moving / first.computing:.0f} times as long as computing"
    )
    twin = [
        f"{label}: reading {charts.size(cost.bytes)} {charts.seconds(cost.moving)}, computing "
        f"{charts.size(cost.operations, 'flop')} {charts.seconds(cost.computing)}, both at once "
        f"{charts.seconds(cost.seconds)}"
        for label, cost in zip(labels, costs, strict=True)
    ]
    limit = first.tokens * first.moving / first.computing
    cheap = [cost.tokens for cost in costs[1:] if cost.tokens < 0.99 * limit]
    values = {"text": text, "limit": limit, "one": first.tokens, "cheap": max(cheap, default=0)}
    case = "cheap" if cheap else ""
    return worded("bytes-against-arithmetic", figure, "\n".join(twin), case, **values)
