"""Figures of bytes: what two models take in memory, and why reading weights takes longer than computing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minispec.evidence.bench.measurements import MemoryPart
from minispec.evidence.theory.formulas import ForwardCost, Hardware
from minispec.show.plots import charts
from minispec.show.plots.style import DRAFTER, TARGET, Picture, sentence, sheet

MODELS = {"target": TARGET, "draft": DRAFTER}


def memory_bars(parts: Sequence[MemoryPart]) -> Picture:
    """Draws what weights and caches of both models take.

    Args:
        parts: weights and cache of the `target` and of the `draft`.
    """
    sizes = {(part.model, part.what): part.bytes for part in parts}
    totals = {model: sizes[model, "weights"] + sizes[model, "cache"] for model in MODELS}
    figure = sheet(10, 4.6)
    axes = charts.prepare(figure.add_subplot(), "megabytes", grid="x")
    for y, (model, look) in enumerate(MODELS.items()):
        weights, cache = sizes[model, "weights"] / 1e6, sizes[model, "cache"] / 1e6
        axes.barh(y, weights, 0.6, color=look.colour, edgecolor="black", hatch=look.hatch)
        axes.barh(y, cache, 0.6, weights, color="white", edgecolor="black", hatch="..")
        text = f"weights {charts.size(weights * 1e6)}\ncache {charts.size(cache * 1e6)}"
        charts.note(axes, text, (weights + cache, y), (10, 0), va="center")
    axes.set_yticks(range(len(MODELS)), list(MODELS))
    axes.set_ylim(1.5, -0.5)
    axes.set_xlim(0, max(totals.values()) / 1e6 * 1.45)
    text = (
        f"the draft's weights and cache add {totals['draft'] / totals['target']:.1%} to what the target takes"
    )
    return Picture(
        "memory",
        figure,
        f"Two bars of megabytes, weights and cache of the target and of the draft; {text}.",
        sentence(f"{text}: {charts.size(totals['draft'])} beside {charts.size(totals['target'])}"),
        "\n".join(f"{part.model}, {part.what}: {charts.size(part.bytes)}" for part in parts),
    )


def bytes_against_arithmetic(
    costs: Sequence[ForwardCost], hardware: Hardware, model: str = "a model"
) -> Picture:
    """Draws how long a forward takes to read its weights, and how long to compute, by number of new tokens.

    Args:
        costs: of one model, for several numbers of new tokens.
        hardware: what they were computed for.
        model: what the model is called.
    """
    figure = sheet(10, 1.6 * len(costs) + 2.4)
    axes = charts.prepare(figure.add_subplot(), "milliseconds", grid="x")
    for side, word, look, times in (
        (-0.2, "reading the weights", TARGET, [cost.moving for cost in costs]),
        (0.2, "computing", DRAFTER, [cost.computing for cost in costs]),
    ):
        rows = [row + side for row in range(len(costs))]
        bar: dict[str, Any] = {"color": look.colour, "edgecolor": "black", "hatch": look.hatch}
        axes.barh(rows, [value * 1e3 for value in times], 0.36, label=word, **bar)
        for row, value in zip(rows, times, strict=True):
            charts.note(axes, charts.seconds(value), (value * 1e3, row), (10, 0), va="center")
    labels = [f"{cost.tokens} new token{'s' * (cost.tokens > 1)}" for cost in costs]
    axes.set_yticks(range(len(costs)), labels)
    axes.invert_yaxis()
    axes.set_xlim(0, max(max(cost.moving, cost.computing) for cost in costs) * 1e3 * 1.25)
    charts.keys(axes, 2)
    first = costs[0]
    text = (
        f"on {hardware.name}, for {labels[0]}, reading the weights of {model} takes "
        f"{charts.seconds(first.moving)}, {first.moving / first.computing:.0f} times as long as computing"
    )
    alt = f"Pairs of bars, the time to read the weights and the time to compute: {text}."
    twin = [
        f"{cost.tokens} new: reading {charts.size(cost.bytes)} {charts.seconds(cost.moving)}, "
        f"computing {charts.size(cost.operations, 'flop')} {charts.seconds(cost.computing)}"
        for cost in costs
    ]
    return Picture("bytes-against-arithmetic", figure, alt, sentence(text), "\n".join(twin))
