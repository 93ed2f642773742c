"""The key of signs and colours on a page: a directive `signs`, whose argument says which part of it.

`states` and `distributions` are tables of what `minispec.show` draws with. `corrected` and `full` are rounds
of the recorded run, position by position. `terminal` and `ascii` are its text as a terminal shows it.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from textwrap import fill

from docutils import nodes
from run_tables import verdicts
from running_example import round_of, run
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata
from walk_nodes import scrolling, table

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
    looks = {
        "p": ("what the target says", TARGET),
        "q": ("what the draft says", DRAFTER),
        "residual": (
            "p − q where it is positive, scaled to 1",
            STATES["correction"],
        ),
    }
    lines: list[list[Cell]] = [["distribution", "what it is", "colour"]]
    for name, (meaning, look) in looks.items():
        hatched = ", hatched" if look.hatch else ""
        lines.append([(name, name), meaning, COLOURS[look.colour] + hatched])
    return lines


def round_table(r: Round, words: Sequence[str]) -> list[list[Cell]]:
    """Returns a round by position: drafted, verified, committed, and what the target's cache loses."""
    drafted = [words[token] for token in r.draft.tokens[0, : r.drafted(0)].tolist()]
    width = len(drafted) + 1
    emitted = [words[token] for token in r.emitted[0]]
    kept = len(emitted)  # the pending token and all that is committed but the last: so many slots stay

    def line(name: str, first: Cell, states: Sequence[str], texts: Sequence[str]) -> list[Cell]:
        cells: list[Cell] = list(zip(states, texts, strict=True))
        return [name, first, *cells, *[""] * (width - len(cells))]

    pending = ("pending", words[int(r.pending[0])])
    cut: list[Cell] = ["", *[""] * (kept - 1), *(("rolled back", word) for word in drafted[kept - 1 :])]
    lost = ["cut from the target’s cache", *cut, *[""] * (width + 1 - len(cut))]
    return [
        ["", "pending", *(str(i + 1) for i in range(width))],
        line("drafted", pending, ["drafted"] * len(drafted), drafted),
        line("verified", "", verdicts(r), drafted),
        line("committed", "", kinds(r, 0), emitted),
        *([lost] if len(cut) > kept else []),
    ]


def in_terminal(signs: str) -> str:
    """Returns the recorded text as a terminal shows it, and the legend: with signs, or in `ascii`."""
    glyphs = FANCY if signs == "terminal" else PLAIN
    pieces = marked(run("rejection").trace.rounds, load_pair("stories").tokenizer, glyphs)
    said = fill("".join(piece.plain for piece in pieces).strip(), 76)
    return f"{said}\n\n{legend(glyphs).plain}"


class SignsDirective(SphinxDirective):
    """One part of the key."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Returns the table or the text."""
        wanted = self.arguments[0]
        if wanted in ("terminal", "ascii"):
            said = in_terminal(wanted)
            return [scrolling(nodes.literal_block(said, said, language="text"), "The text in a terminal")]
        recording = run("greedy")
        makers = {
            "states": ("The states of a token", states_table),
            "distributions": ("Distributions", distributions_table),
            **{
                name: (
                    f"A round, {name}",
                    lambda name=name: round_table(round_of(recording, name), recording.words),
                )
                for name in ("corrected", "full")
            },
        }
        if wanted not in makers:
            choices = ", ".join([*makers, "terminal", "ascii"])
            raise self.error(f"there is no part called {wanted!r}; choose one of {choices}")
        label, make = makers[wanted]
        return [scrolling(table([[self.shown(cell) for cell in line] for line in make()]), label)]

    def shown(self, cell: Cell) -> str | nodes.Node:
        """Returns a cell: words as they are; a state in its colours, with its sign."""
        if isinstance(cell, str):
            return cell
        name, word = cell
        said = f"{STATES[name].glyph} {word.strip()}".strip() if name in STATES else word
        if self.env.app.builder.format != "html":
            return said
        shown = f'<span style="padding:0 0.35em;white-space:nowrap;{{}}">{html.escape(said)}</span>'
        if name in STATES:
            return nodes.raw("", shown.format(paint(name)), format="html")
        bar = f'<span style="display:inline-block;width:3em;height:0.8em;background:{bar_fill(name)}"></span>'
        return nodes.raw("", bar + shown.format(""), format="html")


def setup(app: Sphinx) -> ExtensionMetadata:
    """Registers the directive."""
    app.setup_extension("walk_nodes")
    app.add_directive("signs", SignsDirective)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
