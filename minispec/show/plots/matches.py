"""What a look-up finds after each word of a text: how long the match is, what is drafted, what is right."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from minispec.show.plots import charts
from minispec.show.plots.board import shown, worded
from minispec.show.plots.style import Picture, aligned, sheet
from minispec.show.signs import STATES

RIGHT, WRONG, MATCH = STATES["accepted"], STATES["rejected"], STATES["committed"]


class Found(NamedTuple):
    """After a word of a text: tokens of the match, drafted ones, and how many of these are right."""

    word: str
    match: int
    drafted: int
    right: int


def draft_growth(found: Sequence[Found], k: int) -> Picture:
    """Draws, after each word, the match as a point and the draft, of k tokens at most, as a bar.

    The right part of it is below.

    Raises:
        ValueError: if there is no word, more is drafted than k, or more is right than drafted.
    """
    if not found or any(not 0 <= one.right <= one.drafted <= k for one in found):
        raise ValueError(
            f"give at least one word, and for each a draft of 0 to {k} tokens, some of them right"
        )
    words, right = [shown(one.word) for one in found], [one.right for one in found]
    wrong, matches = [one.drafted - one.right for one in found], [one.match for one in found]
    figure, places = sheet(12, 6), range(len(found))
    axes = charts.prepare(figure.subplots(), "the text so far ends in", "tokens", grid="y")
    for state, low, high, said in ((RIGHT, 0, right, "right"), (WRONG, right, wrong, "wrong")):
        look: dict[str, Any] = {"color": state.colour, "hatch": state.hatch, "edgecolor": "black"}
        axes.bar(places, high, 0.7, low, label=f"{state.glyph} drafted, {said}", **look)
    look = {"mfc": MATCH.colour, "mec": "black", "ms": 14, "clip_on": False, "label": "the match"}
    axes.plot(places, matches, "k:", marker=MATCH.marker, **look)
    axes.set_xticks(places, words, rotation=90)
    axes.tick_params(axis="x", pad=12)  # points of the match lie on the axis, too
    charts.ticks(axes, "y", range(0, max([k, *matches]) + 2, 2))
    charts.keys(axes, columns=3)
    drafted, kept = sum(one.drafted for one in found), sum(right)
    values = {"words": len(found), "match": max(matches), "draft": max(one.drafted for one in found)}
    values |= {"kept": kept, "drafted": drafted, "k": k}
    rows = [["text ends in", "match", "drafted", f"{RIGHT.glyph} right", f"{WRONG.glyph} wrong"]]
    rows += [[word, *map(str, one[1:]), str(off)] for word, one, off in zip(words, found, wrong, strict=True)]
    return worded("draft-growth", figure, aligned(rows), values)
