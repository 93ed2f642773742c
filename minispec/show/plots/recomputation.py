"""How often a position is computed: a row per step of decoding, a column per position of the text."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch

from minispec.show.plots.board import worded
from minispec.show.plots.style import GUESS, TARGET, TEXT, Picture, sheet
from minispec.show.signs import STATES

COLOURS = ("white", STATES["prompt"].colour, TARGET.colour)  # not there yet, kept, computed
Steps = Sequence[tuple[int, int]]  # per step: positions found in a cache, and positions computed after them


def steps_without_cache(prompt: int, new: int) -> list[tuple[int, int]]:
    """Returns (kept, computed) per step that makes `new` tokens after a prompt, if each reads all again."""
    return [(0, prompt + n) for n in range(new)]


def steps_with_cache(prompt: int, new: int) -> list[tuple[int, int]]:
    """Returns the same with a cache: the prompt once, then one token a step."""
    return [(0, prompt), *((prompt + n, 1) for n in range(new - 1))]


def positions(steps: Steps) -> int:
    """Returns how many positions were computed in all."""
    return sum(computed for _, computed in steps)


def recomputation(without: Steps, cached: Steps, guess: float | None = None) -> Picture:
    """Draws what each step computes, without a cache and with one, side by side.

    guess: how many positions a reader expected without a cache, or None.
    """
    figure = sheet(12, 6.2)
    twin = []
    sides = (("without a cache", without), ("with a cache", cached))
    for axes, (title, steps) in zip(figure.subplots(1, 2), sides, strict=True):
        _panel(axes, steps, f"{title}: {positions(steps)} positions")
        twin.append(f"{title}: {positions(steps)} positions (# computed in this step, . from the cache)")
        twin += [f"  {n:3} {'.' * kept}{'#' * computed}" for n, (kept, computed) in enumerate(steps, 1)]
    patches = [
        Patch(facecolor=colour, edgecolor="black", label=label)
        for colour, label in zip(COLOURS[1:], ("from the cache", "computed in this step"), strict=True)
    ]
    if guess is not None:
        patches.append(Patch(facecolor=GUESS.colour, label=f"{GUESS.glyph} {GUESS.word}: {guess:g}"))
    figure.legend(handles=patches, loc="outside lower center", ncols=3, fontsize=TEXT, frameon=False)
    values = {"without": positions(without), "cached": positions(cached), "steps": len(without)}
    values["saved"] = values["without"] - values["cached"]
    return worded("recomputation", figure, "\n".join(twin), values)


def _panel(axes: Axes, steps: Steps, title: str) -> None:
    end = max(map(sum, steps))
    grid = np.zeros((len(steps), end))
    for row, (kept, computed) in enumerate(steps):
        grid[row, :kept] = 1
        grid[row, kept : kept + computed] = 2
    axes.pcolormesh(grid, cmap=ListedColormap(COLOURS), vmin=0, vmax=2, edgecolors="white", linewidth=0.8)
    axes.invert_yaxis()
    axes.set_title(title, fontsize=TEXT)
    axes.set_xlabel("position in the text", fontsize=TEXT)
    axes.set_ylabel("step", fontsize=TEXT)
    axes.tick_params(labelsize=TEXT)
    axes.set_xticks([0.5, end - 0.5], ["1", str(end)])
    axes.set_yticks([0.5, len(steps) - 0.5], ["1", str(len(steps))])
