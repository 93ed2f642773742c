"""What each token of a forward sees: queries of a verification, and trees of candidates.

The target reads the pending token and K drafted ones in one pass: K+1 queries. Each sees all cached keys, the
new keys before it, and its own. The output of a query is the distribution of the *next* token. So the pending
token's output judges the first drafted token, and the last drafted token's output gives the bonus.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from minispec.core.model import Tree
from minispec.show.plots import charts
from minispec.show.plots.board import MARGIN, Board, text_width, widest, worded
from minispec.show.plots.style import TEXT, Picture, aligned, sheet
from minispec.show.signs import STATES, State
from minispec.show.text import count, shown

SIDE = 0.5  # of a tile, in inches
SMALL, LINE, GAP = 0.44, 0.56, 0.6  # of a tree: a tile, a line, between depths
PENDING, DRAFTED = STATES["pending"], STATES["drafted"]
CACHED = State(STATES["committed"].colour, "▪", word="sees a cached key")
NEW = State(STATES["drafted"].colour, "●", word="sees a new key")
HIDDEN = State("#FFFFFF", "", word="does not see it")


def mask_rows(cached: int, k: int) -> list[list[bool]]:
    """Returns the causal mask of a verification: for each query, which keys it sees.

    There are K + 1 rows, first that of the pending token, each over cached + K + 1 keys, cached ones first.
    """
    return [[key <= cached + query for key in range(cached + k + 1)] for query in range(k + 1)]


def attention_mask(cached: int, k: int, words: Sequence[str] | None = None) -> Picture:
    """Draws the mask of a verification of K drafted tokens, with what each row's output is for.

    Of more than 5 cached keys the middle ones are left out. `words` are the texts of the pending token and
    the drafted ones; by default their names.
    """
    names = list(map(shown, words)) if words else ["pending", *(f"draft {i}" for i in range(1, k + 1))]
    outputs = [f"judges {name}" for name in names[1:]] + ["gives the bonus"]
    old: list[int | None] = list(range(cached)) if cached <= 5 else [0, 1, None, cached - 2, cached - 1]
    keys = [*old, *range(cached, cached + k + 1)]
    heads = [*("…" if key is None else str(key) for key in old), *names]
    gap, titles = (0.15, "cached keys") if cached else (0.0, "")
    left, top = MARGIN + widest(names) + 0.15, -0.65 - widest(heads) - 0.15
    right = left + SIDE * len(keys) + gap
    page = Board(max(right + 0.15 + widest(outputs) + MARGIN, 9.0))
    page.write(left, -0.35, titles, weight="bold")
    xs = [left + SIDE * i + gap * (i >= len(old)) for i in range(len(keys))]
    new = max(xs[len(old)], left + text_width(titles, weight="bold") + 0.3 * bool(cached))
    page.write(new, -0.35, "new keys", weight="bold")
    for x, head in zip(xs, heads, strict=True):
        page.write(x + SIDE / 2, top + 0.1, head, rotation=90, ha="center", va="bottom")
    wide = max(map(len, heads))
    twin = [" ".join(f"{head:>{wide}}" for head in ["", *heads])]
    for query, (row, name, output) in enumerate(zip(mask_rows(cached, k), names, outputs, strict=True), 1):
        y, signs = top - SIDE * query, [name]
        page.write(left - 0.15, y + SIDE / 2, name, ha="right")
        page.write(right + 0.15, y + SIDE / 2, output)
        for x, key in zip(xs, keys, strict=True):
            if key is None:
                page.write(x + SIDE / 2, y + SIDE / 2, "…", ha="center")
                signs.append("…")
            else:
                state = HIDDEN if not row[key] else CACHED if key < cached else NEW
                page.tile((x, y), (SIDE, SIDE), state, state.glyph)
                signs.append(state.glyph or "-")
        twin.append(" ".join(f"{sign:>{wide}}" for sign in signs) + f"  {output}")
    figure = page.end(y - 0.15, [CACHED, NEW, HIDDEN] if cached else [NEW, HIDDEN])
    values = {"rows": k + 1, "keys": cached + k + 1, "cached": cached}
    drafted = count(k, "drafted token")
    gives = "1 distribution" if k == 0 else f"{k + 1} distributions, one per row"
    return worded("mask", figure, "\n".join(twin), drafted=drafted, gives=gives, **values)


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
            page.axes.plot([x - GAP, x], [ys[parents[i - 1]] + SMALL / 2, y + SMALL / 2], "k-")
        page.tile((x, y), (wide, SMALL), own, name)
        page.write(left + LINE * i + SMALL / 2, top, name, rotation=90, ha="center", va="bottom")
        row = [NEW if seen else HIDDEN for seen in sees]
        for j, state in enumerate(row):
            page.tile((left + LINE * j, y), (SMALL, SMALL), state, state.glyph)
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
