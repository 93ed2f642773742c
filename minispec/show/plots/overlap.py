"""Two distributions over each other: what is kept, what is rejected, and what the residual fills in.

A drafted token x ~ q is accepted with probability min(1, p(x)/q(x)). So of each bar of q the part under p is
kept: all tokens together, α = Σ min(p, q). The mass that q lacks, p − q where that is positive, is the
residual's.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from torch import Tensor

from minispec.core.verify import residual
from minispec.evidence.theory.formulas import acceptance
from minispec.show.plots import charts
from minispec.show.plots.board import widest, worded
from minispec.show.plots.style import TEXT, Picture, aligned, sheet
from minispec.show.signs import DRAFTER, SIGNS, STATES, TARGET
from minispec.show.text import probability, quoted, shown

TOP = 7  # tokens with a column of their own
LEAST_SIGN = 0.1  # a piece of a bar gets its sign if it is this high, of the highest bar
LEAST = 0.005  # what both distributions give less than this has no column of its own
KEPT, REJECTED = STATES["accepted"], STATES["rejected"]
RESIDUAL = STATES["correction"]  # which is drawn from it
DIAMOND = SIGNS["others"]["number"]


def shares(p: Tensor, q: Tensor, top: int = TOP, always: int | None = None) -> tuple[list[int], Tensor]:
    """Splits two distributions [V] into C columns: the tokens that matter most first, then the others.

    At most `top` tokens get a column, and `always` in any case; if there are no more in all, all do, by their
    ids. Returns these ids, and p, q, min(p, q) and the residual [4, C], where the others, if there are any,
    share the last column.
    """
    p, q = p.double(), q.double()
    larger = torch.maximum(p, q)
    chosen = list(range(len(p)))
    if len(p) > top:
        chosen = larger.sort(descending=True, stable=True).indices[:top].tolist()
        chosen = [token for token in chosen if larger[token] >= LEAST or token == always]
        if always is not None and always not in chosen:
            chosen[-1] = always
    short = torch.zeros_like(p) if torch.equal(p, q) else residual(p, q)
    four = torch.stack([p, q, torch.minimum(p, q), short])  # [4, V]
    other_tokens = [token for token in range(len(p)) if token not in chosen]
    remaining = four[:, other_tokens].sum(1, keepdim=True) if other_tokens else four[:, :0]
    return chosen, torch.cat([four[:, chosen], remaining], 1)


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
    chosen, columns = shares(p, q, always=drawn)
    labels = [shown(words[token]) for token in chosen] + ["others"] * (columns.shape[1] - len(chosen))
    figure = sheet(max(10.0, 1.6 + len(labels) * (widest(["0.00", *labels]) + 0.3)), 8.4)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1.2])
    sums = f"kept in all: α = Σ min(p, q) = {rate:.2f};  rejected: TV = 1 − α = {1 - rate:.2f}"
    charts.prepare(upper, grid="", title=sums, pad=12)
    keys = _overlap(upper, labels, columns.numpy())
    _residual(lower, columns[3].tolist())
    test = ""
    if drawn is not None:
        x = chosen.index(drawn)
        p_drawn, q_drawn = columns[:2, x].tolist()
        ceiling = float(columns[:2].max())
        upper.set_ylim(0, 1.3 * ceiling)
        height = max(p_drawn, q_drawn) + 0.08 * ceiling
        upper.text(x, height, "drafted", fontsize=TEXT, ha="center", va="bottom", weight="bold")
        ratio = min(1.0, p_drawn / q_drawn) if q_drawn > 0 else 0.0
        test = f"{quoted(words[drawn])} is accepted with probability min(1, p/q) = {probability(ratio)}"
        if number is not None:
            number_label = f"number drawn, {number:.2f}, times q"
            keys += upper.plot([x], [number * q_drawn], label=number_label, **charts.dots(DIAMOND, 14))
            verdict = "accepted" if number * q_drawn < p_drawn else "rejected"
            test += f"; the number drawn is {number:.2f}, so it is {verdict}"
        test += "."
    charts.keys_below(figure, keys)
    heads = [f"{KEPT.glyph} min(p, q)", f"{REJECTED.glyph} rejected", f"{RESIDUAL.glyph} residual"]
    rows = [["token", "p", "q", *heads]]
    for label, (a, b, ratio, missing) in zip(labels, columns.T.tolist(), strict=True):
        rows.append([label, *(f"{x:.3f}" for x in (a, b, ratio, b - ratio, missing))])
    twin = f"{aligned(rows)}\nacceptance = sum of min(p, q) = {rate:.3f}, TV = {1 - rate:.3f}"
    case = ("drawn" if test else "") if rate < 1 - 1e-9 else "equal-drawn" if test else "equal"
    if case == "drawn" and q[drawn] <= p[drawn]:
        case = "drawn-kept"
    word = quoted(words[int((q - p).argmax()) if drawn is None else drawn])
    return worded(
        "overlap", figure, twin, case, columns=len(labels), rate=rate, tv=1 - rate, test=test, word=word
    )


def _overlap(axes: Axes, labels: Sequence[str], columns: np.ndarray) -> list[Any]:
    """Draws the pieces of each bar, and p and q as lines; returns all of them, for the key."""
    p, q, shared, _ = columns
    least = LEAST_SIGN * columns[:2].max()
    drawn = [
        charts.stack(axes, KEPT, "kept: min(p, q)", shared, 0 * shared, least),
        charts.stack(axes, REJECTED, "rejected: q − p", q - shared, p, least),  # of others on the part of p
        charts.stack(axes, RESIDUAL, "missing: p − q", p - shared, shared, least),
    ]
    for line, heights, style in ((TARGET, p, "-"), (DRAFTER, q, (0, (2, 1)))):
        look = {"color": line.colour, "linestyle": style, "label": line.word}
        drawn.append(charts.levels(axes, heights, 0.45, linewidth=4, **look))
    under = [
        "\n".join([label, probability(a), probability(b)]) for label, a, b in zip(labels, p, q, strict=True)
    ]
    axes.set_xticks([-0.75, *range(len(labels))], ["\np\nq", *under], parse_math=False)
    axes.tick_params(axis="x", length=0, labelbottom=True)
    axes.set_xlim(-1, len(labels) - 0.5)
    return drawn


def _residual(axes: Axes, heights: Sequence[float]) -> None:
    bars = axes.bar(range(len(heights)), heights, 0.7, **charts.area(RESIDUAL))
    axes.bar_label(bars, list(map(probability, heights)), padding=4, fontsize=TEXT)
    charts.prepare(axes, grid="", title="residual: a correction is drawn from it", pad=12)
    axes.tick_params(axis="x", length=0, labelbottom=False)
    axes.set(ylim=(0, 1.35), yticks=[])
    axes.spines["left"].set_visible(False)
