"""Two distributions over each other: what is kept, what is rejected, and what the residual fills in.

A drafted token x ~ q is accepted with probability min(1, p(x)/q(x)). So of each bar of q the part under p is
kept: all tokens together, α = Σ min(p, q). The mass that q lacks, p − q where that is positive, is the
residual's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from matplotlib.axes import Axes
from torch import Tensor

from minispec.core.verify import residual
from minispec.evidence.theory.formulas import acceptance
from minispec.show.plots import charts
from minispec.show.plots.board import widest, worded
from minispec.show.plots.style import TEXT, Picture, aligned, sheet
from minispec.show.signs import DRAFTER, STATES, TARGET, State
from minispec.show.text import probability, quoted, shown

TOP = 7  # tokens with a column of their own
LEAST_SIGN = 0.1  # a piece of a bar gets its sign if it is this high, of the highest bar
LEAST = 0.005  # what both distributions give less than this has no column of its own
KEPT, REJECTED = STATES["accepted"], STATES["rejected"]
RESIDUAL = STATES["correction"]  # which is drawn from it
DIAMOND: dict[str, Any] = {"marker": "D", "markersize": 14, "color": "white", "markeredgecolor": "black"}


@dataclass(frozen=True)
class Share:
    """One column: a token, or all tokens that have no column of their own."""

    token: int | None  #: its id, or None for the others together
    label: str  #: what stands under it
    p: float  #: the target's probability
    q: float  #: the draft's
    kept: float  #: min(p, q), or its sum over the others
    residual: float  #: what norm(max(0, p − q)) gives it


def shares(
    p: Tensor, q: Tensor, words: Sequence[str], top: int = TOP, always: int | None = None
) -> list[Share]:
    """Splits two distributions [V] into columns, the tokens that matter most first, then the others.

    At most `top` tokens get a column, and `always` in any case; if there are no more in all, all do, by their
    ids. `words` has the text of every token id.
    """
    p, q = p.double(), q.double()
    chosen = list(range(len(p)))
    if len(p) > top:
        larger = torch.maximum(p, q)
        chosen = larger.sort(descending=True, stable=True).indices[:top].tolist()
        chosen = [token for token in chosen if larger[token] >= LEAST or token == always]
        if always is not None and always not in chosen:
            chosen[-1] = always
    short = residual(p, q) if bool((p != q).any()) else torch.zeros_like(p)
    four = torch.stack([p, q, torch.minimum(p, q), short])  # [4, V]
    columns = [Share(token, shown(words[token]), *four[:, token].tolist()) for token in chosen]
    rest = [token for token in range(len(p)) if token not in set(chosen)]
    if rest:
        columns.append(Share(None, "others", *four[:, rest].sum(1).tolist()))
    return columns


def overlap(
    p: Tensor | Sequence[float],
    q: Tensor | Sequence[float],
    words: Sequence[str],
    drawn: int | None = None,
    number: float | None = None,
) -> Picture:
    """Draws p [V] and q [V] over each other, token by token, and the residual under them.

    `words` has the text of every token id, such as ("a", "b", "c"). `drawn` is the id that was drafted, to be
    marked, and `number` what was drawn for its test, between 0 and 1. It is drawn at that part of the bar of
    q: the token is accepted if that lies under p.

    Raises:
        ValueError: if p and q are no distributions over the same ids.
    """
    p, q = torch.as_tensor(p).double(), torch.as_tensor(q).double()
    rate = acceptance(p, q)  # refuses what is no distribution
    columns = shares(p, q, words, always=drawn)
    figure = sheet(max(10.0, 1.6 + len(columns) * (widest(["0.00", *(c.label for c in columns)]) + 0.3)), 8.4)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1.2])
    keys = _overlap(upper, columns)
    _residual(lower, columns)
    test = ""
    if drawn is not None:
        x, column = next((x, c) for x, c in enumerate(columns) if c.token == drawn)
        test = _mark(upper, max(max(c.p, c.q) for c in columns), x, column, quoted(words[drawn]))
        if number is not None:
            said = f"number drawn, {number:.2f}, times q"
            keys += upper.plot([x], [number * column.q], linestyle="none", label=said, **DIAMOND)
            verdict = "accepted" if number * column.q < column.p else "rejected"
            test += f"; the number drawn is {number:.2f}, so it is {verdict}"
        test += "."
    sums = f"kept in all: α = Σ min(p, q) = {rate:.2f};  rejected: TV = 1 − α = {1 - rate:.2f}"
    upper.set_title(sums, fontsize=TEXT, loc="left", pad=12)
    charts.keys_below(figure, keys)
    numbers = [(c.p, c.q, c.kept, c.q - c.kept, c.residual) for c in columns]
    heads = [f"{KEPT.glyph} min(p, q)", f"{REJECTED.glyph} rejected", f"{RESIDUAL.glyph} residual"]
    rows = [[c.label, *(f"{x:.3f}" for x in line)] for c, line in zip(columns, numbers, strict=True)]
    twin = aligned([["token", "p", "q", *heads], *rows])
    twin += f"\nacceptance = sum of min(p, q) = {rate:.3f}, TV = {1 - rate:.3f}"
    values = {"columns": len(columns), "rate": rate, "tv": 1 - rate, "test": test}
    values["word"] = quoted(words[int((q - p).argmax()) if drawn is None else drawn])
    case = ("drawn" if test else "") if rate < 1 - 1e-9 else "equal-drawn" if test else "equal"
    if case == "drawn" and float(q[drawn]) <= float(p[drawn]):
        case = "drawn-kept"
    return worded("overlap", figure, twin, case, **values)


def _overlap(axes: Axes, columns: Sequence[Share]) -> list[Any]:
    """Draws the pieces of each bar, and p and q as lines; returns all of them, for the key."""
    p, q, kept = zip(*((c.p, c.q, c.kept) for c in columns), strict=True)
    drawn: list[Any] = []
    for look, word, tops, floors in (
        (KEPT, "kept: min(p, q)", kept, [0.0] * len(kept)),
        (REJECTED, "rejected: q − p", [a + c.q - c.kept for a, c in zip(p, columns, strict=True)], p),
        (RESIDUAL, "missing: p − q", p, kept),
    ):  # the others can have both: the part of q stands on the part of p
        heights = [top - floor for top, floor in zip(tops, floors, strict=True)]
        bar = charts.area(look) | {"label": f"{look.glyph} {word}"}
        drawn.append(axes.bar(range(len(kept)), heights, 0.7, floors, **bar))
        _signs(axes, look, heights, floors, LEAST_SIGN * max(*p, *(c.q for c in columns)))
    for line, values, style in ((TARGET, p, "-"), (DRAFTER, q, (0, (2, 1)))):
        how: dict[str, Any] = {"color": line.colour, "linestyle": style, "label": line.word}
        drawn.append(charts.levels(axes, values, 0.45, linewidth=4, **how))
    charts.prepare(axes, grid="")
    labels = [f"{c.label}\n{probability(c.p)}\n{probability(c.q)}" for c in columns]
    axes.set_xticks([-0.75, *range(len(kept))], ["\np\nq", *labels], parse_math=False)
    axes.tick_params(axis="x", length=0, labelbottom=True)
    axes.set_xlim(-1, len(columns) - 0.5)
    return drawn


def _signs(axes: Axes, look: State, heights: Sequence[float], floors: Sequence[float], least: float) -> None:
    """Writes a state's sign into each of its pieces that is at least so high."""
    spot: dict[str, Any] = {"facecolor": look.colour, "edgecolor": "none", "pad": 1.5}
    how: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": TEXT, "color": look.ink, "bbox": spot}
    for x, (height, floor) in enumerate(zip(heights, floors, strict=True)):
        if height >= least:
            axes.text(x, floor + height / 2, look.glyph, **how)


def _residual(axes: Axes, columns: Sequence[Share]) -> None:
    axes.bar(range(len(columns)), [c.residual for c in columns], 0.7, **charts.area(RESIDUAL))
    charts.prepare(axes, grid="")
    axes.set_title("residual: a correction is drawn from it", fontsize=TEXT, loc="left", pad=12)
    for x, height in enumerate(c.residual for c in columns):
        axes.text(x, height + 0.06, probability(height), fontsize=TEXT, ha="center", va="bottom")
    axes.tick_params(axis="x", length=0, labelbottom=False)
    axes.set_ylim(0, 1.35)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)


def _mark(axes: Axes, ceiling: float, x: float, column: Share, word: str) -> str:
    """Writes over a column that it was drafted; returns with which probability that is accepted."""
    axes.set_ylim(0, 1.3 * ceiling)
    height = max(column.p, column.q) + 0.08 * ceiling
    axes.text(x, height, "drafted", fontsize=TEXT, ha="center", va="bottom", weight="bold")
    kept = min(1.0, column.p / column.q) if column.q > 0 else 0.0
    return f"{word} is accepted with probability min(1, p/q) = {probability(kept)}"
