"""What each query of a verification sees, and which token its output judges.

The target reads the pending token and K drafted ones in one pass: K+1 queries. Each sees all cached keys, the
new keys before it, and its own. The output of a query is the distribution of the *next* token. So the pending
token's output judges the first drafted token, and the last drafted token's output gives the bonus.
"""

from collections.abc import Sequence

from minispec.show.plots.board import MARGIN, Board, shown, text_width, widest, worded
from minispec.show.plots.style import Picture
from minispec.show.signs import STATES, State

SIDE = 0.5  # of a tile, in inches
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
    drafted = f"{k} drafted token{'s' * (k != 1)}"
    gives = "1 distribution" if k == 0 else f"{k + 1} distributions, one per row"
    return worded("mask", figure, "\n".join(twin), drafted=drafted, gives=gives, **values)
