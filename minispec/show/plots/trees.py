"""Trees of candidates: what each token of one sees, and the shapes of several."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from minispec.core.model import Tree
from minispec.show.plots import charts
from minispec.show.plots.board import MARGIN, Board, shown, widest, worded
from minispec.show.plots.mask import HIDDEN, NEW
from minispec.show.plots.style import TEXT, Picture, aligned, sheet
from minispec.show.signs import STATES

SIDE, LINE, GAP = 0.44, 0.56, 0.6  # inches: a tile, a line, between depths
PENDING, DRAFTED = STATES["pending"], STATES["drafted"]


def tree_mask(parents: Sequence[int], words: Sequence[str], first: int = 0) -> Picture:
    """Draws a tree, a line a token and a column a position, beside the mask that it is read with.

    The parents are those of one row of a `Draft`, `words` the texts of the pending token and of those in the
    tree, and `first` is the pending token's position in the text.
    """
    (at,), (mask,) = Tree.after(torch.tensor([first]), torch.tensor([list(parents)]))
    names, depths = [f"{i} {shown(word)}" for i, word in enumerate(words)], (at - first).tolist()
    wide = widest(names) + 0.2
    xs, top = [MARGIN + (wide + GAP) * depth for depth in depths], -wide
    ys = [top - LINE * (i + 1) for i in range(len(names))]
    left = xs[-1] + wide + GAP  # of the mask
    page, twin = Board(left + LINE * len(names) + MARGIN), [["sees", "position", "token"]]
    for depth, x in dict(zip(depths, xs, strict=True)).items():
        page.write(x, top + 0.2, f"{'' if depth else 'position '}{first + depth}")
    for i, (x, y, name, sees) in enumerate(zip(xs, ys, names, mask.tolist(), strict=True)):
        own = DRAFTED if i else PENDING
        if i:
            page.axes.plot([x - GAP, x], [ys[parents[i - 1]] + SIDE / 2, y + SIDE / 2], "k-")
        page.tile((x, y), (wide, SIDE), own, name)
        page.write(left + LINE * i + SIDE / 2, top, name, rotation=90, ha="center", va="bottom")
        row = [NEW if seen else HIDDEN for seen in sees]
        for j, state in enumerate(row):
            page.tile((left + LINE * j, y), (SIDE, SIDE), state, state.glyph)
        signs = "".join(state.glyph or "-" for state in row)
        twin.append([signs, f"{first + depths[i]}", f"{'  ' * depths[i]}{own.glyph} {name}"])
    figure = page.end(ys[-1] - 0.1, [PENDING, DRAFTED, NEW, HIDDEN])
    values = {"drafted": len(parents), "tokens": len(names), "first": first, "last": int(at[-1])}
    return worded("tree-mask", figure, aligned(twin), **values)


def tree_shapes(shapes: Mapping[str, Sequence[int]]) -> Picture:
    """Draws trees side by side, a column a depth: of each, under its name, the parents as in a `Draft`."""
    figure, deep = sheet(12, 5), []
    panels = figure.subplots(1, len(shapes), sharey=True, squeeze=False)[0]
    for axes, (name, parents) in zip(panels, shapes.items(), strict=True):
        depths = Tree.after(torch.tensor([0]), torch.tensor([list(parents)])).positions[0].tolist()
        places = [(depth, -depths[:i].count(depth)) for i, depth in enumerate(depths)]
        for i, parent in enumerate(parents, 1):
            axes.plot(*zip(places[parent], places[i], strict=True), "k-", zorder=1)
        for state, some in ((PENDING, places[:1]), (DRAFTED, places[1:])):
            look: dict[str, Any] = {"ms": 16, "mfc": state.colour, "mec": "black", "clip_on": False}
            axes.plot(*zip(*some, strict=True), state.marker, **look)
        charts.prepare(axes, "depth", grid="").set_title(name, fontsize=TEXT)
        axes.set(xticks=range(depths[-1] + 1), yticks=[])
        axes.spines["left"].set_visible(False)
        deep.append(depths[-1])
    twin = "\n".join(f"{name}: parents {' '.join(map(str, parents))}" for name, parents in shapes.items())
    names, said = " and ".join(shapes), ", or ".join(f"{depth} deep" for depth in deep)
    return worded("tree-shapes", figure, twin, names=names, deep=said, drafted=len(parents))
