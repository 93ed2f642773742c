"""One sign and one colour for each state of a token, in every figure, terminal, stepper and handout.

The colours are Okabe and Ito's, which people with colour-blindness can tell apart. A state is never told by
colour alone: each has a sign, and where areas are filled, a hatch. `docs/signs.md` shows the key.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class State:
    """How one state of a token, a cache slot or a model is drawn, everywhere."""

    colour: str  #: of its area or its line
    glyph: str = ""  #: the sign that says the same without colour; empty for plain text
    ink: str = "black"  #: the colour of text on that area
    hatch: str = ""  #: the pattern of its area, or an empty string
    marker: str = "o"  #: of its points in line charts
    word: str = ""  #: what it is called


STATES = {
    "prompt": State("#DDDDDD", "", marker="o", word="prompt"),
    "committed": State("#F0E442", "=", marker="s", word="committed"),
    "pending": State("#FFFFFF", "→", marker="D", word="pending"),
    "drafted": State("#56B4E9", "?", hatch="\\\\", marker="v", word="drafted, not tested yet"),
    "accepted": State("#009E73", "✓", marker="^", word="drafted and accepted"),
    "rejected": State("#D55E00", "✗", hatch="xx", marker="x", word="rejected"),
    "correction": State("#E69F00", "↳", marker="X", word="the target's correction"),
    "bonus": State("#0072B2", "★", ink="white", marker="*", word="the target's bonus"),
    "untested": State("#D9D9D9", "○", marker="1", word="drafted after a rejection, never tested"),
    "rolled back": State(
        "#767676", "⌫", ink="white", hatch="//", marker="4", word="rolled back from a cache"
    ),
}
# p is always the target's distribution and q the draft's, in every chart that shows both.
TARGET = State("#0072B2", "p", ink="white", marker="o", word="target, p")
DRAFTER = State("#56B4E9", "q", hatch="//", marker="s", word="draft, q")
GUESS = State("#CC79A7", "◆", marker="D", word="your guess")
