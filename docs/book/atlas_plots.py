"""The figure of the atlas: what rules accept against the damage that they do, and the optimum as a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes

from minispec.show.plots import charts
from minispec.show.plots.board import titled
from minispec.show.plots.style import Picture, aligned, sheet
from minispec.show.signs import DRAFTER, TARGET

Found = Mapping[str, Any]
CANDIDATES = 3  # of the lower part
LABEL = {"coupled": (14, -24), "lenient": (-40, -32), "typical": (14, -14)}  # where, in points, by name


def atlas_figure(rules: Sequence[Found]) -> Picture:
    """Draws rules for one candidate against their damage, and below those for several beside their optimum.

    Args:
        rules: as `minispec atlas --json` has them.
    """
    figure = sheet(13, 14)
    upper, lower = figure.subplots(2, 1, height_ratios=(8, 5))
    alone = [one for one in rules if one["candidates"] == 1 and one["name"] != "block"]
    several = [one for one in rules if one["candidates"] == CANDIDATES]
    several.sort(key=accepted)
    against_damage(upper, alone)
    beside_optimum(lower, several)
    token = next(one for one in rules if one["name"] == "token")
    most = max(alone, key=accepted)
    best = several[-1]
    title = (
        f"One candidate: at most {token['optimum']:.3f} without damage. Of {CANDIDATES}: "
        f"{accepted(best):.3f} by the best rule"
    )
    text = (
        f"Of one candidate token verification accepts {accepted(token):.3f}, the optimum; {most['name']} "
        f"accepts {accepted(most):.3f} with a damage of {most['total_variation']:.3f}; of {CANDIDATES} "
        f"candidates {best['name']} accepts {accepted(best):.3f} and loses nothing."
    )
    alt = (
        f"Above, accepted tokens against damage, with the optimum as a line; below, bars of accepted. {text}"
    )
    rows = [
        (
            one["name"],
            str(one["candidates"]),
            f"{damage(one):.3f}" if damage(one) else "0",
            f"{accepted(one):.3f}",
            f"{one['optimum']:.3f}",
        )
        for one in (*alone, *several)
    ]
    head = ("rule", "candidates", "damage", "accepted", "optimum")
    return titled("atlas", figure, title, alt, text, aligned([head, *rows]))


def accepted(one: Found) -> float:
    """Returns the probability that a rule accepts a candidate."""
    return float(one["accepted"])


def damage(one: Found) -> float:
    """Returns the total variation of a rule, 0 of a lossless one."""
    return 0.0 if one["lossless"] else float(one["total_variation"])


def against_damage(axes: Axes, rules: Sequence[Found]) -> None:
    """Draws rules as points, and the most that any rule with a damage can accept."""
    charts.prepare(axes, "damage: total variation from p", "accepted")
    best = rules[0]["optimum"]
    axes.plot([0, 1 - best], [best, 1], color="black", linewidth=2, label="optimum, one candidate")
    for lossless, look, word in ((True, TARGET, "lossless"), (False, DRAFTER, "lossy")):
        spots = {one["name"]: (damage(one), accepted(one)) for one in rules if one["lossless"] is lossless}
        how: dict[str, Any] = {"color": look.colour, "markeredgecolor": "black", "markersize": 14}
        axes.plot(*zip(*spots.values(), strict=True), look.marker, label=word, clip_on=False, zorder=3, **how)
        for name, spot in spots.items():
            if "mixture" in name:  # they lie on the line: their labels stand above it, all others below
                charts.note(axes, name, spot, (-10, 12), ha="right")
            else:
                charts.note(axes, name, spot, LABEL.get(name, (14, -8)))
    axes.set(xlim=(0, 1 - best), ylim=(0.15, 1))  # so that no two numbers meet in the corner
    charts.keys(axes, 3)


def beside_optimum(axes: Axes, rules: Sequence[Found]) -> None:
    """Draws rules as bars, each with the most that candidates which are drawn so allow."""
    charts.prepare(axes, f"accepted, {CANDIDATES} candidates", grid="x")
    look: dict[str, Any] = {"color": TARGET.colour, "edgecolor": "black"}
    axes.barh(range(len(rules)), [accepted(one) for one in rules], 0.6, label="accepted", **look)
    for place, one in enumerate(rules):
        word = "" if place else "optimum of candidates that are drawn so"
        axes.vlines(one["optimum"], place - 0.42, place + 0.42, color="black", linewidth=4, label=word)
        charts.note(axes, f"{accepted(one):.3f}", (one["optimum"], place), (12, -6))
    axes.set_yticks(range(len(rules)), [one["name"] for one in rules])
    axes.set_xlim(0, 1.05)
    charts.keys(axes, 2)
