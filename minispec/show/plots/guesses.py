"""What a class has guessed: one row of bars per question, the right answer marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import fill

from minispec.show.plots.style import SMALL, STATES, TEXT, Picture, State, sheet

WIDE = 46  # characters of a label's line
RIGHT, WRONG, OPEN = STATES["draft"], STATES["correction"], STATES["untested"]


@dataclass(frozen=True)
class AnswerCount:
    """How many gave one answer.

    Attributes:
        answer: as it was given.
        count: how many gave it.
        right: whether it is right; None if that depends on the machine.
        belief: what somebody believes who gives it, or an empty string.
    """

    answer: str
    count: int
    right: bool | None = None
    belief: str = ""


def guess_bars(question: str, given: Sequence[AnswerCount], unanswered: int = 0) -> Picture:
    """Draws how many gave which answer.

    Args:
        question: what was asked.
        given: the answers, from the top down.
        unanswered: how many gave none; said in the caption.

    Raises:
        ValueError: if there are no answers.
    """
    if not given:
        raise ValueError("there are no answers to draw")
    labels = [fill(one.answer, WIDE) for one in given]
    lines = sum(label.count("\n") + 1 for label in labels)
    title = fill(question, 88)
    figure = sheet(14, 1.0 + 0.34 * lines + 0.3 * len(given) + 0.34 * (title.count("\n") + 1))
    axes = figure.add_subplot()
    most = max(max(one.count for one in given), 1)
    for row, one in enumerate(given):
        look = look_of(one)
        axes.barh(row, one.count, 0.62, color=look.colour, edgecolor="black", hatch=look.hatch)
        sign = look.glyph if one.right is not None else ""
        axes.text(one.count + most * 0.015, row, f"{one.count} {sign}".strip(), va="center", fontsize=TEXT)
    axes.set_yticks(range(len(given)), labels, fontsize=SMALL)
    axes.invert_yaxis()
    axes.set_xlim(0, most * 1.15)
    axes.set_xticks([])
    for side in ("top", "right", "bottom"):
        axes.spines[side].set_visible(False)
    figure.suptitle(title, fontsize=TEXT, x=0.01, ha="left")
    total, right = sum(one.count for one in given), sum(one.count for one in given if one.right)
    known = any(one.right for one in given)
    caption = f"{total} answered" + (f", {right} of them right" if known else "")
    caption += f"; {unanswered} gave no answer." if unanswered else "."
    twin = "\n".join(
        f"{one.count:4} {look_of(one).glyph if one.right is not None else ' '} {one.answer}" for one in given
    )
    alt = f"Bars: how a class answered the question “{question}” {caption}"
    return Picture("guesses", figure, alt, caption, f"{question}\n{twin}")


def look_of(one: AnswerCount) -> State:
    """Returns how an answer is drawn: as what was accepted, as what was corrected, or plain."""
    if one.right is None:
        return OPEN
    return RIGHT if one.right else WRONG
