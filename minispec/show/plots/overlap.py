"""Two laws over each other: what is kept, what is rejected, and what the residual fills in.

A drafted token x ~ q is accepted with chance min(1, p(x)/q(x)). So of each bar of q the part under p is kept:
all tokens together, α = Σ min(p, q). What p has and q lacks is the residual's share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from torch import Tensor

from minispec.core.verify import residual
from minispec.evidence.theory.formulas import acceptance
from minispec.show.plots.board import chance, quoted, shown, widest
from minispec.show.plots.picture import Picture
from minispec.show.plots.style import DRAFTER, STATES, TARGET, TEXT, sheet

OTHERS = "others"
LEAST = 0.005  # what both laws give less than this has no column of its own
DIAMOND: dict[str, Any] = {"marker": "D", "markersize": 14, "color": "white", "markeredgecolor": "black"}


@dataclass(frozen=True)
class Share:
    """One column: a token, or all tokens that have no column of their own.

    Attributes:
        token: its id, or None for the others together.
        label: what stands under it.
        p: the target's probability.
        q: the draft's.
        kept: min(p, q), or its sum over the others.
        residual: what norm(max(0, p − q)) gives it.
    """

    token: int | None
    label: str
    p: float
    q: float
    kept: float
    residual: float


def shares(
    p: Tensor, q: Tensor, words: Sequence[str], top: int = 7, always: int | None = None
) -> list[Share]:
    """Splits two laws into columns, the tokens that matter most first, then the others.

    Args:
        p: [V], the target's law.
        q: [V], the draft's law.
        words: the text of every token id.
        top: at most so many tokens get a column; if there are no more in all, all do, by their ids.
        always: an id that gets one in any case.

    Raises:
        ValueError: if p and q are no laws over the same ids.
    """
    p, q = torch.as_tensor(p).double(), torch.as_tensor(q).double()
    acceptance(p, q)  # checks that both are laws
    if p.shape[0] <= top:
        chosen = list(range(p.shape[0]))
    else:
        larger = torch.maximum(p, q)
        chosen = larger.sort(descending=True, stable=True).indices[:top].tolist()
        chosen = [token for token in chosen if larger[token] >= LEAST or token == always]
        if always is not None and always not in chosen:
            chosen[-1] = always
    short = residual(p, q) if bool((p != q).any()) else torch.zeros_like(p)
    rest = [token for token in range(p.shape[0]) if token not in set(chosen)]
    columns = [
        Share(t, shown(words[t]), float(p[t]), float(q[t]), float(torch.minimum(p, q)[t]), float(short[t]))
        for t in chosen
    ]
    if rest:
        sums = [float(law[rest].sum()) for law in (p, q, torch.minimum(p, q), short)]
        columns.append(Share(None, OTHERS, *sums))
    return columns


def overlap(
    p: Tensor | Sequence[float],
    q: Tensor | Sequence[float],
    words: Sequence[str],
    drawn: int | None = None,
    number: float | None = None,
    top: int = 7,
) -> Picture:
    """Draws p and q over each other, token by token, and the residual under them.

    Args:
        p: [V], the target's law.
        q: [V], the draft's law.
        words: the text of every token id, such as ("a", "b", "c").
        drawn: the id that was drafted, to be marked.
        number: the number between 0 and 1 that was drawn for its test. It is drawn at that part of the bar
            of q: the token is accepted if that lies under p.
        top: so many tokens get a column of their own.

    Returns:
        The picture; its data is `shares`.

    Raises:
        ValueError: if p and q are no laws over the same ids, or `number` comes without `drawn`.
    """
    if number is not None and drawn is None:
        raise ValueError("a number is drawn for a token; say which in `drawn`")
    one, other = torch.as_tensor(p).double(), torch.as_tensor(q).double()
    columns = shares(one, other, words, top, drawn)
    rate = acceptance(one, other)
    figure = sheet(max(10.0, 1.6 + len(columns) * (widest(["0.00", *(c.label for c in columns)]) + 0.3)), 7.6)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1.2])
    _laws(upper, columns)
    _residual(lower, columns)
    if drawn is not None:
        _mark(upper, columns, drawn, number)
    title = f"α = Σ min(p, q) = {rate:.2f}      TV = 1 − α = {1 - rate:.2f}"
    upper.set_title(title, fontsize=TEXT, loc="left", pad=12)
    figure.legend(handles=_keys(number), loc="outside upper left", ncols=2, fontsize=TEXT, frameon=False)
    alt = (
        f"Bars of two laws over {len(columns)} columns. The part under both, kept, sums to {rate:.2f}; p has "
        f"{1 - rate:.2f} over q, of which the residual is made, and q as much over p, which is rejected."
    )
    caption = _caption(columns, rate, words, drawn, number)
    return Picture("overlap", figure, alt, caption, _twin(columns, rate))


def _laws(axes: Axes, columns: Sequence[Share]) -> None:
    places = range(len(columns))
    kept = [c.kept for c in columns]
    edge: dict[str, Any] = {"edgecolor": "black", "linewidth": 1.0, "width": 0.7}
    axes.bar(places, kept, color=STATES["draft"].colour, **edge)
    axes.bar(places, [c.p - c.kept for c in columns], bottom=kept, color=TARGET.colour, **edge)
    # The others can have both: the part of q stands on the part of p.
    floor = [c.p for c in columns]
    over = [c.q - c.kept for c in columns]
    axes.bar(places, over, bottom=floor, color=DRAFTER.colour, hatch=DRAFTER.hatch, **edge)
    labels = [f"{c.label}\n{chance(c.p)}\n{chance(c.q)}" for c in columns]
    axes.set_xticks([-0.75, *places], ["\np\nq", *labels], fontsize=TEXT)
    axes.tick_params(axis="x", length=0, labelbottom=True)
    axes.tick_params(axis="y", labelsize=TEXT)
    axes.set_xlim(-1, len(columns) - 0.5)
    axes.spines[["top", "right"]].set_visible(False)


def _residual(axes: Axes, columns: Sequence[Share]) -> None:
    edge: dict[str, Any] = {"edgecolor": "black", "linewidth": 1.0, "width": 0.7}
    axes.bar(range(len(columns)), [c.residual for c in columns], color=TARGET.colour, **edge)
    for place, column in enumerate(columns):
        height = column.residual + 0.06
        axes.text(place, height, chance(column.residual), fontsize=TEXT, ha="center", va="bottom")
    axes.tick_params(axis="x", length=0, labelbottom=False)
    axes.tick_params(axis="y", labelsize=TEXT)
    axes.set_ylim(0, 1.5)
    axes.set_yticks([0, 1])
    axes.set_ylabel("residual", fontsize=TEXT)
    axes.spines[["top", "right"]].set_visible(False)


def _mark(axes: Axes, columns: Sequence[Share], drawn: int, number: float | None) -> None:
    """Marks the drafted token and, where it is known, the number drawn for its test."""
    place = next(i for i, c in enumerate(columns) if c.token == drawn)
    column = columns[place]
    top = max(column.p, column.q)
    ceiling = max(max(c.p, c.q) for c in columns)
    axes.set_ylim(0, 1.3 * ceiling)
    axes.text(place, top + 0.08 * ceiling, "drafted", fontsize=TEXT, ha="center", va="bottom", weight="bold")
    if number is not None:
        axes.plot([place], [number * column.q], linestyle="none", **DIAMOND)


def _keys(number: float | None) -> list[Artist]:
    keys: list[Artist] = [
        Patch(facecolor=STATES["draft"].colour, edgecolor="black", label="kept: min(p, q)"),
        Patch(facecolor=DRAFTER.colour, edgecolor="black", hatch=DRAFTER.hatch, label="q over p: rejected"),
        Patch(facecolor=TARGET.colour, edgecolor="black", label="p over q: residual"),
    ]
    if number is not None:
        keys.append(Line2D([], [], linestyle="none", label=f"number drawn, {number:.2f}, times q", **DIAMOND))
    return keys


def _caption(
    columns: Sequence[Share], rate: float, words: Sequence[str], drawn: int | None, number: float | None
) -> str:
    if drawn is None:
        return f"The two laws share {rate:.2f} of their mass, and that is how often a drafted token is kept."
    column = next(c for c in columns if c.token == drawn)
    kept = min(1.0, column.p / column.q) if column.q > 0 else 0.0
    test = f"{quoted(words[drawn])} is accepted with chance min(1, p/q) = {chance(kept)}"
    if number is None:
        return f"{test}."
    return (
        f"{test}; the number drawn is {number:.2f}, so it is {'accepted' if number < kept else 'rejected'}."
    )


def _twin(columns: Sequence[Share], rate: float) -> str:
    wide = max(8, *(len(c.label) for c in columns))
    lines = [f"{'token':<{wide}}      p      q  min(p,q)  residual"]
    lines += [
        f"{c.label:<{wide}}  {c.p:5.3f}  {c.q:5.3f}     {c.kept:5.3f}     {c.residual:5.3f}" for c in columns
    ]
    return "\n".join([*lines, f"acceptance = sum of min(p, q) = {rate:.3f}, TV = {1 - rate:.3f}"])
