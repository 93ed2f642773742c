"""What the draft thought at each guess: its law q, one small chart per drafted token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from torch import Tensor

from minispec.core.records import Round
from minispec.show.plots.board import GREY, board, chance, quoted, shown, widest, write
from minispec.show.plots.picture import Picture
from minispec.show.plots.style import DRAFTER

MARGIN = 0.25  # inches, around the page and between charts
ENTRY = 0.62  # height of a word and its bar
ACROSS = 5  # charts beside each other


@dataclass(frozen=True)
class Candidate:
    """One token of a law.

    Attributes:
        token: its id.
        probability: what the law gives it.
        drawn: whether it is the one that was drafted.
    """

    token: int
    probability: float
    drawn: bool


def candidates(law: Tensor, drawn: int, top: int = 5) -> list[Candidate]:
    """Returns the most probable tokens of a law, most probable first, the drawn one always among them.

    Args:
        law: [V].
        drawn: the id that was drafted.
        top: how many; tokens of probability 0 are left out unless drawn.

    Raises:
        ValueError: if `top` is less than 1.
    """
    if top < 1:
        raise ValueError(f"top must be at least 1, not {top}")
    values = law.double().tolist()
    order = sorted(range(len(values)), key=lambda token: (-values[token], token))[:top]
    if drawn not in order:
        order[-1] = drawn
    return [Candidate(t, values[t], t == drawn) for t in order if values[t] > 0 or t == drawn]


def draft_bars(r: Round, words: Sequence[str], row: int = 0, top: int = 5) -> Picture:
    """Draws the law of each guess of a round, the drafted token marked.

    Args:
        r: a round that drafted something.
        words: the text of every token id.
        row: which row.
        top: how many tokens a chart shows.

    Returns:
        The picture; its data is `candidates`, guess by guess.

    Raises:
        ValueError: if nothing was drafted for the row.
    """
    count = r.drafted(row)
    if not r.live[row] or count == 0:
        raise ValueError(f"round {r.index} drafted nothing for row {row}")
    tokens = r.draft.tokens[row, :count].tolist()
    guesses = [candidates(r.draft.probs[row, i], token, top) for i, token in enumerate(tokens)]
    wide = max(widest(_label(c, words) for guess in guesses for c in guess) + 0.9, 2.3)
    lines, across = -(-count // ACROSS), min(count, ACROSS)
    high = 0.55 + ENTRY * max(map(len, guesses))
    figure, axes = board(max((wide + MARGIN) * across + MARGIN, 6.2), (high + MARGIN) * lines + MARGIN + 0.5)
    top_of_page = axes.get_ylim()[1] - MARGIN
    for place, guess in enumerate(guesses):
        x = MARGIN + (place % ACROSS) * (wide + MARGIN)
        _chart(axes, (x, top_of_page - (place // ACROSS) * (high + MARGIN)), wide, place + 1, guess, words)
    write(axes, MARGIN, 0.35, "◀ drafted        length of a bar: q, the draft's law", color=GREY)
    twin = [
        f"guess {place + 1}: " + "  ".join(_entry(c, words) for c in guess)
        for place, guess in enumerate(guesses)
    ]
    return Picture("draft", figure, _alt(guesses, words), _caption(guesses, words), "\n".join(twin))


def _chart(
    axes: Axes,
    corner: tuple[float, float],
    wide: float,
    number: int,
    guess: Sequence[Candidate],
    words: Sequence[str],
) -> None:
    """Draws one law downwards from its upper left corner: words, numbers, and bars under them."""
    x, y = corner
    write(axes, x, y - 0.2, f"guess {number}", weight="bold")
    y -= 0.55
    for candidate in guess:
        weight = "bold" if candidate.drawn else "normal"
        write(axes, x, y - 0.15, _label(candidate, words), weight=weight)
        write(axes, x + wide - 0.1, y - 0.15, chance(candidate.probability), ha="right", weight=weight)
        bar = (x, y - 0.5), wide - 0.1, 0.16
        axes.add_patch(Rectangle(*bar, facecolor="white", edgecolor="#BBBBBB", linewidth=0.8))
        full = (x, y - 0.5), (wide - 0.1) * candidate.probability, 0.16
        look: dict[str, Any] = {
            "facecolor": DRAFTER.colour,
            "hatch": DRAFTER.hatch,
            "edgecolor": "black",
            "linewidth": 0.8,
        }
        axes.add_patch(Rectangle(*full, **look))
        y -= ENTRY


def _label(candidate: Candidate, words: Sequence[str]) -> str:
    return shown(words[candidate.token]) + (" ◀" if candidate.drawn else "")


def _entry(candidate: Candidate, words: Sequence[str]) -> str:
    return f"{_label(candidate, words)} {chance(candidate.probability)}"


def _alt(guesses: Sequence[Sequence[Candidate]], words: Sequence[str]) -> str:
    drawn = [next(c for c in guess if c.drawn) for guess in guesses]
    said = ", ".join(f"{quoted(words[c.token])} with q = {chance(c.probability)}" for c in drawn)
    return f"{len(guesses)} bar charts, one per drafted token, of the draft's law q. It drafted {said}."


def _caption(guesses: Sequence[Sequence[Candidate]], words: Sequence[str]) -> str:
    drawn = [next(c for c in guess if c.drawn) for guess in guesses]
    if all(c.probability == 1 for c in drawn):
        return (
            f"At temperature 0 the draft's law is certain: each of its guesses has q = 1 ({len(drawn)} here)."
        )
    least = min(drawn, key=lambda c: c.probability)
    return (
        f"The draft was least sure of its guess {drawn.index(least) + 1}, {quoted(words[least.token])}: "
        f"it gave it q = {chance(least.probability)}."
    )
