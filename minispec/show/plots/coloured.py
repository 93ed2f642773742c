"""The text of a run, each token after the sign of how it came about, and what was rejected on the way."""

from collections import Counter
from collections.abc import Sequence

from minispec.io.trace import Trace
from minispec.show.plots.board import GREY, SPACE, Board, in_order, legend_height, text_width, worded
from minispec.show.plots.style import Picture
from minispec.show.signs import STATES
from minispec.show.text import kinds

MARGIN = 0.2  # inches, around the page
WIDTH = 13.0  # of the page
LINE = 0.55  # height of a line of text
BLANK = 0.1  # width of a blank between tokens
Marked = tuple[str, str]  # a token's text, and the name of its state in `STATES`


def marked_tokens(trace: Trace, words: Sequence[str], row: int = 0) -> list[Marked]:
    """Returns the text and the state of every token of a row, prompt included, rejected ones too.

    A rejected token stands before the correction that replaces it, and is no part of the text. `words` has
    the text of every token id.
    """
    tokens = [(words[token], "prompt") for token in trace.prompts[row]]
    for r in trace.rounds:
        for token, state in zip(r.emitted[row], kinds(r, row), strict=True):
            if state == "correction":
                tokens.append((words[int(r.draft.tokens[row, r.accepted(row)])], "rejected"))
            tokens.append((words[token], state))
    return tokens


def coloured_text(trace: Trace, words: Sequence[str]) -> Picture:
    """Draws the text of a trace's first row with every token in the look of its state; words: by token id."""
    tokens = marked_tokens(trace, words)
    lines = _broken(tokens)
    states = in_order(state for _, state in tokens)
    below = legend_height(states, WIDTH - 2 * MARGIN) + 0.4
    page = Board(WIDTH, below + LINE * len(lines) + MARGIN)
    for number, line in enumerate(lines):
        x, y = MARGIN, page.height - MARGIN - (number + 1) * LINE
        for i, (text, state) in enumerate(line):
            x += BLANK if i and text[:1].isspace() else 0.0
            size = (_width(text, state), LINE - 0.1)
            if state == "prompt":
                page.write(x, y + size[1] / 2, _label(text, state), color=GREY)
            else:
                page.tile((x, y), size, STATES[state], _label(text, state), linewidth=0.6)
            if state == "rejected":
                ends = x + text_width(STATES[state].glyph) + 0.1, x + size[0] - 0.05
                page.axes.plot(ends, [y + size[1] / 2 - 0.02] * 2, color="black", linewidth=2)
            x += size[0]
    page.legend([s for s in states if s is not STATES["prompt"]], MARGIN, below - 0.2)
    count = Counter(state for _, state in tokens)
    new = count["accepted"] + count["correction"] + count["bonus"]
    calls = sum(r.live[0] for r in trace.rounds)
    twin = "".join(
        " " * text.startswith(" ") + STATES[state].glyph + _said(text.lstrip(" ")) for text, state in tokens
    )
    return worded("coloured", page.figure, twin, {"count": count, "new": new, "calls": calls})


def _said(text: str) -> str:
    return text.replace("⏹", "<end>").replace("\n", "⏎")


def _label(text: str, state: str) -> str:
    return STATES[state].glyph + (_said(text).strip(" ").replace("$", r"\$") or SPACE)


def _width(text: str, state: str) -> float:
    return text_width(_label(text, state)) + (0.0 if state == "prompt" else 0.14)


def _broken(tokens: Sequence[Marked]) -> list[list[Marked]]:
    """Breaks the text into lines that fit the page, before a blank where there is one."""
    words: list[list[Marked]] = []
    for text, state in tokens:
        if not words or text[:1].isspace():
            words.append([])
        words[-1].append((text, state))
    lines: list[list[Marked]] = [[]]
    space = 0.0
    for word in words:
        wide = sum(_width(*token) for token in word) + BLANK
        if lines[-1] and space + wide > WIDTH - 2 * MARGIN:
            lines.append([])
            space = 0.0
        lines[-1] += word
        space += wide
    return lines
