"""What the draft thought at each guess: its distribution q, one small chart per drafted token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from minispec.core.records import Round
from minispec.show.plots.board import GREY, Board, probability, quoted, shown, widest
from minispec.show.plots.style import DRAFTER, Picture, State

MARGIN = 0.25  # inches, around the page and between charts
ENTRY = 0.62  # height of a word and its bar
ACROSS = 5  # charts beside each other
TOP = 5  # tokens per chart
TRACK = State("white", "")


@dataclass(frozen=True)
class Candidate:
    """One token that could have been drafted.

    Attributes:
        token: its id.
        probability: what q gives it.
        drawn: whether it is the one that was drafted.
    """

    token: int
    probability: float
    drawn: bool


def candidates(q: Tensor, drawn: int, top: int = TOP) -> list[Candidate]:
    """Returns the most probable tokens, most probable first, the drawn one always among them.

    Args:
        q: [V], the draft's distribution.
        drawn: the id that was drafted.
        top: how many, at least 1; tokens of probability 0 are left out unless drawn.
    """
    values = q.double().tolist()
    order = sorted(range(len(values)), key=lambda token: (-values[token], token))[:top]
    if drawn not in order:
        order[-1] = drawn
    return [Candidate(t, values[t], t == drawn) for t in order if values[t] > 0 or t == drawn]


def draft_bars(r: Round, words: Sequence[str]) -> Picture:
    """Draws the distribution of each guess of a round's first row, the drafted token marked.

    Args:
        r: a round that drafted something.
        words: the text of every token id.

    Returns:
        The picture; its data is `candidates`, guess by guess.

    Raises:
        ValueError: if nothing was drafted.
    """
    count = r.drafted(0)
    if not r.live[0] or count == 0:
        raise ValueError(f"round {r.index} drafted nothing")
    guesses = [candidates(r.draft.probs[0, i], int(r.draft.tokens[0, i])) for i in range(count)]
    wide = max(widest(_label(c, words) for guess in guesses for c in guess) + 0.9, 2.3)
    lines, across = -(-count // ACROSS), min(count, ACROSS)
    high = 0.55 + ENTRY * max(map(len, guesses))
    page = Board(max((wide + MARGIN) * across + MARGIN, 6.2), (high + MARGIN) * lines + MARGIN + 0.5)
    twin = []
    for i, guess in enumerate(guesses):
        x = MARGIN + (i % ACROSS) * (wide + MARGIN)
        y = page.height - MARGIN - (i // ACROSS) * (high + MARGIN)
        page.write(x, y - 0.2, f"guess {i + 1}", weight="bold")
        for line, candidate in enumerate(guess):
            _entry(page, (x, y - 0.55 - line * ENTRY), wide - 0.1, candidate, words)
        said = "  ".join(f"{_label(c, words)} {probability(c.probability)}" for c in guess)
        twin.append(f"guess {i + 1}: {said}")
    page.write(MARGIN, 0.35, "◀ drafted        length of a bar: q, the draft's distribution", color=GREY)
    drawn = [next(c for c in guess if c.drawn) for guess in guesses]
    said = ", ".join(f"{quoted(words[c.token])} with q = {probability(c.probability)}" for c in drawn)
    alt = f"{count} bar charts, one per drafted token, of the draft's distribution q. It drafted {said}."
    return Picture("draft", page.figure, alt, _caption(drawn, words), "\n".join(twin))


def _entry(
    page: Board, corner: tuple[float, float], wide: float, candidate: Candidate, words: Sequence[str]
) -> None:
    """Draws a word, its probability and a bar under them, downwards from the upper left corner."""
    x, y = corner
    weight = "bold" if candidate.drawn else "normal"
    page.write(x, y - 0.15, _label(candidate, words), weight=weight)
    page.write(x + wide, y - 0.15, probability(candidate.probability), ha="right", weight=weight)
    page.tile((x, y - 0.5), (wide, 0.16), TRACK, edgecolor="#BBBBBB", linewidth=0.8)
    page.tile((x, y - 0.5), (wide * candidate.probability, 0.16), DRAFTER, linewidth=0.8)


def _label(candidate: Candidate, words: Sequence[str]) -> str:
    return shown(words[candidate.token]) + (" ◀" if candidate.drawn else "")


def _caption(drawn: Sequence[Candidate], words: Sequence[str]) -> str:
    if all(c.probability == 1 for c in drawn):
        return f"At temperature 0 the draft is certain: each of its guesses has q = 1 ({len(drawn)} here)."
    least = min(drawn, key=lambda c: c.probability)
    return (
        f"The draft was least sure of its guess {drawn.index(least) + 1}, {quoted(words[least.token])}: "
        f"it gave it q = {probability(least.probability)}."
    )
