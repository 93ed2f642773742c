"""The text of a run, each token in the colour and after the glyph of how it came about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from minispec.io.trace import Trace
from minispec.show.plots.board import Board, in_order, legend_height, text_width
from minispec.show.plots.style import STATES, Picture
from minispec.show.text import kinds

MARGIN = 0.2  # inches, around the page
WIDTH = 13.0  # of the page
LINE = 0.55  # height of a line of text
BLANK = 0.1  # width of a blank between tokens


@dataclass(frozen=True)
class MarkedToken:
    """One token of a text.

    Attributes:
        token: its id.
        text: what it says, with its blanks.
        state: `prompt`, `draft` (drafted and accepted), `correction` or `bonus`.
        round: in which round it came, or -1 for the prompt.
    """

    token: int
    text: str
    state: str
    round: int

    @property
    def label(self) -> str:
        """Its text without blanks, after the glyph of its state."""
        word = _said(self.text).strip(" ").replace("$", r"\$") or "·"
        return word if self.state == "prompt" else f"{STATES[self.state].glyph}{word}"

    @property
    def width(self) -> float:
        """Of the label's tile, in inches."""
        return text_width(self.label) + (0.0 if self.state == "prompt" else 0.14)


def marked_tokens(trace: Trace, words: Sequence[str], row: int = 0) -> list[MarkedToken]:
    """Returns the whole text of a row, prompt included, token by token.

    Args:
        trace: any.
        words: the text of every token id.
        row: which row.
    """
    told = [MarkedToken(token, words[token], "prompt", -1) for token in trace.prompts[row]]
    for r in trace.rounds:
        for token, kind in zip(r.emitted[row], kinds(r, row), strict=True):
            told.append(MarkedToken(token, words[token], kind, r.index))
    return told


def coloured_text(trace: Trace, words: Sequence[str], row: int = 0) -> Picture:
    """Draws the text of a run with every token in the look of its state.

    Args:
        trace: any.
        words: the text of every token id.
        row: which row.
    """
    told = marked_tokens(trace, words, row)
    lines = _broken(told)
    states = in_order(mark.state for mark in told)
    below = legend_height(states, WIDTH - 2 * MARGIN) + 0.4
    page = Board(WIDTH, below + LINE * len(lines) + MARGIN)
    for number, line in enumerate(lines):
        x, y = MARGIN, page.height - MARGIN - (number + 1) * LINE
        for i, mark in enumerate(line):
            x += BLANK if i and mark.text[:1].isspace() else 0.0
            size = (mark.width, LINE - 0.1)
            if mark.state == "prompt":
                page.write(x, y + size[1] / 2, mark.label)
            else:
                page.tile((x, y), size, STATES[mark.state], mark.label, linewidth=0.6)
            x += size[0]
    page.legend([s for s in states if s is not STATES["prompt"]], MARGIN, below - 0.2)
    count = Counter(mark.state for mark in told if mark.state != "prompt")
    alt = (
        f"A text in which each of {count.total()} new tokens has the colour and the sign of its state: "
        f"{count['draft']} drafted and accepted, {count['correction']} corrections, {count['bonus']} bonus."
    )
    calls = sum(r.live[row] for r in trace.rounds)
    caption = (
        f"{count.total()} tokens took {calls} target calls: {count['draft']} of them the draft had guessed."
    )
    return Picture("coloured", page.figure, alt, caption, _twin(told))


def _said(text: str) -> str:
    return text.replace("⏹", "<end>").replace("\n", "⏎")


def _broken(told: Sequence[MarkedToken]) -> list[list[MarkedToken]]:
    """Breaks the text into lines that fit the page, before a blank where there is one."""
    words: list[list[MarkedToken]] = []
    for mark in told:
        if not words or mark.text[:1].isspace():
            words.append([])
        words[-1].append(mark)
    lines: list[list[MarkedToken]] = [[]]
    space = 0.0
    for word in words:
        wide = sum(mark.width for mark in word) + BLANK
        if lines[-1] and space + wide > WIDTH - 2 * MARGIN:
            lines.append([])
            space = 0.0
        lines[-1] += word
        space += wide
    return lines


def _twin(told: Sequence[MarkedToken]) -> str:
    pieces = []
    for mark in told:
        word = mark.text.lstrip(" ")
        sign = "" if mark.state == "prompt" else STATES[mark.state].glyph
        pieces.append((" " if word != mark.text else "") + sign + _said(word))
    return "".join(pieces)
