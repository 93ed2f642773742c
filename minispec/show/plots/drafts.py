"""What the draft thought at each guess: its distribution q, one small chart per drafted token."""

from collections.abc import Sequence

from torch import Tensor

from minispec.core.records import Round
from minispec.show.plots.board import GREY, Board, probability, quoted, shown, widest, worded
from minispec.show.plots.style import DRAFTER, Picture
from minispec.show.signs import State

MARGIN = 0.25  # inches, around the page and between charts
ENTRY = 0.62  # height of a word and its bar
ACROSS = 5  # charts beside each other
TOP = 5  # tokens per chart
TRACK = State("white", "")


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
        ValueError: if nothing was drafted.
    """
    count = r.drafted(0)
    if not r.live[0] or count == 0:
        raise ValueError(f"round {r.index} drafted nothing")
    drafted = r.draft.tokens[0, :count].tolist()
    guesses = [
        [(shown(words[t]) + " ◀" * (t == drawn), value) for t, value in candidates(q, drawn).items()]
        for q, drawn in zip(r.draft.probs[0], drafted, strict=False)
    ]
    wide = max(widest(label for guess in guesses for label, _ in guess) + 0.9, 2.3)
    lines, across = -(-count // ACROSS), min(count, ACROSS)
    high = 0.55 + ENTRY * max(map(len, guesses))
    page = Board(max((wide + MARGIN) * across + MARGIN, 6.2), (high + MARGIN) * lines + MARGIN + 0.5)
    twin = []
    for i, guess in enumerate(guesses):
        x = MARGIN + (i % ACROSS) * (wide + MARGIN)
        y = page.height - MARGIN - (i // ACROSS) * (high + MARGIN)
        page.write(x, y - 0.2, f"guess {i + 1}", weight="bold")
        for line, (label, value) in enumerate(guess):
            _entry(page, (x, y - 0.55 - line * ENTRY), wide - 0.1, label, value)
        twin.append(f"guess {i + 1}: " + "  ".join(f"{label} {probability(value)}" for label, value in guess))
    page.write(MARGIN, 0.35, "◀ drafted        length of a bar: q, the draft's distribution", color=GREY)
    drawn_q = [float(r.draft.probs[0, i, token]) for i, token in enumerate(drafted)]
    names = [quoted(words[token]) for token in drafted]
    said = ", ".join(f"{name} with q = {probability(q)}" for name, q in zip(names, drawn_q, strict=True))
    least = min(range(count), key=lambda i: drawn_q[i])
    values = {"name": names[least], "number": least + 1, "q": probability(drawn_q[least])}
    values |= {"count": count, "drafted": said}
    return worded("draft", page.figure, "\n".join(twin), values, "certain" if drawn_q[least] == 1 else "")


def _entry(page: Board, corner: tuple[float, float], wide: float, label: str, value: float) -> None:
    """Draws a word, its probability and a bar under them, downwards from the upper left corner."""
    x, y = corner
    weight = "bold" if "◀" in label else "normal"
    page.write(x, y - 0.15, label, weight=weight)
    page.write(x + wide, y - 0.15, probability(value), ha="right", weight=weight)
    page.tile((x, y - 0.5), (wide, 0.16), TRACK, edgecolor="#BBBBBB", linewidth=0.8)
    page.tile((x, y - 0.5), (wide * value, 0.16), DRAFTER, linewidth=0.8)
