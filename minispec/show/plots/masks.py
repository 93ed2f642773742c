"""What each token of a forward sees: queries of a verification, and trees of candidates.

The target reads the pending token and K drafted ones in one forward: K+1 queries. Each sees all cached keys,
the new keys before it, and its own. The output of a query is the distribution of the *next* token. So the
output of the pending token judges the first drafted token, and that of the last drafted one gives the bonus.
"""

from collections.abc import Mapping, Sequence

import torch

from minispec.core.model import Tree
from minispec.show.plots import charts
from minispec.show.plots.board import MARGIN, Board, Cell, Line, tile, tiled, twin_of, widest, worded
from minispec.show.plots.style import Picture, aligned
from minispec.show.signs import SIGNS, STATES
from minispec.show.text import count, shown

SMALL = 0.44  # of a tree: a tile
LINE = 0.56  # of a tree: a line
GAP = 0.6  # between depths
PENDING = STATES["pending"]
DRAFTED = STATES["drafted"]
CACHED, NEW, HIDDEN = SIGNS["masks"].values()


def mask_rows(cached: int, k: int) -> list[list[bool]]:
    """Returns the causal mask of a verification: for each query, which keys it sees.

    There are K + 1 rows, first that of the pending token, each over cached + K + 1 keys, cached ones first.
    """
    return [[key <= cached + query for key in range(cached + k + 1)] for query in range(k + 1)]


def attention_mask(cached: int, k: int, words: Sequence[str]) -> Picture:
    """Draws the mask of a verification of K drafted tokens, with what each row's output is for.

    Of more than 5 cached keys the middle ones are left out. `words` are the texts of the pending token and
    the drafted ones.
    """
    names = list(map(shown, words))
    outputs = [f"judges {name}" for name in names[1:]] + ["gives the bonus"]
    keys: list[int | None] = list(range(cached + k + 1))
    if cached > 5:
        keys[2 : cached - 2] = [None]
    texts = [*map(str, range(cached)), *names]
    heads = ["…" if key is None else texts[key] for key in keys]
    lines = []
    for row, name, output in zip(mask_rows(cached, k), names, outputs, strict=True):
        cells = [
            Cell("…") if key is None else tile(HIDDEN if not row[key] else CACHED if key < cached else NEW)
            for key in keys
        ]
        lines.append(Line(name, cells, output))
    gives = "1 distribution" if k == 0 else f"{k + 1} distributions, one per row"
    figure = tiled(lines, heads=heads, key=[CACHED, NEW, HIDDEN] if cached else [NEW, HIDDEN])
    return worded(
        "mask",
        figure,
        twin_of(lines, heads),
        rows=len(lines),
        keys=cached + k + 1,
        cached=cached,
        drafted=count(k, "drafted token"),
        gives=gives,
    )


def tree_mask(parents: Sequence[int], words: Sequence[str], first: int = 0) -> Picture:
    """Draws a tree, a line a token and a column a position, beside the mask that it is read with.

    The parents are those of one row of a `Draft`, `words` the texts of the pending token and of those in the
    tree, and `first` is the pending token's position in the text.
    """
    tree = Tree.after(torch.tensor([first]), torch.tensor([list(parents)]))
    positions = tree.positions[0].tolist()
    names = [f"{i} {shown(word)}" for i, word in enumerate(words)]
    wide = widest(names) + 0.2
    top = -wide
    places = [(MARGIN + (wide + GAP) * (at - first), top - LINE * i) for i, at in enumerate(positions, 1)]
    mask_left = places[-1][0] + wide + GAP  # of the mask
    page = Board(mask_left + LINE * len(names) + MARGIN)
    for position, (x, _) in dict(zip(positions, places, strict=True)).items():
        page.write(x, top + 0.2, f"position {first}" if position == first else str(position))
    twin = [["sees", "position", "token"]]
    for i, ((x, y), name, visible_keys) in enumerate(zip(places, names, tree.mask[0].tolist(), strict=True)):
        state = DRAFTED if i else PENDING
        if i:
            parent = places[parents[i - 1]][1]
            page.axes.plot([x - GAP, x], [parent + SMALL / 2, y + SMALL / 2], "k-")
        page.tile((x, y), (wide, SMALL), state, name)
        page.write(mask_left + LINE * i + SMALL / 2, top, name, rotation=90, ha="center", va="bottom")
        row = [NEW if visible else HIDDEN for visible in visible_keys]
        for j, look in enumerate(row):
            page.tile((mask_left + LINE * j, y), (SMALL, SMALL), look, look.glyph)
        signs = "".join(look.glyph or "-" for look in row)
        twin.append([signs, str(positions[i]), f"{'  ' * (positions[i] - first)}{state.glyph} {name}"])
    figure = page.end(places[-1][1] - 0.1, [PENDING, DRAFTED, NEW, HIDDEN])
    return worded(
        "tree-mask",
        figure,
        aligned(twin),
        drafted=len(parents),
        tokens=len(names),
        first=first,
        last=positions[-1],
    )


def tree_shapes(shapes: Mapping[str, Sequence[int]]) -> Picture:
    """Draws trees side by side, a column a depth: of each, under its name, the parents as in a `Draft`."""
    figure, panels = charts.panels(len(shapes), len(shapes), 12, 5, sharey=True)
    deepest = []
    for axes, (name, parents) in zip(panels, shapes.items(), strict=True):
        depths = Tree.after(torch.tensor([0]), torch.tensor([list(parents)])).positions[0].tolist()
        places = [(depth, -depths[:i].count(depth)) for i, depth in enumerate(depths)]
        for i, parent in enumerate(parents, 1):
            axes.plot(*zip(places[parent], places[i], strict=True), "k-", zorder=1)
        for state, points in ((PENDING, places[:1]), (DRAFTED, places[1:])):
            axes.plot(*zip(*points, strict=True), clip_on=False, **charts.dots(state, 16))
        charts.prepare(axes, "depth", grid="", title=name, loc="center")
        axes.set(xticks=range(depths[-1] + 1), yticks=[])
        axes.spines["left"].set_visible(False)
        deepest.append(depths[-1])
    twin = [f"{name}: parents {' '.join(map(str, parents))}" for name, parents in shapes.items()]
    depths_text = ", or ".join(f"{depth} deep" for depth in deepest)
    return worded(
        "tree-shapes", figure, twin, names=" and ".join(shapes), deepest=depths_text, drafted=len(parents)
    )
