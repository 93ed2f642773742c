"""The figure of both caches: layers by positions, at the moments of a round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from minispec.io.trace import ObservedRound, Trace
from minispec.show.plots.board import (
    GREY,
    board,
    in_order,
    legend,
    legend_height,
    shown,
    text_width,
    tile,
    widest,
    write,
)
from minispec.show.plots.caches import MOMENTS, TITLES, Cell, Moment, cache_cells, needs_catch_up
from minispec.show.plots.picture import Picture
from minispec.show.plots.style import STATES, State

MARGIN = 0.2  # inches, around the page
LINE = 0.44  # height of a line of tiles
LAYER = 0.16  # height of one of several layers
EMPTY = State("#FFFFFF", "", word="empty")


def cache_grid(
    trace: Trace,
    words: Sequence[str],
    index: int = 0,
    moments: Sequence[Moment] | None = None,
    *,
    layers: Mapping[str, int] | None = None,
    row: int = 0,
    tail: int = 3,
) -> Picture:
    """Draws both caches at some moments of a round, one under the other.

    Args:
        trace: any.
        words: the text of every token id.
        index: which round.
        moments: which; by default all, without `caught up` where nothing was lacking.
        layers: how many layers `target` and `draft` have; by default one each.
        row: which row.
        tail: how many tokens before the pending one are drawn; those further left share one column.

    Returns:
        The picture; its data is `cache_cells`.

    Raises:
        ValueError: as `cache_cells`, and if there is no moment.
    """
    if moments is None:
        moments = [m for m in MOMENTS if m != "caught up" or needs_catch_up(trace, index, row)]
    if not moments:
        raise ValueError("there is no moment to draw; give at least one")
    scenes = [cache_cells(trace, index, moment, row) for moment in moments]
    states = in_order(cell.state for scene in scenes for cell in scene)
    page = _Page(scenes, words, layers or {}, tail)
    below = legend_height(states, page.width - 2 * MARGIN) + MARGIN
    figure, axes = board(page.width, page.panel * len(scenes) + below)
    for panel, (moment, cells) in enumerate(zip(moments, scenes, strict=True)):
        title = f"{panel + 1}  {TITLES[moment]}" if len(moments) > 1 else TITLES[moment]
        page.draw(axes, below + page.panel * (len(scenes) - panel), title, cells)
    legend(axes, (MARGIN, below - 0.1), states, page.width - 2 * MARGIN)
    lines = [_twin(moment, cells, words, page.first) for moment, cells in zip(moments, scenes, strict=True)]
    r = trace.rounds[index]
    return Picture("caches", figure, _alt(r, row, moments), _caption(r, row, moments[-1]), "\n".join(lines))


class _Page:
    """Where things stand on the page, in inches."""

    def __init__(
        self, scenes: Sequence[list[Cell]], words: Sequence[str], layers: Mapping[str, int], tail: int
    ) -> None:
        cells = [cell for scene in scenes for cell in scene]
        pending = min(cell.place for cell in cells if cell.state == "pending")
        self.words = words
        self.first = pending - tail if pending - tail > 1 else 0
        self.owners = list(dict.fromkeys(cell.owner for cell in cells))
        self.layers = {owner: layers.get(owner, 1) for owner in self.owners}
        self.high = {owner: max(LINE, LAYER * count) for owner, count in self.layers.items()}
        self.panel = 0.5 + sum(self.high.values()) + 0.12 * len(self.owners) + MARGIN
        self.column = 0.16 + widest((self.token(c) for c in cells if c.place >= self.first), 0.4)
        self.before = f"0–{self.first - 1}" if self.first else ""
        self.start = MARGIN + widest(map(self.label, self.owners)) + 0.15
        self.rest = text_width(self.before) + 0.2 if self.first else 0.0
        last = max(cell.place for cell in cells)
        self.end = self.start + self.rest + self.column * (last - self.first + 1)
        self.width = self.end + 0.15 + text_width("00 tokens") + MARGIN

    def label(self, owner: str) -> str:
        """What stands left of a line."""
        count = self.layers[owner]
        return owner if owner == "text" or count == 1 else f"{owner}, {count} layers"

    def token(self, cell: Cell) -> str:
        """What stands in a tile of the text; the pending token, which no cache shows, has its glyph here."""
        if cell.owner != "text" or cell.token is None:
            return STATES[cell.state].glyph if cell.state in STATES else ""
        return ("→ " if cell.state == "pending" else "") + shown(self.words[cell.token])

    def draw(self, axes: Axes, top: float, title: str, cells: Sequence[Cell]) -> None:
        """Draws one moment, downwards from a height."""
        write(axes, MARGIN, top - 0.25, title, weight="bold")
        y = top - 0.5
        for owner in self.owners:
            y -= self.high[owner]
            middle = y + self.high[owner] / 2
            mine = [cell for cell in cells if cell.owner == owner]
            held = sum(cell.held for cell in mine)
            write(axes, self.start - 0.15, middle, self.label(owner), ha="right")
            self.line(axes, y, owner, mine)
            write(axes, self.end + 0.15, middle, f"{held} tokens" if owner == "text" else f"holds {held}")
            y -= 0.12

    def line(self, axes: Axes, y: float, owner: str, cells: Sequence[Cell]) -> None:
        """Draws the tiles of one owner."""
        if self.first:
            tile(axes, (self.start, y), (self.rest, self.high[owner]), STATES["prompt"], self.before)
        for cell in cells[self.first :]:
            corner = (self.start + self.rest + (cell.place - self.first) * self.column, y)
            size = (self.column, self.high[owner])
            if cell.state == "empty":
                tile(axes, corner, size, EMPTY, edgecolor=GREY, linestyle=":")
            else:
                tile(axes, corner, size, STATES[cell.state], self.token(cell))
                self.rules(axes, *corner, owner)

    def rules(self, axes: Axes, x: float, y: float, owner: str) -> None:
        """Thin lines between layers, short of the middle, where the glyph stands."""
        step = self.high[owner] / self.layers[owner]
        for layer in range(1, self.layers[owner]):
            for left, right in ((0.0, 0.3), (0.7, 1.0)):
                ends = [x + left * self.column, x + right * self.column]
                axes.plot(ends, [y + layer * step] * 2, color="black", linewidth=0.6)


def _twin(moment: Moment, cells: Sequence[Cell], words: Sequence[str], first: int) -> str:
    """One line per owner, each token behind the glyph of its state, and _ for an empty slot."""
    lines = [TITLES[moment]]
    for owner in dict.fromkeys(cell.owner for cell in cells):
        mine = [cell for cell in cells if cell.owner == owner]
        signs = ["_" if c.token is None else _sign(c) + shown(words[c.token]) for c in mine[first:]]
        dots = "… " if first else ""
        lines.append(f"  {owner:<7}{dots}{' '.join(signs)}   ({sum(c.held for c in mine)} held)")
    return "\n".join(lines)


def _sign(cell: Cell) -> str:
    return "" if cell.state == "prompt" else STATES[cell.state].glyph


def _alt(r: ObservedRound, row: int, moments: Sequence[Moment]) -> str:
    target, count = r.target_cache, len(moments)
    return (
        f"The text and the caches in round {r.index} at {count} {'moment' if count == 1 else 'moments'}: "
        f"{', '.join(TITLES[moment].lower() for moment in moments)}. The target's cache holds "
        f"{target.before[row]} tokens before the round, {target.verified[row]} after its pass over the "
        f"pending token and {r.drafted(row)} drafted ones, and {target.after[row]} after rollback."
    )


def _caption(r: ObservedRound, row: int, last: Moment) -> str:
    """Says what the last moment that is drawn has brought."""
    target = r.target_cache
    if last == "before":
        return f"Both caches hold {target.before[row]} tokens: every committed one but the pending token."
    if last == "drafted":
        count = r.drafted(row)
        return f"The draft has guessed {count} tokens; the target's cache still holds {target.before[row]}."
    if last == "verified":
        new = target.verified[row] - target.before[row]
        return f"One pass of the target has read {new} new tokens, the pending one and the draft."
    if last == "caught up":
        return f"The draft reads the 1 token that it lacked; now both caches hold {target.after[row]}."
    gone = target.verified[row] - target.after[row]
    return (
        f"Rollback takes {gone} {'token' if gone == 1 else 'tokens'} out of the target's cache; the "
        f"{target.after[row]} that it then holds are all committed tokens but the pending one."
    )
