"""What drafters propose: the draft's distribution q at each guess, and drafts that grow with a match."""

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from torch import Tensor

from minispec.core.records import Round
from minispec.show.plots import charts
from minispec.show.plots.board import GREY, widest, worded
from minispec.show.plots.style import TEXT, Picture, aligned
from minispec.show.signs import DRAFTER, STATES
from minispec.show.text import check_chain, probability, quoted, shown

ACROSS = 5  # charts beside each other
TOP = 5  # tokens per chart
RIGHT, WRONG, MATCH = STATES["accepted"], STATES["rejected"], STATES["committed"]


def candidates(q: Tensor, drawn: int, top: int = TOP) -> dict[int, float]:
    """Returns the most probable tokens of q [V] with their probabilities, the drawn one always among them.

    There are `top` of them at most; tokens of probability 0 are left out unless drawn.
    """
    order = q.sort(descending=True, stable=True).indices[:top].tolist()
    if drawn not in order:
        order[-1] = drawn
    return {token: float(q[token]) for token in order if q[token] > 0 or token == drawn}


def draft_bars(r: Round, words: Sequence[str]) -> Picture:
    """Draws the distribution of each guess of a round's first row, the drafted token marked; words: by id.

    Raises:
        ValueError: if nothing was drafted, or a tree was.
    """
    check_chain(r)
    count = r.drafted(0)
    if count == 0:
        raise ValueError(f"round {r.index} drafted nothing")
    drafted = r.draft.tokens[0, :count].tolist()
    drawn_q = [float(r.draft.probs[0, i, token]) for i, token in enumerate(drafted)]
    names = [quoted(words[token]) for token in drafted]
    guesses = [candidates(q, drawn) for q, drawn in zip(r.draft.probs[0], drafted, strict=False)]
    labels = [
        [shown(words[token]) + " ◀" * (token == drawn) for token in guess]
        for guess, drawn in zip(guesses, drafted, strict=True)
    ]
    most = max(map(len, guesses))
    wide = min(count, ACROSS) * (widest(chain(*labels)) + 2.4) + 0.4
    figure, panels = charts.panels(count, ACROSS, wide, -(-count // ACROSS) * (0.46 * most + 0.8) + 0.9)
    twin = []
    for i, (axes, guess, texts) in enumerate(zip(panels, guesses, labels, strict=True), 1):
        values = [probability(value) for value in guess.values()]
        bars = axes.barh(range(len(guess)), list(guess.values()), 0.7, **charts.area(DRAFTER))
        axes.bar_label(bars, values, padding=4, fontsize=TEXT)
        charts.prepare(axes, grid="", title=f"guess {i}", weight="bold")
        axes.set_yticks(range(len(guess)), texts, parse_math=False)
        axes.set(xlim=(0, 1.6), ylim=(most - 0.5, -0.5), xticks=[])
        axes.spines["bottom"].set_visible(False)
        entries = [f"{text} {value}" for text, value in zip(texts, values, strict=True)]
        twin.append(f"guess {i}: {'  '.join(entries)}")
    key = "◀ drafted        length of a bar: q, the draft's distribution"
    figure.supxlabel(key, fontsize=TEXT, color=GREY)
    drafted_texts = ", ".join(
        f"{name} with q = {probability(q)}" for name, q in zip(names, drawn_q, strict=True)
    )
    least = drawn_q.index(min(drawn_q))
    return worded(
        "draft",
        figure,
        twin,
        "certain" if min(drawn_q) == 1 else "",
        count=count,
        name=names[least],
        number=least + 1,
        q=probability(drawn_q[least]),
        drafted=drafted_texts,
    )


class Found(NamedTuple):
    """What a look-up finds after a word of a text: tokens of the match, drafted ones, and the right ones."""

    word: str
    match: int
    drafted: int
    right: int


def draft_growth(matches_found: Sequence[Found], k: int) -> Picture:
    """Draws, after each word, the match as a point and the draft, of k tokens at most, as a bar.

    The right part of it is below.

    Raises:
        ValueError: if there is no word, more is drafted than k, or more is right than drafted.
    """
    if not matches_found or any(not 0 <= x.right <= x.drafted <= k for x in matches_found):
        raise ValueError(
            f"give at least one word, and for each a draft of 0 to {k} tokens, some of them right"
        )
    words, matches, drafted, right = zip(*matches_found, strict=True)
    rejected = np.subtract(drafted, right)
    figure, axes = charts.chart(12, 6, "the text so far ends in", "tokens", "y")
    charts.stack(axes, RIGHT, "drafted, right", right, [0] * len(matches_found))
    charts.stack(axes, WRONG, "drafted, wrong", rejected, right)
    dots = charts.dots(MATCH, 14) | {"ls": ":", "color": "black", "mfc": MATCH.colour, "clip_on": False}
    axes.plot(matches, label="the match", **dots)
    names = list(map(shown, words))
    charts.columns(axes, names, rotation=90)
    axes.tick_params(axis="x", pad=12)  # points of the match lie on the axis, too
    axes.set_yticks(range(0, max([k, *matches]) + 2, 2))
    charts.keys(axes, columns=3)
    rows = [["text ends in", "match", "drafted", f"{RIGHT.glyph} right", f"{WRONG.glyph} wrong"]]
    rows += [list(map(str, row)) for row in zip(names, matches, drafted, right, rejected, strict=True)]
    return worded(
        "draft-growth",
        figure,
        aligned(rows),
        words=len(words),
        match=max(matches),
        draft=max(drafted),
        k=k,
        kept=sum(right),
        drafted=sum(drafted),
    )
