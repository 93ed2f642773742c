"""The text of a run, each token after the sign of how it came about, and what was rejected on the way."""

from collections import Counter
from collections.abc import Iterator, Sequence

from minispec.io.trace import Trace
from minispec.show.plots.board import GREY, MARGIN, Board, in_order, text_width, worded
from minispec.show.plots.style import Picture
from minispec.show.signs import STATES
from minispec.show.text import shown, with_rejected

WIDTH = 13.0  # of the page, in inches
LINE = 0.55  # height of a line of text
BLANK = 0.1  # width of a blank between tokens
Marked = tuple[str, str]  # a token's text, and the name of its state in `STATES`


def marked_tokens(trace: Trace, words: Sequence[str], prompt: int = 0) -> list[Marked]:
    """Returns every token of a prompt and its text with its state, rejected ones too.

    A rejected token stands before the correction that replaces it, and is no part of the text. `words` has
    the text of every token id.
    """
    tokens = [(words[token], "prompt") for token in trace.prompts[prompt]]
    for r, row in trace.rounds_of(prompt):
        tokens += [(words[token], state) for token, state in with_rejected(r, row)]
    return tokens


def coloured_text(trace: Trace, words: Sequence[str]) -> Picture:
    """Draws a trace's first prompt and its text, every token in the look of its state; words: by token id."""
    tokens = marked_tokens(trace, words)
    page = Board(WIDTH)
    x = MARGIN
    y = -MARGIN - LINE
    for word in _words(tokens):
        if x > MARGIN and x + sum(_width(*token) for token in word) + BLANK > WIDTH - MARGIN:
            x = MARGIN
            y -= LINE
        x += BLANK if x > MARGIN else 0.0
        for text, state in word:
            _draw(page, x, y, text, state)
            x += _width(text, state)
    states = in_order(state for _, state in tokens if state != "prompt")
    count = Counter(state for _, state in tokens)
    new = count["accepted"] + count["correction"] + count["bonus"]
    calls = trace.statistics(0).target_calls
    twin = "".join(" " * text.startswith(" ") + _label(text, state) for text, state in tokens)
    return worded("coloured", page.end(y - MARGIN, states), twin, count=count, new=new, calls=calls)


def _words(tokens: Sequence[Marked]) -> Iterator[list[Marked]]:
    """Yields the tokens word by word: a line is broken before a blank only."""
    word: list[Marked] = []
    for token in tokens:
        if word and token[0][:1].isspace():
            yield word
            word = []
        word.append(token)
    yield word


def _draw(page: Board, x: float, y: float, text: str, state: str) -> None:
    """Draws a token to the right of a point; what was rejected is struck through."""
    look = STATES[state]
    label = _label(text, state)
    middle = y + (LINE - 0.1) / 2
    end = x + _width(text, state)
    if state == "prompt":
        page.write(x, middle, label, color=GREY)
    else:
        page.tile((x, y), (end - x, LINE - 0.1), look, label, linewidth=0.6)
    if state == "rejected":
        edges = [x + text_width(look.glyph) + 0.1, end - 0.05]
        page.axes.plot(edges, [middle - 0.02] * 2, color="black", linewidth=2, zorder=4)


def _label(text: str, state: str) -> str:
    return STATES[state].glyph + shown(text)


def _width(text: str, state: str) -> float:
    return text_width(_label(text, state)) + (0.0 if state == "prompt" else 0.14)
