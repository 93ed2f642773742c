"""How often a position is computed: a row per step of decoding, a column per position of the text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch

from minispec.show.plots.picture import Picture
from minispec.show.plots.style import GUESS, SMALL, STATES, TARGET, TEXT, sheet

COLOURS = ("white", STATES["prompt"].colour, TARGET.colour)  # not there yet, kept, computed


@dataclass(frozen=True)
class Step:
    """One forward over a text.

    Attributes:
        kept: how many positions, from the first on, it found in a cache.
        computed: how many behind them it computed.
    """

    kept: int
    computed: int

    def __post_init__(self) -> None:
        if self.kept < 0 or self.computed < 1:
            raise ValueError(f"a step keeps 0 or more positions and computes at least 1, not {self}")


def steps_without_cache(prompt: int, new: int) -> list[Step]:
    """Returns the steps that make `new` tokens after a prompt, if each reads the whole text again."""
    return [Step(0, prompt + n) for n in range(new)]


def steps_with_cache(prompt: int, new: int) -> list[Step]:
    """Returns the same steps with a cache: the prompt once, then one token a step."""
    return [Step(0, prompt), *(Step(prompt + n, 1) for n in range(new - 1))]


def positions(steps: Sequence[Step]) -> int:
    """Returns how many positions were computed in all."""
    return sum(step.computed for step in steps)


def recomputation(without: Sequence[Step], cached: Sequence[Step], guess: float | None = None) -> Picture:
    """Draws what each step computes, without a cache and with one, side by side.

    Args:
        without: the steps without a cache, in order.
        cached: the same with one.
        guess: how many positions a reader expected without a cache, or None.

    Raises:
        ValueError: if one side has no step.
    """
    if not (without and cached):
        raise ValueError("there is nothing to draw: one side has no step")
    figure = sheet(12, 5.6)
    both = (("without a cache", without), ("with a cache", cached))
    for place, (title, steps) in enumerate(both, start=1):
        axes = figure.add_subplot(1, 2, place)
        _panel(axes, steps, f"{title}: {positions(steps)} positions")
    patches = [
        Patch(facecolor=colour, edgecolor="black", label=label)
        for colour, label in zip(COLOURS[1:], ("from the cache", "computed in this step"), strict=True)
    ]
    if guess is not None:
        patches.append(Patch(facecolor=GUESS.colour, label=f"{GUESS.glyph} {GUESS.word}: {guess:g}"))
    figure.legend(handles=patches, loc="outside lower center", ncols=3, fontsize=SMALL, frameon=False)
    return Picture("recomputation", figure, _alt(without, cached), _caption(without, cached), _twin(both))


def _panel(axes: Axes, steps: Sequence[Step], title: str) -> None:
    end = max(step.kept + step.computed for step in steps)
    grid = np.zeros((len(steps), end))
    for row, step in enumerate(steps):
        grid[row, : step.kept] = 1
        grid[row, step.kept : step.kept + step.computed] = 2
    axes.pcolormesh(grid, cmap=ListedColormap(COLOURS), vmin=0, vmax=2, edgecolors="white", linewidth=0.8)
    axes.invert_yaxis()
    axes.set_title(title, fontsize=TEXT)
    axes.set_xlabel("position in the text", fontsize=TEXT)
    axes.set_ylabel("step", fontsize=TEXT)
    axes.tick_params(labelsize=SMALL)
    axes.set_xticks([0.5, end - 0.5], ["1", str(end)])
    axes.set_yticks([0.5, len(steps) - 0.5], ["1", str(len(steps))])


def _alt(without: Sequence[Step], cached: Sequence[Step]) -> str:
    return (
        f"Two grids, a row per step and a column per position, {len(without)} steps. Without a cache each "
        f"row is filled from the left, {positions(without)} cells in all. With a cache the first row reads "
        f"the prompt, and each row behind it one cell: {positions(cached)} in all."
    )


def _caption(without: Sequence[Step], cached: Sequence[Step]) -> str:
    return (
        f"To write {len(without)} tokens, a model without a cache computes {positions(without)} positions, "
        f"with one {positions(cached)}."
    )


def _twin(both: Sequence[tuple[str, Sequence[Step]]]) -> str:
    lines = []
    for title, steps in both:
        lines.append(f"{title}: {positions(steps)} positions (# computed in this step, . from the cache)")
        lines += [f"  {n:3} {'.' * step.kept}{'#' * step.computed}" for n, step in enumerate(steps, start=1)]
    return "\n".join(lines)
