"""The figure of the atlas: what rules accept against the damage that they do, and the optimum as a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes

from minispec.show.plots import charts
from minispec.show.plots.board import titled
from minispec.show.plots.style import TEXT, Picture, aligned, sheet
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
    several = sorted(
        (one for one in rules if one["candidates"] == CANDIDATES), key=lambda one: float(one["accepted"])
    )
    against_damage(upper, alone)
    beside_optimum(lower, several)
    token = next(one for one in rules if one["name"] == "token")
    most = max(alone, key=lambda one: float(one["accepted"]))
    best = several[-1]
    title = (
        f"One candidate: at most {token['optimum']:.3f} without damage. Of {CANDIDATES}: "
        f"{best['accepted']:.3f} by the best rule"
    )
    text = (
        f"Of one candidate token verification accepts {token['accepted']:.3f}, the optimum; {most['name']} "
        f"accepts {most['accepted']:.3f} with a damage of {most['total_variation']:.3f}; of {CANDIDATES} "
        f"candidates {best['name']} accepts {best['accepted']:.3f} and loses nothing"
    )
    alt = (
        f"Above, accepted tokens against damage, with the optimum as a line; below, bars of accepted. {text}."
    )
    head = ("rule", "candidates", "damage", "accepted", "optimum")
    shown = [*alone, *several]
    return titled("atlas", figure, title, alt, f"{text}.", aligned([head, *map(cells, shown)]))


def cells(one: Found) -> tuple[str, ...]:
    """Returns a line of the figure in words."""
    damage = "0" if one["lossless"] else f"{one['total_variation']:.3f}"
    return one["name"], str(one["candidates"]), damage, f"{one['accepted']:.3f}", f"{one['optimum']:.3f}"


def against_damage(axes: Axes, rules: Sequence[Found]) -> None:
    """Draws rules as points, and the most that any rule with a damage can accept."""
    charts.prepare(axes, "damage: total variation from p", "accepted")
    best = rules[0]["optimum"]
    axes.plot([0, 1 - best], [best, 1], color="black", linewidth=2, label="optimum, one candidate")
    for lossless, look, word in ((True, TARGET, "lossless"), (False, DRAFTER, "lossy")):
        some = [one for one in rules if one["lossless"] is lossless]
        spots = [(0.0 if lossless else one["total_variation"], one["accepted"]) for one in some]
        how: dict[str, Any] = {"color": look.colour, "markeredgecolor": "black", "markersize": 14}
        axes.plot(*zip(*spots, strict=True), look.marker, label=word, clip_on=False, zorder=3, **how)
        for one, spot in zip(some, spots, strict=True):
            on_line = "mixture" in one["name"]  # their labels stand above it, all others below
            offset = (-10, 12) if on_line else LABEL.get(one["name"], (14, -8))
            charts.note(axes, one["name"], spot, offset, ha="right" if on_line else "left")
    axes.set_xlim(0, 1 - best)
    axes.set_ylim(0.15, 1)  # so that no two numbers meet in the corner
    charts.keys(axes, 3)


def beside_optimum(axes: Axes, rules: Sequence[Found]) -> None:
    """Draws rules as bars, each with the most that candidates which are drawn so allow."""
    charts.prepare(axes, f"accepted, {CANDIDATES} candidates", grid="x")
    look: dict[str, Any] = {"color": TARGET.colour, "edgecolor": "black"}
    axes.barh(range(len(rules)), [one["accepted"] for one in rules], 0.6, label="accepted", **look)
    for place, one in enumerate(rules):
        word = "" if place else "optimum of candidates that are drawn so"
        axes.plot([one["optimum"]] * 2, [place - 0.42, place + 0.42], color="black", linewidth=4, label=word)
        charts.note(axes, f"{one['accepted']:.3f}", (one["optimum"], place), (12, -6))
    axes.set_yticks(range(len(rules)), [one["name"] for one in rules], fontsize=TEXT)
    axes.set_xlim(0, 1.05)
    charts.keys(axes, 2)
