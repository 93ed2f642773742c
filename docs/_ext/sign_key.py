"""The key of signs and colours: tables of what `minispec.show` draws with, and rounds of the recorded run."""

from __future__ import annotations

import html
from collections.abc import Sequence
from textwrap import fill

from run_tables import verdicts
from running_example import run

from minispec.core.records import Round
from minispec.io.checkpoint import load_pair
from minispec.show.signs import DRAFTER, STATES, TARGET
from minispec.show.step_html import bar_fill, paint
from minispec.show.text import FANCY, PLAIN, kinds, legend, marked

Cell = str | tuple[str, str]  # words; or a state or distribution, and the word that is shown in its colours
COLOURS = {
    "#DDDDDD": "grey",
    "#F0E442": "yellow",
    "#FFFFFF": "white, dashed underline",
    "#56B4E9": "light blue",
    "#009E73": "green",
    "#D55E00": "vermilion",
    "#E69F00": "orange",
    "#0072B2": "blue",
    "#D9D9D9": "light grey",
    "#767676": "white on grey",
}
LOOKS = {
    "p": ("what the target says", TARGET),
    "q": ("what the draft says", DRAFTER),
    "residual": ("p − q where it is positive, scaled to 1", STATES["correction"]),
}


def states_table() -> list[list[Cell]]:
    """Returns a line of heads, then a line a state: its sign, how it looks, its colour."""
    lines: list[list[Cell]] = [["sign", "state", "colour", "in ASCII"]]
    for name, state in STATES.items():
        colour = COLOURS[state.colour] + (", hatched" if state.hatch else "")
        if name == "rejected":
            colour += "; struck through in text"
        lines.append([state.glyph or "none", (name, state.word), colour, PLAIN.get(name, "")])
    return lines


def distributions_table() -> list[list[Cell]]:
    """Returns a line of heads, then a line for p, for q and for the residual."""
    lines: list[list[Cell]] = [["distribution", "what it is", "colour"]]
    for name, (meaning, look) in LOOKS.items():
        lines.append([(name, name), meaning, COLOURS[look.colour] + (", hatched" if look.hatch else "")])
    return lines


def round_table(r: Round, words: Sequence[str]) -> list[list[Cell]]:
    """Returns a round by position: drafted, verified, committed, and what the target's cache loses."""
    drafted = [words[token] for token in r.draft.tokens[0, : r.drafted(0)].tolist()]
    emitted = [words[token] for token in r.emitted[0]]
    kept = len(emitted)  # the pending token and all that is committed but the last: so many slots stay

    def line(name: str, first: Cell, states: Sequence[str], texts: Sequence[str]) -> list[Cell]:
        cells: list[Cell] = list(zip(states, texts, strict=True))
        return [name, first, *cells, *[""] * (len(drafted) + 1 - len(cells))]

    lines = [
        ["", "pending", *(str(i + 1) for i in range(len(drafted) + 1))],
        line("drafted", ("pending", words[int(r.pending[0])]), ["drafted"] * len(drafted), drafted),
        line("verified", "", verdicts(r), drafted),
        line("committed", "", kinds(r, 0), emitted),
    ]
    lost = [("rolled back", word) for word in drafted[kept - 1 :]]
    if lost:
        lines.append(["cut from the target’s cache", *[""] * kept, *lost, ""])
    return lines


def in_terminal(signs: str) -> str:
    """Returns the recorded text as a terminal shows it, and the legend: with signs, or in `ascii`."""
    glyphs = FANCY if signs == "terminal" else PLAIN
    shown = marked(run("rejection").trace.rounds, load_pair("stories").tokenizer, glyphs)
    text = fill("".join(part.plain for part in shown).strip(), 76)
    return f"{text}\n\n{legend(glyphs).plain}"


def coloured(cell: Cell) -> str:
    """Returns a cell as HTML: words as they are; a state in its colours, with its sign."""
    if isinstance(cell, str):
        return cell
    name, word = cell
    if name in STATES:
        text = html.escape(f"{STATES[name].glyph} {word.strip()}".strip())
        return f'<span style="padding:0 0.35em;white-space:nowrap;{paint(name)}">{text}</span>'
    bar = f'<span style="display:inline-block;width:3em;height:0.8em;background:{bar_fill(name)}"></span>'
    return f"{bar} {word}"
