"""What each query of a verification sees, and whose law comes out of it.

The target reads the pending token and K drafted ones in one pass: K+1 queries. Each sees all cached keys, the
new keys before it, and its own. The output of a query is the law of the *next* token. So the pending token's
output judges the first drafted token, and the last drafted token's output is the law of the bonus.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from minispec.show.plots.board import board, legend, legend_height, shown, text_width, tile, widest, write
from minispec.show.plots.picture import Picture
from minispec.show.plots.style import STATES, TEXT, State

MARGIN = 0.2  # inches, around the page
SIDE = 0.5  # of a tile
CACHED = State(STATES["committed"].colour, "=", word="sees a cached key")
NEW = State(STATES["drafted"].colour, "●", word="sees a new key")
HIDDEN = State("#FFFFFF", "", word="does not see it")


@dataclass(frozen=True)
class MaskRow:
    """One query.

    Attributes:
        query: which new token asks: 0 is the pending one, i the i-th drafted one.
        sees: for each key, cached ones first, whether it is seen.
        judges: which drafted token its output is the law of, counted from 1; K + 1 is the bonus.
    """

    query: int
    sees: tuple[bool, ...]
    judges: int


def mask_rows(cached: int, k: int) -> list[MaskRow]:
    """Returns the causal mask of a verification, row by row.

    Args:
        cached: how many keys the cache holds.
        k: how many tokens were drafted, K.

    Returns:
        K + 1 rows, each over cached + K + 1 keys.

    Raises:
        ValueError: if one of them is negative.
    """
    if cached < 0 or k < 0:
        raise ValueError(f"cached and k must be at least 0, not {cached} and {k}")
    keys = range(cached + k + 1)
    return [MaskRow(query, tuple(key <= cached + query for key in keys), query + 1) for query in range(k + 1)]


def attention_mask(cached: int, k: int, words: Sequence[str] | None = None) -> Picture:
    """Draws the mask of a verification, with what each row's output is for.

    Args:
        cached: how many keys the cache holds; of more than 5 the middle ones are left out.
        k: how many tokens were drafted, K.
        words: the texts of the pending token and the K drafted ones; by default their names.

    Returns:
        The picture; its data is `mask_rows`.

    Raises:
        ValueError: on negative numbers, or another number of words than K + 1.
    """
    rows = mask_rows(cached, k)
    if words is not None and len(words) != k + 1:
        raise ValueError(f"words must be {k + 1}, the pending one and the draft, not {len(words)}")
    names = list(map(shown, words)) if words else ["pending", *(f"draft {i}" for i in range(1, k + 1))]
    old: list[int | None] = list(range(cached)) if cached <= 5 else [0, 1, None, cached - 2, cached - 1]
    columns = old + list(range(cached, cached + k + 1))
    heads = ["…" if key is None else str(key) if key < cached else names[key - cached] for key in columns]
    outputs = [f"→ judges {name}" for name in names[1:]] + ["→ law of the bonus"]
    figure = _draw(rows, columns, heads, names, outputs, cached)
    alt = (
        f"A grid of {k + 1} queries by {cached + k + 1} keys. Every query sees the {cached} cached keys and "
        f"the new keys up to its own. The row of the pending token judges the first drafted token, each row "
        f"judges the token after its own, and the last row gives the law of the bonus."
    )
    laws = "1 law" if k == 0 else f"{k + 1} laws, one per row"
    caption = f"One pass gives {laws}; each is the law of the token after its row's own."
    twin = _twin(rows, columns, heads, names, outputs)
    return Picture("mask", figure, alt, caption, twin)


def _draw(
    rows: Sequence[MaskRow],
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
    height = below + SIDE * len(rows) + top + 0.65
    figure, axes = board(width, height)
    over, split = height - 0.35, left + SIDE * (len(columns) - len(rows)) + gap
    if cached:
        write(axes, left, over, "cached keys", weight="bold")
        split = max(split, left + text_width("cached keys", weight="bold") + 0.3)
    write(axes, split, over, "new keys", weight="bold")
    for place, (key, head) in enumerate(zip(columns, heads, strict=True)):
        x = left + place * SIDE + (gap if key is not None and key >= cached else 0)
        up = height - 0.65 - top + 0.1
        axes.text(x + SIDE / 2, up, head, fontsize=TEXT, rotation=90, ha="center", va="bottom")
        for row in rows:
            y = below + SIDE * (len(rows) - 1 - row.query)
            _square(axes, (x, y), key, row, cached)
    for row, name, output in zip(rows, names, outputs, strict=True):
        y = below + SIDE * (len(rows) - 0.5 - row.query)
        write(axes, left - 0.15, y, name, ha="right")
        write(axes, right + 0.15, y, output)
    legend(axes, (MARGIN, below - 0.1), states, width - 2 * MARGIN)
    return figure


def _square(axes: Axes, corner: tuple[float, float], key: int | None, row: MaskRow, cached: int) -> None:
    if key is None:
        write(axes, corner[0] + SIDE / 2, corner[1] + SIDE / 2, "…", ha="center")
        return
    state = HIDDEN if not row.sees[key] else CACHED if key < cached else NEW
    tile(axes, corner, (SIDE, SIDE), state, state.glyph)


def _twin(
    rows: Sequence[MaskRow],
    columns: Sequence[int | None],
    heads: Sequence[str],
    names: Sequence[str],
    outputs: Sequence[str],
) -> str:
    wide = max(map(len, [*heads, *names]))
    lines = [" ".join(f"{head:>{wide}}" for head in ["", *heads])]
    for row, name, output in zip(rows, names, outputs, strict=True):
        seen = ["…" if key is None else "●" if row.sees[key] else "-" for key in columns]
        lines.append(" ".join(f"{sign:>{wide}}" for sign in [name, *seen]) + f"  {output}")
    return "\n".join(lines)
