"""The text of a run, each token in the colour and behind the glyph of how it came about."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

from minispec.io.trace import Trace
from minispec.show.plots.board import board, in_order, legend, legend_height, text_width, tile, write
from minispec.show.plots.picture import Picture
from minispec.show.plots.style import STATES
from minispec.show.text import kinds

MARGIN = 0.2  # inches, around the page
LINE = 0.55  # height of a line of text
BLANK = 0.1  # width of a blank between tokens


@dataclass(frozen=True)
class Mark:
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


def marks(trace: Trace, words: Sequence[str], row: int = 0) -> list[Mark]:
    """Returns the whole text of a row, prompt included, token by token.

    Args:
        trace: any.
        words: the text of every token id.
        row: which row.
    """
    told = [Mark(token, words[token], "prompt", -1) for token in trace.prompts[row]]
    for r in trace.rounds:
        for token, kind in zip(r.emitted[row], kinds(r, row), strict=True):
            told.append(Mark(token, words[token], kind, r.index))
    return told


def coloured_text(trace: Trace, words: Sequence[str], row: int = 0, width: float = 13.0) -> Picture:
    """Draws the text of a run with every token in the look of its state.

    Args:
        trace: any.
        words: the text of every token id.
        row: which row.
        width: of the figure, in inches; lines are broken there.

    Returns:
        The picture; its data is `marks`. `coloured_html` gives the same as HTML.
    """
    told = marks(trace, words, row)
    lines = _broken(told, width - 2 * MARGIN)
    states = in_order(mark.state for mark in told)
    below = legend_height(states, width - 2 * MARGIN) + 0.4
    figure, axes = board(width, below + LINE * len(lines) + MARGIN)
    top = axes.get_ylim()[1] - MARGIN
    for number, line in enumerate(lines):
        x, y = MARGIN, top - (number + 1) * LINE
        for place, mark in enumerate(line):
            x += BLANK if place and mark.text[:1].isspace() else 0.0
            size = (_width(mark), LINE - 0.1)
            if mark.state == "prompt":
                write(axes, x, y + size[1] / 2, _label(mark))
            else:
                tile(axes, (x, y), size, STATES[mark.state], _label(mark), linewidth=0.6)
            x += size[0]
    legend(axes, (MARGIN, below - 0.2), [s for s in states if s is not STATES["prompt"]], width - 2 * MARGIN)
    return Picture("coloured", figure, _alt(told), _caption(told, trace, row), _twin(told))


def coloured_html(trace: Trace, words: Sequence[str], row: int = 0) -> str:
    """Returns the text of a run as HTML with inline styles, which needs no other file.

    Each token is a `span` with `data-state` and `data-token`; the glyph says the state without colour.

    Args:
        trace: any.
        words: the text of every token id.
        row: which row.
    """
    spans = []
    for mark in marks(trace, words, row):
        state = STATES[mark.state]
        word = mark.text.lstrip(" ")
        blank = " " if word != mark.text else ""
        glyph = "" if mark.state == "prompt" else state.glyph
        look = f"background:{state.colour};color:{state.ink};border-radius:0.2em;padding:0 0.15em"
        look = "" if mark.state == "prompt" else f' style="{look}" title="{html.escape(state.word)}"'
        text = html.escape(_said(word))
        spans.append(
            f'{blank}<span data-state="{mark.state}" data-token="{mark.token}"{look}>{glyph}{text}</span>'
        )
    keys = [s for s in in_order(m.state for m in marks(trace, words, row)) if s is not STATES["prompt"]]
    key = "   ".join(f"{state.glyph} {html.escape(state.word)}" for state in keys)
    frame = (
        "background:#FFFFFF;color:#000000;padding:0.6em;line-height:1.8;max-width:60em;white-space:pre-wrap"
    )
    return f'<div style="{frame}"><div>{"".join(spans)}</div><div>{key}</div></div>'


def _said(text: str) -> str:
    return text.replace("⏹", "<end>").replace("\n", "⏎")


def _label(mark: Mark) -> str:
    word = _said(mark.text).strip(" ").replace("$", r"\$") or "·"
    return word if mark.state == "prompt" else f"{STATES[mark.state].glyph}{word}"


def _width(mark: Mark) -> float:
    return text_width(_label(mark)) + (0.0 if mark.state == "prompt" else 0.14)


def _broken(told: Sequence[Mark], width: float) -> list[list[Mark]]:
    """Breaks the text into lines no wider than so many inches, before a blank where there is one."""
    lines: list[list[Mark]] = [[]]
    space = 0.0
    for word in _words(told):
        wide = sum(map(_width, word)) + BLANK
        if lines[-1] and space + wide > width:
            lines.append([])
            space = 0.0
        lines[-1] += word
        space += wide
    return lines


def _words(told: Sequence[Mark]) -> list[list[Mark]]:
    """Groups tokens that no blank separates."""
    words: list[list[Mark]] = []
    for mark in told:
        if not words or mark.text[:1].isspace():
            words.append([])
        words[-1].append(mark)
    return words


def _twin(told: Sequence[Mark]) -> str:
    signs = {"prompt": ""} | {name: state.glyph for name, state in STATES.items() if name != "prompt"}
    pieces = []
    for mark in told:
        word = mark.text.lstrip(" ")
        pieces.append((" " if word != mark.text else "") + signs[mark.state] + _said(word))
    return "".join(pieces)


def _counts(told: Sequence[Mark]) -> dict[str, int]:
    return {state: sum(m.state == state for m in told) for state in ("draft", "correction", "bonus")}


def _alt(told: Sequence[Mark]) -> str:
    count = _counts(told)
    return (
        f"A text in which each of {sum(count.values())} new tokens has the colour and the sign of its state: "
        f"{count['draft']} drafted and accepted, {count['correction']} corrections, {count['bonus']} bonus."
    )


def _caption(told: Sequence[Mark], trace: Trace, row: int) -> str:
    new, calls = sum(_counts(told).values()), sum(r.live[row] for r in trace.rounds)
    return f"{new} tokens took {calls} target calls: {_counts(told)['draft']} of them the draft had guessed."
