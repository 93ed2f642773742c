"""Figures of bytes: what two models take in memory, and why reading weights takes longer than computing."""

from __future__ import annotations

from collections.abc import Sequence

from minispec.evidence.bench.measurements import MemoryPart
from minispec.evidence.theory.formulas import ForwardCost, Hardware
from minispec.show.plots import charts
from minispec.show.plots.picture import Picture
from minispec.show.plots.style import DRAFTER, GUESS, STATES, TARGET, TEXT, sheet

MODELS = {"target": TARGET, "draft": DRAFTER}
CACHE = STATES["drafted"]


def memory_bars(parts: Sequence[MemoryPart], guess: float | None = None) -> Picture:
    """Draws what weights and caches of both models take.

    Args:
        parts: weights and caches of `target` and `draft`.
        guess: the bytes that the reader thinks the draft takes, weights and cache together.

    Raises:
        ValueError: if a part is missing.
    """
    sizes = {(part.model, part.what): part.bytes for part in parts}
    if set(sizes) != {(model, what) for model in MODELS for what in ("weights", "cache")}:
        raise ValueError("give the weights and the cache of the target and of the draft")
    totals = {model: sizes[model, "weights"] + sizes[model, "cache"] for model in MODELS}
    figure = sheet(10, 4.6 if guess is None else 5.8)
    axes = charts.prepare(figure.add_subplot(), "megabytes", grid="x")
    for place, (model, look) in enumerate(MODELS.items()):
        weights, cache = sizes[model, "weights"] / 1e6, sizes[model, "cache"] / 1e6
        axes.barh(place, weights, 0.6, color=look.colour, edgecolor="black", hatch=look.hatch)
        axes.barh(place, cache, 0.6, weights, color="white", edgecolor="black", hatch="..")
        text = f"weights {charts.size(weights * 1e6)}\ncache {charts.size(cache * 1e6)}"
        axes.annotate(
            text, (weights + cache, place), (10, 0), textcoords="offset points", va="center", fontsize=TEXT
        )
    if guess is not None:
        charts.guess_at(axes, guess / 1e6, 2)
    rows = [*MODELS, *([f"{GUESS.word}:\ndraft"] if guess is not None else [])]
    axes.set_yticks(range(len(rows)), rows)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(0, max([*totals.values(), guess or 0]) / 1e6 * 1.45)
    more = totals["draft"] / totals["target"]
    text = f"the draft's weights and cache add {more:.1%} to what the target takes"
    return Picture(
        "memory",
        figure,
        f"Two bars of megabytes, weights and cache of the target and of the draft; {text}.",
        f"{text[0].upper()}{text[1:]}: {charts.size(totals['draft'])} beside "
        f"{charts.size(totals['target'])}.",
        "\n".join(f"{part.model}, {part.what}: {charts.size(part.bytes)}" for part in parts)
        + (f"\n{GUESS.word}: {charts.size(guess)}" if guess is not None else ""),
    )


def bytes_against_arithmetic(
    costs: Sequence[ForwardCost], hardware: Hardware, model: str = "a model", guess: float | None = None
) -> Picture:
    """Draws how long a forward takes to read its weights, and how long to compute, by number of new tokens.

    Args:
        costs: of one model, for several numbers of new tokens.
        hardware: what they were computed for.
        model: what the model is called.
        guess: how many times longer than computing the reader thinks that reading takes, for the first.

    Raises:
        ValueError: if there are no costs, or the guess is not above 0.
    """
    if not costs or (guess is not None and guess <= 0):
        raise ValueError("give at least one cost, and a guess above 0")
    figure = sheet(10, 1.6 * len(costs) + 2.4)
    axes = charts.prepare(figure.add_subplot(), "milliseconds", grid="x")
    looks = (("reading the weights", TARGET), ("computing", DRAFTER))
    longest = max(max(cost.moving, cost.computing) for cost in costs) * 1e3
    for row, cost in enumerate(costs):
        for side, ((word, look), value) in enumerate(zip(looks, (cost.moving, cost.computing), strict=True)):
            place = row + 0.4 * side - 0.2
            axes.barh(
                place,
                value * 1e3,
                0.36,
                color=look.colour,
                edgecolor="black",
                hatch=look.hatch,
                label=word if row == 0 else None,
            )
            label = charts.seconds(value)
            axes.annotate(
                label, (value * 1e3, place), (10, 0), textcoords="offset points", va="center", fontsize=TEXT
            )
    if guess is not None:
        charts.guess_at(axes, costs[0].moving / guess * 1e3, 0.2)
    axes.set_yticks(
        range(len(costs)), [f"{cost.tokens} new token{'s' * (cost.tokens > 1)}" for cost in costs]
    )
    axes.invert_yaxis()
    axes.set_xlim(0, longest * 1.25)
    charts.keys(axes, 2)
    first = costs[0]
    ratio = first.moving / first.computing
    text = (
        f"on {hardware.name}, for {first.tokens} new token{'s' * (first.tokens > 1)}, reading the "
        f"weights of {model} takes {charts.seconds(first.moving)}, {ratio:.0f} times as long as computing"
    )
    return Picture(
        "bytes-against-arithmetic",
        figure,
        f"Pairs of bars, the time to read the weights and the time to compute: {text}.",
        f"{text[0].upper()}{text[1:]}.",
        "\n".join(
            f"{cost.tokens} new: reading {charts.size(cost.bytes)} {charts.seconds(cost.moving)}, "
            f"computing {charts.size(cost.operations, 'flop')} {charts.seconds(cost.computing)}"
            for cost in costs
        )
        + (f"\n{GUESS.word}: {guess:g} times" if guess is not None else ""),
    )
