"""What drafters propose: the draft's distribution q at each guess, and drafts that grow with a match."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor

from minispec.core.records import Round
from minispec.show.plots import charts
from minispec.show.plots.board import GREY, MARGIN, Board, widest, worded
from minispec.show.plots.style import Picture, aligned
from minispec.show.signs import DRAFTER, STATES, State
from minispec.show.text import probability, quoted, shown

ENTRY = 0.62  # height of a word and its bar, in inches
ACROSS = 5  # charts beside each other
TOP = 5  # tokens per chart
TRACK = State("white", "")
RIGHT, WRONG, MATCH = STATES["accepted"], STATES["rejected"], STATES["committed"]


def candidates(q: Tensor, drawn: int, top: int = TOP) -> dict[int, float]:
    """Returns the most probable tokens of q [V] with their probabilities, the drawn one always among them.

    There are `top` of them at most; tokens of probability 0 are left out unless drawn.
    """
    values = q.double().tolist()
    order = sorted(range(len(values)), key=lambda token: (-values[token], token))[:top]
    if drawn not in order:
        order[-1] = drawn
    return {token: values[token] for token in order if values[token] > 0 or token == drawn}


def draft_bars(r: Round, words: Sequence[str]) -> Picture:
    """Draws the distribution of each guess of a round's first row, the drafted token marked; words: by id.

    Raises:
        ValueError: if nothing was drafted, or a tree was.
    """
    if r.draft.parents is not None:
        raise ValueError(f"round {r.index} drafted a tree; this shows chains alone")
    count = r.drafted(0)
    if not r.live[0] or count == 0:
        raise ValueError(f"round {r.index} drafted nothing")
    drafted = r.draft.tokens[0, :count].tolist()
    guesses = [
        [(shown(words[t]) + " ◀" * (t == drawn), value) for t, value in candidates(q, drawn).items()]
        for q, drawn in zip(r.draft.probs[0], drafted, strict=False)
    ]
    wide = max(widest(label for guess in guesses for label, _ in guess) + 0.9, 2.3)
    high = 0.55 + ENTRY * max(map(len, guesses)) + MARGIN
    page, twin = Board(max((wide + MARGIN) * min(count, ACROSS) + MARGIN, 6.2)), []
    for i, guess in enumerate(guesses):
        x, y = MARGIN + (i % ACROSS) * (wide + MARGIN), -MARGIN - (i // ACROSS) * high
        page.write(x, y - 0.2, f"guess {i + 1}", weight="bold")
        for line, (label, value) in enumerate(guess):
            _entry(page, (x, y - 0.55 - line * ENTRY), wide - 0.1, label, value)
        twin.append(f"guess {i + 1}: " + "  ".join(f"{label} {probability(value)}" for label, value in guess))
    y = -high * -(-count // ACROSS) - 0.3
    page.write(MARGIN, y, "◀ drafted        length of a bar: q, the draft's distribution", color=GREY)
    drawn_q = [float(r.draft.probs[0, i, token]) for i, token in enumerate(drafted)]
    names = [quoted(words[token]) for token in drafted]
    said = ", ".join(f"{name} with q = {probability(q)}" for name, q in zip(names, drawn_q, strict=True))
    least = min(range(count), key=lambda i: drawn_q[i])
    values = {"name": names[least], "number": least + 1, "q": probability(drawn_q[least]), "drafted": said}
    case = "certain" if drawn_q[least] == 1 else ""
    return worded("draft", page.end(y - 0.2), "\n".join(twin), case, count=count, **values)


def _entry(page: Board, corner: tuple[float, float], wide: float, label: str, value: float) -> None:
    """Draws a word, its probability and a bar under them, downwards from the upper left corner."""
    x, y = corner
    weight = "bold" if "◀" in label else "normal"
    page.write(x, y - 0.15, label, weight=weight)
    page.write(x + wide, y - 0.15, probability(value), ha="right", weight=weight)
    page.tile((x, y - 0.5), (wide, 0.16), TRACK, edgecolor="#BBBBBB", linewidth=0.8)
    page.tile((x, y - 0.5), (wide * value, 0.16), DRAFTER, linewidth=0.8)


class Found(NamedTuple):
    """What a look-up finds after a word of a text: tokens of the match, drafted ones, and the right ones."""

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
    words, matches, drafted, right = zip(*found, strict=True)
    wrong = [one.drafted - one.right for one in found]
    figure, axes = charts.chart(12, 6, "the text so far ends in", "tokens", "y")
    for look, floors, heights, said in ((RIGHT, 0, right, "right"), (WRONG, right, wrong, "wrong")):
        bar = charts.area(look) | {"label": f"{look.glyph} drafted, {said}"}
        axes.bar(range(len(found)), heights, 0.7, floors, **bar)
    dots: dict[str, Any] = {"mfc": MATCH.colour, "mec": "black", "ms": 14, "clip_on": False}
    axes.plot(matches, "k:", marker=MATCH.marker, label="the match", **dots)
    axes.set_xticks(range(len(found)), map(shown, words), rotation=90, parse_math=False)
    axes.tick_params(axis="x", pad=12)  # points of the match lie on the axis, too
    axes.set_yticks(range(0, max([k, *matches]) + 2, 2))
    charts.keys(axes, columns=3)
    values = {"words": len(found), "match": max(matches), "draft": max(drafted), "k": k}
    rows = [["text ends in", "match", "drafted", f"{RIGHT.glyph} right", f"{WRONG.glyph} wrong"]]
    rows += [[shown(word), *map(str, [*one, off])] for (word, *one), off in zip(found, wrong, strict=True)]
    return worded("draft-growth", figure, aligned(rows), kept=sum(right), drafted=sum(drafted), **values)
