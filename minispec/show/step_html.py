"""Steps as HTML, by the template `step.html`: the text, the round as a table, bars, the number drawn."""

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from jinja2 import Environment

from minispec.show.signs import DRAFTER, STATES, TARGET
from minispec.show.step_records import PHASES, Step, Token
from minispec.show.text import count, probability, readable, shown

LEGEND = [state for state in STATES if state not in ("prompt", "committed")]  # those that tokens have here


def paint(state: str) -> str:
    """Returns the inline style of a state: a light wash of its colour, and a line in the colour itself."""
    colour = STATES[state].colour
    if state == "pending":
        return f"background:{colour};color:#1b1b1b;border-bottom:3px dashed #555555"
    if state == "rolled back":
        return f"background:{colour};color:#ffffff;border-bottom:3px solid {colour}"
    struck = ";text-decoration:line-through" if state == "rejected" else ""
    return f"background:{wash(colour)};color:#1b1b1b;border-bottom:3px solid {colour}{struck}"


def wash(colour: str, share: float = 0.22) -> str:
    """Returns a colour mixed with white: `#RRGGBB` with this share of it."""
    parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(255 - share * (255 - part)):02x}" for part in parts)


def bar_fill(name: str) -> str:
    """Returns how bars of `p`, `q` or the `residual` are filled, as CSS."""
    dark = DRAFTER.colour
    light = wash(dark, 0.55)
    hatched = f"repeating-linear-gradient(45deg,{dark},{dark} 3px,{light} 3px,{light} 6px)"
    return {"p": TARGET.colour, "q": hatched, "residual": STATES["correction"].colour}[name]


def blanks(text: str) -> str:
    """Returns the spaces that a token begins with: its sign stands after them."""
    return text[: len(text) - len(text.lstrip(" "))] if text.strip(" ") else ""


def runs(tokens: Sequence[Token]) -> list[tuple[str, list[Token]]]:
    """Returns the stretches of tokens of one state, each after that state."""
    return [(state, list(run)) for state, run in groupby(tokens, attrgetter("state"))]


def read(name: str) -> str:
    """Returns the text of a file beside this one."""
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


# In the rules & is the stepper, named twice: so they are stronger than those of the page around it.
STYLE = read("step.css").replace("&", ".minispec-stepper.minispec-stepper").replace("\n  ", " ").strip()
SCRIPT = "\n" + read("step.js")
HELPERS = (bar_fill, blanks, count, paint, probability, readable, runs, shown)
PAGES = Environment(autoescape=True, keep_trailing_newline=True)
PAGES.globals |= {helper.__name__: helper for helper in HELPERS}
PAGES.globals |= {"STATES": STATES, "LEGEND": LEGEND, "PHASES": PHASES, "style": STYLE, "script": SCRIPT}
STEPPER = PAGES.from_string("".join(map(str.strip, read("step.html").splitlines())))
PAGE = PAGES.from_string(read("page.html"))


def stepper_html(title: str, steps: Sequence[Step], sampled: bool) -> str:
    """Returns steps as a piece of HTML, an open block for each.

    Where tokens are not drawn (`sampled`), the rows of probabilities are left out.
    """
    return STEPPER.render(title=title, steps=steps, sampled=sampled)
