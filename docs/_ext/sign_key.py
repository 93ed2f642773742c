"""The key of signs and colours: tables of what `minispec.show` draws with, and rounds of the recorded run.

A cell is words; or a state or distribution, and the word that is shown in its colours. Heads stand first.
"""

import html
from textwrap import fill

from running_example import drafted_of, run

from minispec.io.checkpoint import load_pair
from minispec.show.signs import DRAFTER, STATES, TARGET
from minispec.show.step_html import bar_fill, paint
from minispec.show.text import FANCY, PLAIN, kinds, legend, marked, verdicts

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
    "p": ("the target's distribution", TARGET),
    "q": ("the draft's distribution", DRAFTER),
    "residual": ("p − q where it is positive, scaled to 1", STATES["correction"]),
}


def colour(look):
    """Returns what a state or a distribution looks like, in words."""
    return COLOURS[look.colour] + (", hatched" if look.hatch else "")


def states_table():
    """Returns a line a state: its sign, how it looks, its colour."""
    lines = [["sign", "state", "colour", "in ASCII"]]
    for name, state in STATES.items():
        struck = "; struck through in text" if name == "rejected" else ""
        lines.append([state.glyph or "none", (name, state.word), colour(state) + struck, PLAIN.get(name, "")])
    return lines


def distributions_table():
    """Returns a line for p, for q and for the residual."""
    lines = [[(name, name), meaning, colour(look)] for name, (meaning, look) in LOOKS.items()]
    return [["distribution", "what it is", "colour"], *lines]


def round_table(r, words):
    """Returns a round by position: drafted, verified, committed, and what the target's cache loses."""
    drafted = [words[token] for token in drafted_of(r)]
    emitted = [words[token] for token in r.emitted[0]]
    positions = range(1, len(drafted) + 2)
    lines = [
        ["", "pending", *map(str, positions)],
        ["drafted", ("pending", words[int(r.pending[0])]), *(("drafted", word) for word in drafted)],
        ["verified", "", *zip(verdicts(r, 0), drafted, strict=True)],
        ["committed", "", *zip(kinds(r, 0), emitted, strict=True)],
    ]
    # The pending token and all that is committed but the last stay in the cache.
    if lost := [("rolled back", word) for word in drafted[len(emitted) - 1 :]]:
        lines.append(["cut from the target’s cache", *[""] * len(emitted), *lost])
    return [line + [""] * (len(lines[0]) - len(line)) for line in lines]


def in_terminal(signs):
    """Returns the recorded text as a terminal shows it, and the legend: with signs, or in `ascii`."""
    glyphs = FANCY if signs == "terminal" else PLAIN
    shown = marked(run("rejection").trace.rounds, load_pair("stories").tokenizer, glyphs)
    text = fill("".join(part.plain for part in shown).strip(), 76)
    return f"{text}\n\n{legend(glyphs).plain}"


def coloured(cell):
    """Returns a cell as HTML: words as they are; a state in its colours, with its sign."""
    if isinstance(cell, str):
        return cell
    name, word = cell
    if name in STATES:
        text = html.escape(STATES[name].glyph + word.strip())
        return f'<span style="padding:0 0.35em;white-space:nowrap;{paint(name)}">{text}</span>'
    bar = f'<span style="display:inline-block;width:3em;height:0.8em;background:{bar_fill(name)}"></span>'
    return f"{bar} {word}"
