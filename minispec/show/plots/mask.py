"""What each query of a verification sees, and which token its output judges.

The target reads the pending token and K drafted ones in one pass: K+1 queries. Each sees all cached keys, the
new keys before it, and its own. The output of a query is the distribution of the *next* token. So the pending
token's output judges the first drafted token, and the last drafted token's output gives the bonus.
"""

from collections.abc import Sequence

from matplotlib.figure import Figure

from minispec.show.plots.board import Board, legend_height, shown, text_width, widest, worded
from minispec.show.plots.style import TEXT, Picture
from minispec.show.signs import STATES, State

MARGIN = 0.2  # inches, around the page
SIDE = 0.5  # of a tile
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
    rows = mask_rows(cached, k)
    names = list(map(shown, words)) if words else ["pending", *(f"draft {i}" for i in range(1, k + 1))]
    old: list[int | None] = list(range(cached)) if cached <= 5 else [0, 1, None, cached - 2, cached - 1]
    columns = old + list(range(cached, cached + k + 1))
    heads = ["…" if key is None else str(key) if key < cached else names[key - cached] for key in columns]
    outputs = [f"judges {name}" for name in names[1:]] + ["gives the bonus"]
    figure = _draw(rows, columns, heads, names, outputs, cached)
    wide = max(map(len, [*heads, *names]))
    twin = [" ".join(f"{head:>{wide}}" for head in ["", *heads])]
    for row, name, output in zip(rows, names, outputs, strict=True):
        seen = [
            "…" if key is None else "-" if not row[key] else (CACHED if key < cached else NEW).glyph
            for key in columns
        ]
        twin.append(" ".join(f"{sign:>{wide}}" for sign in [name, *seen]) + f"  {output}")
    values = {"rows": k + 1, "keys": cached + k + 1, "cached": cached}
    said = {"drafted": f"{k} drafted token{'s' * (k != 1)}"}
    said |= {"gives": "1 distribution" if k == 0 else f"{k + 1} distributions, one per row"}
    return worded("mask", figure, "\n".join(twin), values | said)


def _draw(
    rows: Sequence[Sequence[bool]],
    columns: Sequence[int | None],
    heads: Sequence[str],
    names: Sequence[str],
    outputs: Sequence[str],
    cached: int,
) -> Figure:
    states = [CACHED, NEW, HIDDEN] if cached else [NEW, HIDDEN]
    left, top, gap = MARGIN + widest(names) + 0.15, widest(heads) + 0.15, 0.15 if cached else 0.0
    right = left + SIDE * len(columns) + gap
    width = max(right + 0.15 + widest(outputs) + MARGIN, 9.0)
    below = legend_height(states, width - 2 * MARGIN) + 0.25
    page = Board(width, below + SIDE * len(rows) + top + 0.65)
    over, new = page.height - 0.35, left + SIDE * (len(columns) - len(rows)) + gap
    if cached:
        page.write(left, over, "cached keys", weight="bold")
        new = max(new, left + text_width("cached keys", weight="bold") + 0.3)
    page.write(new, over, "new keys", weight="bold")
    ys = [below + SIDE * (len(rows) - 1 - query) for query in range(len(rows))]
    for column, (key, head) in enumerate(zip(columns, heads, strict=True)):
        x = left + column * SIDE + (gap if key is not None and key >= cached else 0)
        up = page.height - 0.65 - top + 0.1
        page.axes.text(x + SIDE / 2, up, head, fontsize=TEXT, rotation=90, ha="center", va="bottom")
        for y, row in zip(ys, rows, strict=True):
            if key is None:
                page.write(x + SIDE / 2, y + SIDE / 2, "…", ha="center")
            else:
                state = HIDDEN if not row[key] else CACHED if key < cached else NEW
                page.tile((x, y), (SIDE, SIDE), state, state.glyph)
    for y, name, output in zip(ys, names, outputs, strict=True):
        page.write(left - 0.15, y + SIDE / 2, name, ha="right")
        page.write(right + 0.15, y + SIDE / 2, output)
    page.legend(states, MARGIN, below - 0.1)
    return page.figure
