"""The look of all figures: colours with a glyph each, sizes, and the frame that every figure starts from.

Okabe and Ito's colours, which people with colour-blindness can tell apart. A state is never told by colour
alone: each has a glyph, and where areas are filled, a hatch.
"""

from __future__ import annotations

from dataclasses import dataclass

from matplotlib.figure import Figure

TEXT = 18  # points: half the size is still readable
SMALL = 18  # nothing on a figure is smaller


@dataclass(frozen=True)
class State:
    """How one state of a token, a cache slot or a model is drawn, everywhere.

    Attributes:
        colour: of its area or its line.
        glyph: the sign that says the same without colour.
        ink: the colour of text on that area.
        hatch: the pattern of its area, or an empty string.
        marker: of its points in line charts.
        word: what it is called.
    """

    colour: str
    glyph: str
    ink: str = "black"
    hatch: str = ""
    marker: str = "o"
    word: str = ""


STATES = {
    "prompt": State("#DDDDDD", "·", marker="o", word="prompt"),
    "committed": State("#F0E442", "=", marker="s", word="committed"),
    "pending": State("#FFFFFF", "→", marker="D", word="pending"),
    "drafted": State("#56B4E9", "?", hatch="\\\\", marker="v", word="drafted"),
    "draft": State("#009E73", "✓", marker="^", word="drafted and accepted"),
    "rejected": State("#F4C7A5", "–", hatch="xx", marker="x", word="rolled back"),
    "untested": State("#B3B3B3", "○", marker="1", word="not tested"),
    "correction": State("#D55E00", "✗", marker="X", word="the target's correction"),
    "bonus": State("#0072B2", "★", ink="white", marker="*", word="the target's bonus"),
}
# p is always the target's law and q the draft's, in every chart that shows both.
TARGET = State("#0072B2", "p", ink="white", marker="o", word="target, p")
DRAFTER = State("#E69F00", "q", hatch="//", marker="s", word="draft, q")
GUESS = State("#CC79A7", "◆", marker="D", word="your guess")


def sheet(width: float = 10, height: float = 5) -> Figure:
    """Returns an empty figure, in inches, whose text stands at readable sizes.

    A page shows figures at about half of this size, so text is set twice as large as it should be read.
    """
    return Figure(figsize=(width, height), layout="constrained")
