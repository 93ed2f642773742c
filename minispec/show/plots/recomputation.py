"""How often a position is computed: a row per step of decoding, a column per position of the text."""

from collections.abc import Sequence

from matplotlib.patches import Patch

from minispec.show.plots import charts
from minispec.show.plots.board import worded
from minispec.show.plots.style import TEXT, Picture, sheet
from minispec.show.signs import GUESS, STATES, TARGET

KEPT, COMPUTED = STATES["prompt"].colour, TARGET.colour
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
    figure, twin = sheet(12, 6.2), []
    sides = {"without a cache": without, "with a cache": cached}
    for axes, (name, steps) in zip(figure.subplots(1, 2), sides.items(), strict=True):
        title, end = f"{name}: {positions(steps)} positions", max(map(sum, steps))
        charts.prepare(axes, "position in the text", "step", grid="").set_title(title, fontsize=TEXT)
        for n, (kept, computed) in enumerate(steps, 1):
            colours = [KEPT] * kept + [COMPUTED] * computed
            axes.bar(range(1, len(colours) + 1), 0.9, 0.9, n - 0.45, color=colours)
        axes.set(xlim=(0.5, end + 0.5), ylim=(len(steps) + 0.5, 0.5), xticks=[1, end], yticks=[1, len(steps)])
        twin.append(f"{title} (# computed in this step, . from the cache)")
        twin += [f"  {n:3} {'.' * kept}{'#' * computed}" for n, (kept, computed) in enumerate(steps, 1)]
    looks = {"from the cache": KEPT, "computed in this step": COMPUTED}
    patches = [Patch(facecolor=look, edgecolor="black", label=label) for label, look in looks.items()]
    if guess is not None:
        patches.append(Patch(facecolor=GUESS.colour, label=f"{GUESS.glyph} {GUESS.word}: {guess:g}"))
    charts.keys_below(figure, patches, columns=3)
    values = {"without": positions(without), "cached": positions(cached), "steps": len(without)}
    saved = values["without"] - values["cached"]
    return worded("recomputation", figure, "\n".join(twin), saved=saved, **values)
